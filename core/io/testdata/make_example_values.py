#!/usr/bin/env python3
"""Writes example_values.json: serialized examples and what TensorFlow parses from them.

Needs a Python with the tensorflow package. Run it from anywhere; it replaces the file beside it.

A case holds serialized examples (hexadecimal), specifications, and either the expected tensors of
each feature or the word "error". Strings are hexadecimal.
"""

import json
import os
import pathlib
import random
import struct

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np  # pylint: disable=wrong-import-position
import tensorflow as tf  # pylint: disable=wrong-import-position

FILE = pathlib.Path(__file__).resolve().with_name("example_values.json")
TYPES = {"float32": tf.float32, "int64": tf.int64, "string": tf.string}


# The wire form by hand, for what TensorFlow's own messages would never write.

def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7f | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def entry(key, value):
    return field(1, field(1, key) + field(2, value))


def floats(*values, packed=True):
    if packed:
        return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
    return field(2, b"".join(b"\x0d" + struct.pack("<f", v) for v in values))


def ints(*values, packed=True):
    values = [v % 2**64 for v in values]
    if packed:
        return field(3, field(1, b"".join(varint(v) for v in values)))
    return field(3, b"".join(b"\x08" + varint(v) for v in values))


def strings(*values):
    return field(1, b"".join(field(1, v) for v in values))


def example(*entries):
    return field(1, b"".join(entries))


def sequence(context, *lists):
    return field(1, context) + field(2, b"".join(lists))


def feature_list(key, *features):
    return entry(key, b"".join(field(1, f) for f in features))


# Specifications as in the file, and as TensorFlow's.

def spec(form, key, dtype, shape=(), default=None, splits="int64", allow_missing=True):
    return {"form": form, "key": key, "dtype": dtype, "shape": list(shape), "default": default,
            "splits": splits, "allow_missing": allow_missing}


def tensorflow_spec(s):
    dtype = TYPES[s["dtype"]]
    if s["form"] == "fixed":
        return tf.io.FixedLenFeature(s["shape"], dtype, s["default"])
    if s["form"] == "padded":
        return tf.io.FixedLenSequenceFeature(s["shape"], dtype, s["allow_missing"], s["default"])
    if s["form"] == "sparse":
        return tf.io.VarLenFeature(dtype)
    return tf.io.RaggedFeature(dtype, row_splits_dtype=tf.as_dtype(s["splits"]))


def array(tensor):
    a = tensor.numpy() if hasattr(tensor, "numpy") else np.asarray(tensor)
    a = np.asarray(a)
    data = [v.hex() if isinstance(v, bytes) else v.item() if hasattr(v, "item") else v
            for v in a.reshape(-1)]
    return {"shape": list(a.shape), "data": data}


def parsed(tensor, lengths=None):
    if isinstance(tensor, tf.SparseTensor):
        return {"values": array(tensor.values), "indices": array(tensor.indices),
                "dense_shape": array(tensor.dense_shape)}
    if isinstance(tensor, tf.RaggedTensor):
        result = {"values": array(tensor.flat_values), "row_splits": array(tensor.row_splits)}
        if tensor.ragged_rank == 2:
            result["inner_row_splits"] = array(tensor.values.row_splits)
        return result
    result = {"values": array(tensor)}
    if lengths is not None:
        result["lengths"] = array(lengths)
    return result


cases = []


def add(name, examples, features):
    case = {"name": name, "examples": [e.hex() for e in examples], "features": features}
    try:
        serialized = tf.constant(examples, tf.string, [len(examples)])
        result = tf.io.parse_example(serialized, {f["key"]: tensorflow_spec(f) for f in features})
        case["expected"] = [parsed(result[f["key"]]) for f in features]
    except tf.errors.InvalidArgumentError:
        case["expected"] = "error"
    cases.append(case)


def add_forms(name, *examples):
    """A case for each form of the feature "a", of type float32."""
    for form in (spec("fixed", "a", "float32", [2], [8.0, 9.0]),
                 spec("fixed", "a", "float32", [2]),
                 spec("padded", "a", "float32"), spec("padded", "a", "float32", [2]),
                 spec("sparse", "a", "float32"), spec("ragged", "a", "float32")):
        add(name, list(examples), [form])


