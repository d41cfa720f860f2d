#!/usr/bin/env python3
"""Writes the checkpoints of bundle_test.cc with TensorFlow: make_bundle.py [FOLDER]

bundle   a tensor of every type, a scalar, empty tensors, strings, and a partitioned variable
variant  a variant with a value, which Tandem does not read
objects  what tf.train.Checkpoint writes
"""

import os
import sys

import numpy as np
import tensorflow as tf

NUMBERS = [
    "float32", "float64", "int32", "uint8", "int16", "int8", "complex64", "int64", "bool", "qint8",
    "quint8", "qint32", "bfloat16", "qint16", "quint16", "uint16", "complex128", "float16", "uint32",
    "uint64", "float8_e5m2", "float8_e4m3fn",
]


def numbers(name):
    values = tf.reshape(tf.range(6), [2, 3])
    if name.startswith("q"):
        return tf.bitcast(tf.cast(values, tf.as_dtype(name[1:])),
                          tf.as_dtype(name))
    if name == "bool":
        return values % 2 == 1
    if name.startswith("float8"):
        values = tf.cast(values, tf.float32)
    return tf.cast(values, tf.as_dtype(name))


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    tensors = {name: numbers(name) for name in NUMBERS}
    tensors["empty"] = tf.zeros([0, 3])
    tensors["empty_strings"] = tf.zeros([0], tf.string)
    tensors["scalar"] = tf.constant(2.5)
    tensors["strings"] = tf.constant([["ab", ""], ["c", "x" * 300]])
    names = list(tensors)
    values = list(tensors.values())
    slices = [""] * len(names)
    rows = tf.reshape(tf.range(20.0), [4, 5])
    names += ["parts", "parts"]
    slices += ["4 5 0,1:-", "4 5 1,3:-"]
    values += [rows[:1], rows[1:]]
    tf.raw_ops.SaveV2(prefix=os.path.join(folder, "bundle"), tensor_names=names,
                      shape_and_slices=slices, tensors=values)

    handle = tf.raw_ops.TensorListFromTensor(tensor=tf.constant([1.0, 2.0]),
                                             element_shape=tf.constant([], tf.int32))
    tf.raw_ops.SaveV2(prefix=os.path.join(folder, "variant"), tensor_names=["list", "number"],
                      shape_and_slices=["", ""], tensors=[handle, tf.constant(1.0)])

    tf.train.Checkpoint(step=tf.Variable(np.int64(7)),
                        layer=tf.train.Checkpoint(w=tf.Variable([1.0, 2.0]))).write(
                            os.path.join(folder, "objects"))


if __name__ == "__main__":
    main()
