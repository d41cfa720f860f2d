#!/usr/bin/env python3
"""Writes the record files of record_test.cc with TensorFlow: make_records.py [FOLDER]"""

import os
import sys

import tensorflow as tf

RECORDS = [b"abc", b"", bytes(range(256)) * 2, b"tandem " * 100]


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for compression in ["", "ZLIB", "GZIP"]:
        name = "records" + ("." + compression.lower() if compression else "") + ".tfrecord"
        options = tf.io.TFRecordOptions(compression_type=compression)
        with tf.io.TFRecordWriter(os.path.join(folder, name), options) as writer:
            for record in RECORDS:
                writer.write(record)


if __name__ == "__main__":
    main()
