#!/usr/bin/env python3
"""Writes the checkpoints of checkpoint_test.cc with TensorFlow: make_checkpoints.py [FOLDER]

keras/      what tf.train.CheckpointManager leaves of a Keras model and its optimizer
saver/      what a Saver of TensorFlow 1 leaves of two devices
objects/    names of objects that need escapes
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf


def keras(folder):
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([tf.keras.Input([3]), tf.keras.layers.Dense(2, name="dense")])
    model.compile(optimizer=tf.keras.optimizers.Adam(0.1), loss="mse")
    model.layers[0].kernel.assign([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    model.optimizer.build(model.trainable_variables)
    model.optimizer.iterations.assign(41)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
    manager = tf.train.CheckpointManager(checkpoint, os.path.join(folder, "keras"), max_to_keep=2)
    manager.save(checkpoint_number=40)
    model.optimizer.iterations.assign(42)
    manager.save(checkpoint_number=41)


def saver(folder):
    folder = os.path.join(folder, "saver")
    os.makedirs(folder, exist_ok=True)
    config = tf.compat.v1.ConfigProto(device_count={"CPU": 2})
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        with tf.device("/cpu:0"):
            a = tf.compat.v1.get_variable("a", initializer=[1.0, 2.0])
        with tf.device("/cpu:1"):
            b = tf.compat.v1.get_variable("scope/b", initializer=7)
        session.run(tf.compat.v1.global_variables_initializer())
        saved = tf.compat.v1.train.Saver([a, b], sharded=True)
        saved.save(session, os.path.join(folder, "model"), global_step=3, write_meta_graph=False)
    # As if the folder had been moved after it was written.
    path = os.path.join(folder, "checkpoint")
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text.replace(folder, "/former/place"))


def objects(folder):
    names = {"a.b": tf.Variable(1.0), "c/d": tf.Variable(2.0)}
    root = tf.train.Checkpoint(inner=tf.train.Checkpoint(**names))
    os.makedirs(os.path.join(folder, "objects"), exist_ok=True)
    root.write(os.path.join(folder, "objects", "model"))


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    keras(folder)
    objects(folder)
    saver(folder)


if __name__ == "__main__":
    main()
