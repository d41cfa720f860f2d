#!/usr/bin/env python3
"""Writes summaries.json: inputs of summary ops, and the summaries that TensorFlow makes of them
("cases") or writes into event files ("written").

Needs a Python with the package tensorflow. Run it from anywhere; it replaces the file beside it.
"""

import base64
import json
import os
import pathlib
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np  # pylint: disable=wrong-import-position
import tensorflow as tf  # pylint: disable=wrong-import-position

FILE = pathlib.Path(__file__).resolve().with_name("summaries.json")
TYPES = ["float32", "float64", "int32", "uint8", "int16", "int8", "int64", "bfloat16", "uint16",
         "float16", "uint32", "uint64"]


def text(value):
    return base64.b64encode(value).decode()


def as_json(tensor):
    if tensor.dtype == tf.string:
        # NumPy's own type for bytes would lose zeros at their end.
        values = [text(value)
                  for value in np.reshape(np.array(tensor.numpy(), object), [-1]).tolist()]
    else:
        values = [str(value) for value in
                  np.reshape(tf.cast(tensor, tf.float64).numpy(), [-1]).tolist()]
    return {"dtype": tensor.dtype.name, "shape": tensor.shape.as_list(), "values": values}


class Cases:
    def __init__(self):
        self.cases = []

    def add(self, name, op, inputs, **attrs):
        tensors = {key: tf.convert_to_tensor(value) if not isinstance(value, list)
                   or key != "inputs" else [tf.convert_to_tensor(v) for v in value]
                   for key, value in inputs.items()}
        flat = []
        for value in tensors.values():
            flat += value if isinstance(value, list) else [value]
        case = {"name": name, "op": op, "inputs": [as_json(tensor) for tensor in flat]}
        if "max_images" in attrs:
            case["max_images"] = attrs["max_images"]
        if "max_outputs" in attrs:
            case["max_outputs"] = attrs["max_outputs"]
        if "bad_color" in attrs:
            case["bad_color"] = attrs["bad_color"].tolist()
            attrs["bad_color"] = tf.make_tensor_proto(attrs["bad_color"])
        # Eager execution knows no attributes that are tensors.
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            arguments = {key: [tf.constant(v.numpy()) for v in value]
                         if isinstance(value, list) else tf.constant(value.numpy(), value.dtype)
                         for key, value in tensors.items()}
            summary = getattr(tf.raw_ops, op)(**arguments, **attrs)
            try:
                case["summary"] = text(session.run(summary))
            except tf.errors.InvalidArgumentError:
                case["error"] = "INVALID_ARGUMENT"
        self.cases.append(case)


class Written:
    """What an op writes into an event file, without its time."""

    def __init__(self):
        self.cases = []

    def add(self, name, op, inputs, **attrs):
        tensors = {key: tf.convert_to_tensor(value) for key, value in inputs.items()}
        case = {"name": name, "op": op, "inputs": [as_json(value) for value in tensors.values()],
                **attrs}
        step = {} if op == "ImportEvent" else {"step": tf.constant(7, tf.int64)}
        with tempfile.TemporaryDirectory() as folder:
            writer = tf.raw_ops.SummaryWriter(shared_name=name, container="")
            tf.raw_ops.CreateSummaryFileWriter(writer=writer, logdir=folder, max_queue=10,
                                               flush_millis=1000, filename_suffix=".v2")
            try:
                getattr(tf.raw_ops, op)(writer=writer, **step, **tensors, **attrs)
            except tf.errors.OpError as error:
                case["error"] = type(error).__name__
            tf.raw_ops.CloseSummaryWriter(writer=writer)
            path = os.path.join(folder, os.listdir(folder)[0])
            events = [tf.compat.v1.Event.FromString(record.numpy())
                      for record in tf.data.TFRecordDataset(path)]
        if "error" not in case:
            events[1].ClearField("wall_time")
            case["event"] = text(events[1].SerializeToString(deterministic=True))
        self.cases.append(case)


