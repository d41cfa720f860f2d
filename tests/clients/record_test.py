"""Record files, in both directions."""

import json
import os

import numpy as np
import tensorflow as tf

from side_by_side import SideBySide

COMPRESSIONS = ["", "ZLIB", "GZIP"]


def some_records():
    random = np.random.default_rng(1)
    sizes = [0, 1, 2, 100, 65535, 65536, 1 << 20, 3, 0] + random.integers(0, 5000, 300).tolist()
    return [random.bytes(size) for size in sizes]


def write(path, records, compression):
    with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(compression_type=compression)) as writer:
        for record in records:
            writer.write(record)


def read(path, compression):
    return [record.numpy() for record in tf.data.TFRecordDataset(path, compression_type=compression)]


class Records(SideBySide):

    def test_tensorflow_writes_tandem_copies_tensorflow_reads(self):
        records = some_records()
        for first in COMPRESSIONS:
            written = self.path("written" + first)
            write(written, records, first)
            for second in COMPRESSIONS:
                with self.subTest(first=first, second=second):
                    copied = self.path("copied" + second)
                    self.formats("copy_records", written, first, copied, second)
                    self.assertTrue(read(copied, second) == records, "the records differ")
                    self.assertTrue(
                        list(tf.compat.v1.io.tf_record_iterator(
                            copied, tf.io.TFRecordOptions(compression_type=second))) == records,
                        "the records differ")

    def test_an_uncompressed_copy_is_the_same_file(self):
        written, copied = self.path("written"), self.path("copied")
        write(written, some_records(), "")
        self.formats("copy_records", written, "", copied, "")
        with open(written, "rb") as a, open(copied, "rb") as b:
            self.assertTrue(a.read() == b.read(), "the files differ")

    def test_no_records(self):
        for compression in COMPRESSIONS:
            with self.subTest(compression):
                written, copied = self.path("none" + compression), self.path("copy" + compression)
                write(written, [], compression)
                self.formats("copy_records", written, compression, copied, compression)
                self.assertEqual(read(copied, compression), [])

    def test_members_of_a_gzip_file_one_after_the_other(self):
        whole, copied = self.path("whole"), self.path("copied")
        with open(whole, "wb") as file:
            for part in (b"first", b"second"):
                write(self.path("part"), [part], "GZIP")
                with open(self.path("part"), "rb") as one:
                    file.write(one.read())
        self.formats("copy_records", whole, "GZIP", copied, "")
        self.assertEqual(read(copied, ""), [b"first", b"second"])

    def test_the_program_counts_and_finds_damage(self):
        path = self.path("records")
        write(path, [b"x" * 100] * 5, "")
        counted = json.loads(self.call("TANDEM", "records", "count", path, "--json"))
        self.assertEqual(counted["records"], 5)
        size = os.path.getsize(path)
        with open(path, "r+b") as file:
            file.seek(size // 2)
            byte = file.read(1)
            file.seek(size // 2)
            file.write(bytes([byte[0] ^ 1]))
        with self.assertRaises(tf.errors.DataLossError):
            read(path, "")
        self.assertIn(path, self.call("TANDEM", "records", "verify", path, code=1))
