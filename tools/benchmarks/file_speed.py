#!/usr/bin/env python3
"""Speed of files, beside TensorFlow: file_speed.py PROGRAM [--folder=FOLDER] [--rounds=N]

Saves and restores 1 GiB in 16 tensors and reads record files, each in turn: a plain file, Tandem
(PROGRAM is tools/benchmarks:file_speed), TensorFlow. Prints every time, and medians as ratios to the
plain file's and to TensorFlow's. FOLDER says which disk; it needs 5 GB.

    bazel build //tools/benchmarks:file_speed
    $(tools/lib/venv.sh) tools/benchmarks/file_speed.py bazel-bin/tools/benchmarks/file_speed
"""

import argparse
import contextlib
import glob
import os
import shutil
import statistics
import subprocess
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import numpy as np  # pylint: disable=wrong-import-position
import tensorflow as tf  # pylint: disable=wrong-import-position

TENSORS = 16
FLOATS = 16 << 20
NAMES = [f"layer{i}/kernel" for i in range(TENSORS)]


@contextlib.contextmanager
def stopwatch(times, name):
    start = time.monotonic()
    yield
    times.setdefault(name, []).append(time.monotonic() - start)


def sync(prefix):
    """TensorFlow leaves this to the system; a save that survives a crash needs it."""
    for path in glob.glob(prefix + ".*") + [os.path.dirname(prefix)]:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


class Bench:

    def __init__(self, program, folder):
        self.program = os.path.abspath(program)
        self.folder = folder
        self.times = {}

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, name, action, *words):
        result = subprocess.run([self.program, action, *words], check=True,
                                stdout=subprocess.PIPE)
        if name:
            self.times.setdefault(name, []).append(float(result.stdout))

    def forget(self, pattern):
        self.run(None, "forget", *glob.glob(self.path(pattern)))

    def remove(self, pattern):
        for path in glob.glob(self.path(pattern)):
            os.remove(path)

    def save(self, who):
        if who == "plain":
            self.run("save: plain write and sync", "plain_write", self.path(who))
        elif who == "tandem":
            self.run("save: Tandem", "save", self.path(who))
        elif who == "saver":
            with stopwatch(self.times, "save: TensorFlow's Saver, then sync"):
                with stopwatch(self.times, "save: TensorFlow's Saver"):
                    tf.raw_ops.SaveV2(prefix=self.path(who), tensor_names=NAMES,
                                      shape_and_slices=[""] * TENSORS, tensors=self.tensors)
                sync(self.path(who))
        else:
            with stopwatch(self.times, "save: tf.train.Checkpoint, then sync"):
                self.checkpoint.write(self.path(who))
                sync(self.path(who))

    def restore(self, who, kind):
        if who == "plain":
            self.run(f"{kind}: plain read", "plain_read", self.path(who))
        elif who == "tandem":
            self.run(f"{kind}: Tandem", "restore", self.path(who))
        elif who == "saver":
            with stopwatch(self.times, f"{kind}: TensorFlow's Saver"):
                restored = tf.raw_ops.RestoreV2(
                    prefix=self.path(who), tensor_names=NAMES, shape_and_slices=[""] * TENSORS,
                    dtypes=[tf.float32] * TENSORS)
            del restored
        else:
            with stopwatch(self.times, f"{kind}: tf.train.Checkpoint"):
                self.checkpoint.read(self.path(who)).assert_consumed()

    def checkpoints(self, round_number):
        """Each writes new files, when the disk has nothing else to do. A disk may be quick until some
        credit is used up, so that in each round another one comes first."""
        everybody = ["plain", "tandem", "saver", "object"]
        first = round_number % len(everybody)
        everybody = everybody[first:] + everybody[:first]
        for who in everybody:
            self.remove(who + "*")
        for who in everybody:
            os.sync()
            self.save(who)
        for who in everybody:
            self.restore(who, "restore from the cache")
        for who in everybody:
            self.forget(who + "*")
            self.restore(who, "restore from the disk")

    def records(self, size, path):
        name = f"records of {size} bytes"
        self.run(f"{name}: Tandem's reader", "read_records", path)
        self.run(f"{name}: Tandem's pipeline", "pipe_records", path)
        options = tf.data.Options()
        options.threading.private_threadpool_size = 1
        dataset = tf.data.TFRecordDataset(path).with_options(options)
        with stopwatch(self.times, f"{name}: tf.data, in batches of 256"):
            for _ in dataset.batch(256):
                pass
        with stopwatch(self.times, f"{name}: tf_record_iterator"):
            for _ in tf.compat.v1.io.tf_record_iterator(path):
                pass

    def report(self):
        print("| what | seconds | median |\n| --- | --- | --- |")
        for name, seconds in self.times.items():
            each = ", ".join(f"{s:.2f}" for s in seconds)
            print(f"| {name} | {each} | {statistics.median(seconds):.3f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--folder", default=None)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="file_speed.", dir=arguments.folder)
    try:
        bench = Bench(arguments.program, folder)
        bench.tensors = [tf.random.normal([FLOATS]) for _ in range(TENSORS)]
        bench.checkpoint = tf.train.Checkpoint(
            **{f"layer{i}": tf.Variable(tensor) for i, tensor in enumerate(bench.tensors)})
        files = {}
        for size in (100, 4096, 200000):
            files[size] = bench.path(f"records{size}")
            record = np.random.default_rng(1).bytes(size)
            with tf.io.TFRecordWriter(files[size]) as writer:
                for _ in range((256 << 20) // (size + 16) // (8 if size < 1000 else 1)):
                    writer.write(record)
        for _ in range(arguments.rounds):
            for size, path in files.items():
                bench.records(size, path)
        for round_number in range(arguments.rounds):
            bench.checkpoints(round_number)
        bench.report()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