def add_sequence(name, examples, context, lists):
    case = {"name": name, "examples": [e.hex() for e in examples], "context": context,
            "lists": lists}
    try:
        contexts, features, lengths = tf.io.parse_sequence_example(
            examples, {f["key"]: tensorflow_spec(f) for f in context},
            {f["key"]: tensorflow_spec(f) for f in lists})
        case["expected"] = {
            "context": [parsed(contexts[f["key"]]) for f in context],
            "lists": [parsed(features[f["key"]], lengths.get(f["key"])) for f in lists]}
    except tf.errors.InvalidArgumentError:
        case["expected"] = "error"
    cases.append(case)


def add_list_forms(name, *examples):
    for form in (spec("padded", "a", "float32", [2], allow_missing=False),
                 spec("padded", "a", "float32", [2]),
                 spec("sparse", "a", "float32"), spec("ragged", "a", "float32")):
        add_sequence(name, list(examples), [], [form])


def add_context_forms(name, *examples):
    for form in (spec("fixed", "a", "float32", [2]), spec("sparse", "a", "float32"),
                 spec("ragged", "a", "float32")):
        add_sequence(name, list(examples), [form], [])


def messages():
    """Examples as TensorFlow's own messages, of every type and form at once."""
    rng = random.Random(1)
    made, sequences = [], []
    for i in range(7):
        feature = {
            "f": tf.train.Feature(float_list=tf.train.FloatList(
                value=[rng.uniform(-9, 9) for _ in range(6)])),
            "i": tf.train.Feature(int64_list=tf.train.Int64List(
                value=[rng.randrange(-2**63, 2**63) >> rng.randrange(64) for _ in range(i)])),
            "s": tf.train.Feature(bytes_list=tf.train.BytesList(
                value=[rng.randbytes(rng.randrange(200)) for _ in range(rng.randrange(4))])),
            "unused": tf.train.Feature(),
        }
        if i == 3:
            del feature["i"], feature["s"]
        made.append(tf.train.Example(features=tf.train.Features(feature=feature)))
        steps = [tf.train.Feature(int64_list=tf.train.Int64List(value=[j, -j]))
                 for j in range(rng.randrange(4))]
        words = [tf.train.Feature(bytes_list=tf.train.BytesList(
            value=[rng.randbytes(3) for _ in range(rng.randrange(3))]))
            for _ in range(rng.randrange(5))]
        sequences.append(tf.train.SequenceExample(
            context=tf.train.Features(feature=feature),
            feature_lists=tf.train.FeatureLists(feature_list={
                "steps": tf.train.FeatureList(feature=steps),
                "words": tf.train.FeatureList(feature=words)})))
    wanted = [spec("fixed", "f", "float32", [2, 3]), spec("sparse", "i", "int64"),
              spec("ragged", "s", "string", splits="int32")]
    serialized = [e.SerializeToString(deterministic=True) for e in made]
    add("messages", serialized, wanted)
    add("messages, padded", serialized, [spec("padded", "i", "int64", default=-1),
                                         spec("padded", "s", "string")])
    add("no examples", [], wanted)
    serialized = [e.SerializeToString(deterministic=True) for e in sequences]
    lists = [spec("padded", "steps", "int64", [2]), spec("ragged", "words", "string")]
    add_sequence("messages", serialized, wanted, lists)
    add_sequence("messages", serialized, [], [spec("ragged", "steps", "int64", splits="int32"),
                                              spec("sparse", "words", "string")])
    add_sequence("messages", serialized, [], [spec("sparse", "steps", "int64"),
                                              spec("padded", "words", "string")])


