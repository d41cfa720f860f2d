#!/usr/bin/env python3
"""Writes the corpora of the fuzz targets: make_corpus.py [FOLDER]

Needs TensorFlow and Pillow, which the environment of tools/lib/venv.sh has. What a target's bytes mean
stands at the head of its source. Run it again only to add something: files that the fuzzers found are
added by hand, as NAME.found.
"""

import io
import os
import pathlib
import struct
import sys
import tempfile
import zlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np  # pylint: disable=wrong-import-position
import tensorflow as tf  # pylint: disable=wrong-import-position
from PIL import Image  # pylint: disable=wrong-import-position

v1 = tf.compat.v1
FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus")
SCRATCH = pathlib.Path(tempfile.mkdtemp())


def add(target, name, contents):
    path = FOLDER / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(contents)


def records():
    def written(compression):
        path = str(SCRATCH / "records")
        with tf.io.TFRecordWriter(path, compression) as writer:
            for record in (b"abc", b"", b"x" * 300):
                writer.write(record)
        return pathlib.Path(path).read_bytes()
    plain = written("")
    literal = bytes([len(plain) % 128 + 128, len(plain) // 128, 61 << 2])
    block = literal + struct.pack("<H", len(plain) - 1) + plain
    for name, choice, contents in (
            ("plain", 0, plain), ("plain_skip", 4, plain[:40] + b"damage" + plain[20:]),
            ("plain_small_buffer", 12, plain), ("zlib", 1, written("ZLIB")),
            ("gzip", 2, written("GZIP")), ("gzip_members", 2, written("GZIP") * 2),
            ("snappy", 3, struct.pack(">I", len(block)) + block)):
        add("record", name, bytes([choice]) + contents)


def saved(name, tensors, slices=None):
    """The index, the first block of it, and the data of a bundle."""
    prefix = str(SCRATCH / name)
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=list(tensors),
                      shape_and_slices=slices or [""] * len(tensors),
                      tensors=[tf.constant(value) for value in tensors.values()])
    index = pathlib.Path(prefix + ".index").read_bytes()
    data = pathlib.Path(prefix + ".data-00000-of-00001").read_bytes()
    # The first block begins at the file's start and ends before the metaindex, which is empty.
    metaindex = index.rfind(b"\x00\x00\x00\x00\x01\x00\x00\x00\x00\xc0\xf2\xa1\xb0")
    return index, index[:metaindex - 5], data


def bundles():
    def both(name, index, block, data):
        add("bundle", name, struct.pack("<H", len(index)) + index + data)
        add("bundle", name + "_block", struct.pack("<H", len(block)) + block + data)
    small = saved("small", {"a": np.float32([1, 2]), "b/c": np.int64(7), "d": np.array([b"x", b""])})
    both("small", *small)
    both("types", *saved("types", {
        str(np.dtype(dtype)): np.ones([2, 1], dtype)
        for dtype in (np.float16, np.float64, np.int8, np.uint64, np.complex64, bool)}))
    path = str(SCRATCH / "parts")
    value = np.arange(6, dtype=np.float32).reshape(3, 2)
    tf.raw_ops.SaveV2(prefix=path, tensor_names=["t", "t"],
                      shape_and_slices=["3 2 0,1:-", "3 2 1,2:-"],
                      tensors=[tf.constant(value[:1]), tf.constant(value[1:])])
    index = pathlib.Path(path + ".index").read_bytes()
    data = pathlib.Path(path + ".data-00000-of-00001").read_bytes()
    metaindex = index.rfind(b"\x00\x00\x00\x00\x01\x00\x00\x00\x00\xc0\xf2\xa1\xb0")
    both("parts", index, index[:metaindex - 5], data)
    tf.train.Checkpoint(w=tf.Variable([1.0]), inner=tf.train.Checkpoint(v=tf.Variable(2))).write(
        str(SCRATCH / "objects"))
    index = (SCRATCH / "objects.index").read_bytes()
    data = (SCRATCH / "objects.data-00000-of-00001").read_bytes()
    metaindex = index.rfind(b"\x00\x00\x00\x00\x01\x00\x00\x00\x00\xc0\xf2\xa1\xb0")
    both("objects", index, index[:metaindex - 5], data)

    index, block, _ = small
    add("table", "index", index)
    add("table", "block", block)
    add("table", "snappy", bytes([len(block), (len(block) - 1) << 2 & 0xff]) + block
        if len(block) <= 60 else
        bytes([len(block) % 128 + (128 if len(block) > 127 else 0)] +
              ([len(block) // 128] if len(block) > 127 else []) + [60 << 2, len(block) - 1]) + block)
    many = {f"layer{i}/kernel": np.float32(i) for i in range(40)}
    add("table", "many", saved("many", many)[0])


def features(ending=""):
    def kind(**lists):
        return tf.train.Feature(**lists)
    return {
        "f" + ending: kind(float_list=tf.train.FloatList(value=[1.5, -2])),
        "i" + ending: kind(int64_list=tf.train.Int64List(value=[3, -4])),
        "s" + ending: kind(bytes_list=tf.train.BytesList(value=[b"ab", b""])),
    }


def examples():
    for name, ending in (("sparse", ""), ("ragged", "r"), ("padded", "p"), ("fixed", "x")):
        add("example", name, tf.train.Example(
            features=tf.train.Features(feature=features(ending))).SerializeToString())
    lists = {key: tf.train.FeatureList(feature=[feature, feature])
             for ending in ("", "r", "p") for key, feature in features(ending).items()}
    add("example", "sequence", tf.train.SequenceExample(
        context=tf.train.Features(feature=features()),
        feature_lists=tf.train.FeatureLists(feature_list=lists)).SerializeToString())
    unpacked = b"\x0a\x13\x0a\x11\x0a\x01f\x12\x0c\x12\x0a\x0d\x00\x00\x80\x3f\x0d\x00\x00\x00\x40"
    tf.train.Example.FromString(unpacked)
    add("example", "unpacked", unpacked)


def events():
    with tf.summary.create_file_writer(str(SCRATCH / "events")).as_default():
        tf.summary.scalar("a", 1.5, 1)
        tf.summary.histogram("h", [1.0, 2.0], 2, buckets=2)
        tf.summary.text("t", "text", 3)
    path, = (SCRATCH / "events").iterdir()
    add("event", "file", path.read_bytes())
    for number, record in enumerate(tf.data.TFRecordDataset(str(path))):
        add("event", f"event{number}", record.numpy())
    event = tf.compat.v1.Event(step=4, wall_time=5)
    value = event.summary.value.add(tag="old")
    value.histo.CopyFrom(v1.HistogramProto(min=0, max=1, num=2, sum=1, bucket_limit=[0.5, 2],
                                           bucket=[1, 1]))
    add("event", "old_histogram", event.SerializeToString())


def images():
    random = np.random.default_rng(1)
    ramp = (np.arange(13 * 9 * 4).reshape(9, 13, 4) % 251).astype(np.uint8)

    def encoded(image, form, **options):
        out = io.BytesIO()
        image.save(out, form, **options)
        return out.getvalue()
    rgb = Image.fromarray(np.ascontiguousarray(ramp[:, :, :3]))
    for name, choice, contents in (
            ("gray.png", 0, tf.io.encode_png(ramp[:, :, :1]).numpy()),
            ("rgb.png", 3, tf.io.encode_png(ramp[:, :, :3]).numpy()),
            ("alpha.png", 4, tf.io.encode_png(ramp).numpy()),
            ("gray_alpha.png", 0, tf.io.encode_png(ramp[:, :, :2]).numpy()),
            ("deep.png", 8, tf.io.encode_png(ramp[:, :, :3].astype(np.uint16) * 257).numpy()),
            ("palette.png", 3, encoded(rgb.quantize(16), "PNG")),
            ("one_bit.png", 1, encoded(rgb.convert("1"), "PNG")),
            ("gray.jpg", 1, tf.io.encode_jpeg(ramp[:, :, :1]).numpy()),
            ("rgb.jpg", 3, tf.io.encode_jpeg(ramp[:, :, :3], format="rgb").numpy()),
            ("progressive.jpg", 0, encoded(rgb, "JPEG", progressive=True)),
            ("cmyk.jpg", 0, encoded(rgb.convert("CMYK"), "JPEG"))):
        add("image", name, bytes([choice]) + contents)
    del random
    # Interlaced, by hand: Pillow and TensorFlow do not write it. Two by two pixels, gray.
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(
            ">I", zlib.crc32(kind + data))
    passes = b"\0\x10" + b"\0\x20" + b"\0\x30\x40"
    add("image", "interlaced.png", b"\0\x89PNG\r\n\x1a\n" + chunk(
        b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 0, 0, 0, 1)) + chunk(
            b"IDAT", zlib.compress(passes)) + chunk(b"IEND", b""))


def arrays():
    def npy(value):
        out = io.BytesIO()
        np.save(out, value)
        return out.getvalue()
    add("array", "float.npy", npy(np.float32([[1, 2], [3, 4]])))
    add("array", "fortran.npy", npy(np.asfortranarray(np.arange(6.0).reshape(2, 3))))
    add("array", "text.npy", npy(np.array(["a", "\u00e4b"])))
    add("array", "bytes.npy", npy(np.array([b"a", b"bcd"])))
    add("array", "bool.npy", npy(np.array(True)))
    for name, save in (("stored.npz", np.savez), ("deflated.npz", np.savez_compressed)):
        out = io.BytesIO()
        save(out, a=np.int32([1, 2, 3]), b=np.float64(2))
        add("array", name, out.getvalue())


def graphs():
    def both(name, graph):
        add("graph", name + ".pb", graph.SerializeToString())
        from google.protobuf import text_format  # pylint: disable=import-outside-toplevel
        add("graph", name + ".pbtxt", text_format.MessageToString(graph, as_one_line=True).encode())
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 4], "x")
        w = v1.get_variable("w", [4, 3], initializer=v1.zeros_initializer())
        v1.nn.softmax(tf.reshape(tf.matmul(x, w), [-1, 3]), name="y")
        both("softmax", graph.as_graph_def())
    with tf.Graph().as_default() as graph:
        images = v1.placeholder(tf.float32, [2, 8, 8, 3])
        filters = tf.constant(np.ones([3, 3, 3, 4], np.float32))
        pooled = tf.nn.max_pool2d(tf.nn.conv2d(images, filters, 1, "SAME"), 2, 2, "VALID")
        parts = tf.split(tf.concat([pooled, pooled], 3), 2, 3)
        tf.strided_slice(tf.transpose(parts[0], [0, 3, 1, 2]), [0, 1], [2, 3], name="z")
        both("shapes", graph.as_graph_def())
    with tf.Graph().as_default() as graph:
        v1.disable_control_flow_v2()
        v1.while_loop(lambda i: i < 10, lambda i: i + 1, [tf.constant(0)], name="loop")
        tf.cond(tf.constant(True), lambda: tf.constant(1), lambda: tf.constant(2))
        both("frames", graph.as_graph_def())
        v1.enable_control_flow_v2()

    @tf.function
    def function(n):
        return tf.while_loop(lambda i: i < n, lambda i: (i * 2 + 1,), [tf.constant(0)])
    both("functions", function.get_concrete_function(tf.TensorSpec([], tf.int32)).graph
         .as_graph_def())
    add("graph", "tensor", tf.make_tensor_proto(np.int32([1, 2, 3])).SerializeToString())
    add("graph", "strings", tf.make_tensor_proto([b"a", b"bc"]).SerializeToString())
    add("graph", "repeated", tf.make_tensor_proto(2.5, shape=[3, 4]).SerializeToString())


def cluster_configs():
    for name, text in (
            ("tf_config", '{"cluster": {"worker": ["a:1", "b:2"], "ps": {"0": "c:3"}}, '
                          '"task": {"type": "worker", "index": "1"}, "environment": "cloud"}'),
            ("bare", '{"chief": ["localhost:2222"], "worker": ["[::1]:1"]}'),
            ("evaluator", '{"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator"}}'),
            ("address", "[2001:db8::1]:65535"),
            ("cluster_def", 'job { name: "worker" tasks { key: 0 value: "a:1" } }'),
            ("server_def", 'cluster { job { name: "w" tasks { key: 2 value: "a:1" } } } '
                           'job_name: "w" task_index: 2 protocol: "grpc"')):
        add("cluster_config", name, text.encode())
    cluster = tf.train.ClusterSpec({"worker": ["a:1", "b:2"]}).as_cluster_def()
    add("cluster_config", "binary_cluster", cluster.SerializeToString())
    add("cluster_config", "binary_server", tf.train.ServerDef(
        cluster=cluster, job_name="worker", task_index=1, protocol="grpc").SerializeToString())


def checkpoint_states():
    add("checkpoint_state", "state",
        b'model_checkpoint_path: "model-2"\nall_model_checkpoint_paths: "model-1"\n'
        b'all_model_checkpoint_paths: "model-2"\nall_model_checkpoint_timestamps: 1700000000.5\n'
        b'all_model_checkpoint_timestamps: 1700000001\nlast_preserved_timestamp: 1.5\n')
    add("checkpoint_state", "absolute", b'model_checkpoint_path: "/a/b/../model"\n')
    reader = tf.train.load_checkpoint(str(SCRATCH / "objects"))
    add("checkpoint_state", "objects", reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"))
    add("checkpoint_state", "slice", b"4 5 0,2:-")
    add("checkpoint_state", "slice3", b"4 5 6 -:1,2:0,0")


def field(number, contents):
    """A field of a message with bytes in it; fewer than 16384."""
    size = len(contents)
    length = bytes([size]) if size < 128 else bytes([size % 128 + 128, size // 128])
    return bytes([number << 3 | 2]) + length + contents


def messages():
    """The first byte says which message it is; see messages_fuzz.cc."""
    values = [(name, tf.make_tensor_proto(value).SerializeToString()) for name, value in (
        (b"x:0", np.arange(600, dtype=np.float32)), (b"b:0", np.array([True, False])),
        (b"s:0", np.array([b"a", b"", b"xyz"])), (b"c:0", np.float32(1)), (b"e:0", np.int64([])))]
    named = [field(1, name) + field(2, value) for name, value in values]
    add("messages", "received", bytes([0]) + b"\x18\x05" + field(1, values[0][1]))
    add("messages", "dead", bytes([5]) + b"\x10\x01")
    add("messages", "step", bytes([41]) + field(1, b"session") + field(3, b"y:0") +
        b"".join(field(2, each) for each in named) + field(4, b"z") + b"\x40\x07")
    add("messages", "results", bytes([42]) + b"".join(field(1, each) for each in named) +
        field(2, b"") + b"\x18\x03" + field(4, b"why"))
    add("messages", "call", bytes([43]) + field(1, b"session") + b"\x10\x03" +
        b"".join(field(3, value) for _, value in values))
    add("messages", "called", bytes([44]) + b"".join(field(1, value) for _, value in values))


def random_graphs():
    """Choices, a byte or two for each; see random_graph_fuzz.cc."""
    for seed in range(6):
        add("random_graph", f"choices{seed}", np.random.default_rng(seed).bytes(150))


def main():
    for make in (records, bundles, examples, events, images, arrays, graphs, cluster_configs,
                 checkpoint_states, messages, random_graphs):
        make()


if __name__ == "__main__":
    main()
