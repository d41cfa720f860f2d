#!/usr/bin/env python3
"""Writes tensorflow.tfevents: one value of each kind, as TensorFlow 2 and TensorBoard log it.

Needs a Python with the packages tensorflow and tensorboard. Run it from anywhere; it replaces the
file beside it. The values are repeated in tensorflow_events_test.cc.
"""

import os
import pathlib
import shutil
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np  # pylint: disable=wrong-import-position
import tensorflow as tf  # pylint: disable=wrong-import-position
from tensorboard.plugins.hparams import api as hp  # pylint: disable=wrong-import-position

FILE = pathlib.Path(__file__).resolve().with_name("tensorflow.tfevents")


def main():
    with tempfile.TemporaryDirectory() as folder:
        writer = tf.summary.create_file_writer(folder)
        with writer.as_default():
            hp.hparams({"rate": 0.25, "optimizer": "adam", "nesterov": True}, trial_id="run1")
            tf.summary.scalar("loss", 0.5, step=1, description="The *mean*.")
            tf.summary.scalar("loss", float("nan"), step=2)
            tf.summary.scalar("loss", float("-inf"), step=3)
            tf.summary.histogram("weights", np.arange(100, dtype=np.float32) / 8, step=4)
            tf.summary.histogram("equal", [2.5, 2.5], step=4)
            tf.summary.image("ramp", np.arange(12, dtype=np.uint8).reshape(1, 3, 4, 1), step=5)
            tf.summary.image("floats", np.linspace(-0.5, 1.5, 12, dtype=np.float32)
                             .reshape(2, 1, 2, 3), step=5)
            tf.summary.text("note", "**bold** ä", step=6)
            tf.summary.text("table", [["a", "b"], ["c", "d"]], step=6)
            with tf.Graph().as_default() as graph:
                tf.constant(1, name="one")
            tf.summary.graph(graph)
        writer.close()
        found = list(pathlib.Path(folder).iterdir())
        assert len(found) == 1
        shutil.copy(found[0], FILE)


if __name__ == "__main__":
    main()