def main():
    a = lambda *values: entry(b"a", floats(*values))
    none = entry(b"a", b"")
    add_forms("one", example(a(1, 2)))
    add_forms("batch", example(a(1, 2)), example(), example(a(3, 4)))
    add_forms("different lengths", example(a(1, 2)), example(a(5)), example(), example(a(3, 4, 5)))
    add_forms("nothing at all", b"")
    add_forms("no kind", example(none))
    add_forms("empty list", example(entry(b"a", field(2, b""))), example(a(1, 2)))
    add_forms("empty packed list", example(entry(b"a", field(2, field(1, b"")))))
    add_forms("wrong type", example(entry(b"a", ints(1, 2))))
    add_forms("wrong type, empty", example(entry(b"a", field(3, b""))))
    add_forms("last duplicate wins", example(a(1, 2), entry(b"b", ints(5)), a(3, 4)))
    add_forms("last duplicate has no kind", example(a(1, 2), none))
    add_forms("last duplicate has wrong type", example(a(1, 2), entry(b"a", ints(1, 2))))
    add_forms("first duplicate has wrong type", example(entry(b"a", ints(1, 2)), a(1, 2)))
    add_forms("features in two parts", example(a(1, 2)) + example(a(3, 4)))
    add_forms("unpacked", example(entry(b"a", floats(1, 2, packed=False))))
    add_forms("two kinds", example(entry(b"a", floats(1, 2) + ints(1, 2))))
    add_forms("two kinds, wrong first", example(entry(b"a", ints(1, 2) + floats(1, 2))))
    add_forms("value before key", example(field(1, field(2, floats(1, 2)) + field(1, b"a"))))
    add_forms("unknown field in the example", example(a(1, 2)) + b"\x18\x05")
    add_forms("cut", example(a(1, 2))[:-1])
    add_forms("no example", b"hello")
    for dtype, values in (("int64", ints), ("string", strings)):
        many = [0, 1, -1, 127, 128, -2**63, 2**63 - 1] if dtype == "int64" else [
            b"", b"x", b"\x00\xff", b"long" * 50]
        serialized = [example(entry(b"a", values(*many))), example(),
                      example(entry(b"a", values(*many[:2])))]
        for form in ("padded", "sparse", "ragged"):
            add(dtype, serialized, [spec(form, "a", dtype)])
        add(dtype, serialized[:1], [spec("fixed", "a", dtype, [len(many)])])
    add("unpacked", [example(entry(b"a", ints(1, -2, 300, packed=False)))],
        [spec("ragged", "a", "int64")])
    add("scalars", [example(a(1)), example(a(2))], [spec("fixed", "a", "float32")])
    add("a shape without elements", [example(a())], [spec("fixed", "a", "float32", [0, 3])])

    step = lambda *lists: sequence(b"", *lists)
    a_list = lambda *features: feature_list(b"a", *features)
    add_list_forms("two steps", step(a_list(floats(1, 2), floats(3, 4))))
    add_list_forms("batch", step(a_list(floats(1, 2), floats(3, 4))), step(a_list(floats(5, 6))))
    add_list_forms("missing list", step(a_list(floats(1, 2), floats(3, 4))), step(),
                   step(a_list(floats(5, 6))))
    add_list_forms("no steps", step(a_list(floats(1, 2), floats(3, 4))), step(a_list()),
                   step(a_list(floats(5, 6))))
    add_list_forms("different lengths", step(a_list(floats(1), floats(), b"", floats(3, 4))),
                   step(a_list(floats(5, 6, 7))))
    add_list_forms("step without kind", step(a_list(floats(1, 2), b"", floats(3, 4))))
    add_list_forms("step of wrong type", step(a_list(floats(1, 2), ints(3, 4))))
    add_list_forms("empty step of wrong type", step(a_list(floats(1, 2), field(3, b""))))
    add_list_forms("last duplicate wins", step(a_list(floats(1, 2), floats(3, 4)),
                                               a_list(floats(5, 6))))
    add_list_forms("last duplicate is empty", step(a_list(floats(1, 2)), a_list()))
    add_list_forms("first duplicate has wrong type", step(a_list(ints(1, 2)),
                                                          a_list(floats(5, 6))))
    add_list_forms("lists in two parts", step(a_list(floats(1, 2), floats(3, 4))) +
                   step(a_list(floats(5, 6))))
    add_context_forms("one", sequence(a(1, 2)), sequence(a(3, 4)))
    add_context_forms("last duplicate wins", sequence(a(1, 2) + a(3, 4)))
    add_context_forms("wrong type", sequence(entry(b"a", ints(1, 2))))
    add_context_forms("first duplicate has wrong type",
                      sequence(entry(b"a", ints(1, 2)) + a(1, 2)))
    add_context_forms("different lengths", sequence(a(1, 2, 3)), sequence(a(1)))
    messages()
    text = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    FILE.write_text(f'{{"tensorflow":"{tf.__version__}","cases":[\n{text}\n]}}\n')


if __name__ == "__main__":
    main()