def written(cases):
    metadata = tf.compat.v1.SummaryMetadata()
    metadata.plugin_data.plugin_name = "scalars"
    for name, value in (("float", tf.constant([[1.0, 2.0]])), ("one", tf.constant(3)),
                        ("text", tf.constant(["a", "b"]))):
        cases.add(f"summary {name}", "WriteSummary",
                  {"tensor": value, "tag": "t", "summary_metadata": metadata.SerializeToString()})
    cases.add("summary, no metadata", "WriteSummary",
              {"tensor": tf.constant(1.5), "tag": "t", "summary_metadata": b""})
    for name in TYPES:
        cases.add(f"scalar {name}", "WriteScalarSummary",
                  {"tag": "s", "value": tf.cast(tf.constant(100.5), name)})
    cases.add("scalar, a vector", "WriteScalarSummary", {"tag": "s", "value": tf.constant([1.0])})
    values = tf.constant([[3.5, 0.0, 1e-15], [2.0, 2.0, 120.0]])
    for name in TYPES + ["bool"]:
        cases.add(f"histogram {name}", "WriteHistogramSummary",
                  {"tag": "h", "values": tf.cast(values, name)})
    cases.add("histogram, not finite", "WriteHistogramSummary",
              {"tag": "h", "values": tf.constant([1.0, np.nan])})
    color = tf.constant([255, 0, 0, 255], tf.uint8)
    ramp = np.arange(5 * 2 * 3 * 3, dtype=np.float64).reshape(5, 2, 3, 3)
    for name in ("uint8", "float16", "float32", "float64"):
        cases.add(f"image {name}", "WriteImageSummary",
                  {"tag": "i", "tensor": tf.cast(ramp, name), "bad_color": color}, max_images=2)
    cases.add("image, one", "WriteImageSummary",
              {"tag": "i", "tensor": tf.cast(ramp, tf.float32), "bad_color": color}, max_images=1)
    for shape in ((2, 5, 2), (2, 6), (5, 3, 1), (1, 0, 1)):
        sound = np.linspace(-1.1, 1.2, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        cases.add(f"audio {shape}", "WriteAudioSummary",
                  {"tag": "a", "tensor": sound, "sample_rate": 44100.0}, max_outputs=3)
    sound = np.linspace(-1, 1, 11, dtype=np.float32).reshape(1, 11)
    for rate in (0.0, 0.3, 1.5, 2.5, 44100.7):
        cases.add(f"audio at {rate}", "WriteAudioSummary",
                  {"tag": "a", "tensor": sound, "sample_rate": rate}, max_outputs=1)
    graph = tf.compat.v1.GraphDef()
    graph.node.add(name="x", op="NoOp")
    cases.add("graph", "WriteGraphSummary", {"tensor": graph.SerializeToString()})
    cases.add("graph, none", "WriteGraphSummary", {"tensor": b"\x0a\xff"})
    one = tf.raw_ops.ScalarSummary(tags="a", values=1.0)
    two = tf.raw_ops.ScalarSummary(tags=["b", "c"], values=[1.0, 2.0])
    cases.add("raw", "WriteRawProtoSummary", {"tensor": one})
    cases.add("raw, two", "WriteRawProtoSummary", {"tensor": tf.stack([one, two])})
    cases.add("raw, none", "WriteRawProtoSummary", {"tensor": b"\x0a\xff"})
    event = tf.compat.v1.Event(step=3, summary=tf.compat.v1.Summary.FromString(one.numpy()))
    cases.add("event", "ImportEvent", {"event": event.SerializeToString()})
    cases.add("event, none", "ImportEvent", {"event": b"\x0a\xff"})


def audio(cases):
    for shape in ((2, 5, 2), (2, 6), (5, 3, 1)):
        sound = np.linspace(-1.1, 1.2, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        for count in (1, 3):
            cases.add(f"audio {shape}, {count}", "AudioSummaryV2",
                      {"tag": "a", "tensor": sound, "sample_rate": tf.constant(44100.0)},
                      max_outputs=count)


def scalars(cases):
    for name in TYPES:
        cases.add(f"scalar {name}", "ScalarSummary",
                  {"tags": ["a", "b"], "values": tf.cast(tf.constant([1.5, 100.0]), name)})
    cases.add("scalar", "ScalarSummary", {"tags": "a/b", "values": tf.constant(0.25)})
    cases.add("scalar, none", "ScalarSummary",
              {"tags": tf.constant([], tf.string), "values": tf.constant([], tf.float32)})
    cases.add("scalar, not finite", "ScalarSummary",
              {"tags": ["a", "b"], "values": tf.constant([np.nan, -np.inf], tf.float64)})
    cases.add("scalar, other shapes", "ScalarSummary",
              {"tags": ["a", "b"], "values": tf.constant([1.0])})
    cases.add("scalar, other ranks", "ScalarSummary",
              {"tags": "a", "values": tf.constant([1.0])})


def histograms(cases):
    values = tf.constant([[-3.5, 0.0, 1e-15], [2.0, 2.0, 120.0]])
    for name in TYPES:
        cases.add(f"histogram {name}", "HistogramSummary",
                  {"tag": "h", "values": tf.cast(tf.abs(values) if "u" in name else values, name)})
    cases.add("histogram, none", "HistogramSummary",
              {"tag": "h", "values": tf.constant([], tf.float32)})
    cases.add("histogram, not finite", "HistogramSummary",
              {"tag": "h", "values": tf.constant([1.0, np.nan])})
    cases.add("histogram, two tags", "HistogramSummary",
              {"tag": ["h", "i"], "values": tf.constant([1.0])})


def merged(cases):
    one = tf.raw_ops.ScalarSummary(tags="a", values=1.0)
    two = tf.raw_ops.ScalarSummary(tags=["b", "c"], values=[1.0, 2.0])
    three = tf.raw_ops.HistogramSummary(tag="d", values=[1.0])
    cases.add("merge", "MergeSummary", {"inputs": [one, two, three]})
    cases.add("merge, a vector", "MergeSummary", {"inputs": [tf.stack([one, two]), three]})
    cases.add("merge, twice", "MergeSummary", {"inputs": [one, one]})
    cases.add("merge, no summary", "MergeSummary", {"inputs": [one, tf.constant(b"\x0a\xff")]})
    cases.add("merge, empty", "MergeSummary", {"inputs": [tf.constant(b"")]})


def images(cases):
    ramp = np.arange(2 * 2 * 3 * 3, dtype=np.float64).reshape(2, 2, 3, 3)
    for channels in (1, 3, 4):
        grey = np.arange(4 * channels, dtype=np.uint8).reshape(1, 2, 2, channels)
        cases.add(f"image, {channels} channels", "ImageSummary", {"tag": "i", "tensor": grey * 15})
    for name in ("float16", "float32", "float64"):
        cases.add(f"image {name}", "ImageSummary", {"tag": "i", "tensor": tf.cast(ramp / 7, name)})
        cases.add(f"image {name}, negative", "ImageSummary",
                  {"tag": "i", "tensor": tf.cast(ramp / 7 - 2, name)})
        bad = (ramp / 7).copy()
        bad[0, 0, 1, 2] = np.nan
        bad[1, 1, 2, 0] = -np.inf
        cases.add(f"image {name}, not finite", "ImageSummary",
                  {"tag": "i", "tensor": tf.cast(bad, name)})
    cases.add("image, colour of bad pixels", "ImageSummary",
              {"tag": "i", "tensor": tf.cast(bad, tf.float32)},
              bad_color=np.array([1, 2, 3, 4], np.uint8))
    cases.add("image, one", "ImageSummary", {"tag": "i", "tensor": tf.cast(ramp, tf.float32)},
              max_images=1)
    cases.add("image, many", "ImageSummary",
              {"tag": "i", "tensor": np.zeros((5, 1, 1, 1), np.uint8)}, max_images=4)
    cases.add("image, of no count", "ImageSummary",
              {"tag": "i", "tensor": np.zeros((0, 2, 2, 1), np.uint8)})
    cases.add("image, two channels", "ImageSummary",
              {"tag": "i", "tensor": np.zeros((1, 2, 2, 2), np.uint8)})
    cases.add("image, a matrix", "ImageSummary", {"tag": "i", "tensor": np.zeros((2, 2), np.uint8)})
    cases.add("image, bad_color too short", "ImageSummary",
              {"tag": "i", "tensor": tf.cast(ramp, tf.float32)},
              bad_color=np.array([1, 2], np.uint8))


def tensors(cases):
    metadata = tf.compat.v1.SummaryMetadata()
    metadata.plugin_data.plugin_name = "scalars"
    for name, value in (("float", tf.constant([[1.0, 2.0]])), ("one", tf.constant(3)),
                        ("bool", tf.constant([True, False])), ("none", tf.zeros([0, 2])),
                        ("text", tf.constant(["a", "b\xff"]))):
        cases.add(f"tensor {name}", "TensorSummaryV2",
                  {"tag": "t", "tensor": value,
                   "serialized_summary_metadata": metadata.SerializeToString()})
    cases.add("tensor, no metadata", "TensorSummaryV2",
              {"tag": "t", "tensor": tf.constant(1.0), "serialized_summary_metadata": b""})
    cases.add("tensor, two tags", "TensorSummaryV2",
              {"tag": ["t", "u"], "tensor": tf.constant(1.0), "serialized_summary_metadata": b""})


def main():
    cases = Cases()
    for group in (scalars, histograms, merged, images, tensors, audio):
        group(cases)
    events = Written()
    written(events)
    lines = ",\n".join(json.dumps(case) for case in cases.cases)
    event_lines = ",\n".join(json.dumps(case) for case in events.cases)
    FILE.write_text(f'{{"tensorflow": "{tf.__version__}", "cases": [\n{lines}\n],\n'
                    f'"written": [\n{event_lines}\n]}}\n')


if __name__ == "__main__":
    main()
