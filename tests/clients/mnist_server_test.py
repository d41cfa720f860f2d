"""MNIST, trained by TensorFlow's client on a server of Tandem and on TensorFlow's own."""

import gzip
import os
import unittest

import numpy as np
import tensorflow as tf

from cluster import Cluster

v1 = tf.compat.v1

DATA = "tools/datasets/mnist"
STEPS, BATCH = 100, 64


def idx(name, count):
    with gzip.open(os.path.join(DATA, name)) as file:
        data = file.read()
    shape = np.frombuffer(data, ">u4", data[3], 4)
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * data[3])
    return values.reshape(shape)[:count]


def softmax_regression(x):
    w = v1.get_variable("w", [784, 10], initializer=v1.truncated_normal_initializer(
        stddev=0.1, seed=3))
    b = v1.get_variable("b", [10], initializer=v1.zeros_initializer())
    return tf.matmul(x, w) + b


def convolutional(x):
    def variable(name, shape):
        return v1.get_variable(name, shape, initializer=v1.glorot_uniform_initializer(seed=5))

    def bias(name, size):
        return v1.get_variable(name, [size], initializer=v1.zeros_initializer())

    hidden = tf.reshape(x, [-1, 28, 28, 1])
    hidden = tf.nn.relu(tf.nn.conv2d(hidden, variable("filter1", [3, 3, 1, 16]), 1, "VALID")
                        + bias("bias1", 16))
    hidden = tf.nn.max_pool2d(hidden, 2, 2, "VALID")
    hidden = tf.nn.relu(tf.nn.conv2d(hidden, variable("filter2", [3, 3, 16, 32]), 1, "SAME")
                        + bias("bias2", 32))
    hidden = tf.reshape(tf.nn.max_pool2d(hidden, 2, 2, "SAME"), [-1, 7 * 7 * 32])
    hidden = tf.nn.relu(tf.matmul(hidden, variable("dense", [7 * 7 * 32, 64]))
                        + bias("bias3", 64))
    return tf.matmul(hidden, variable("classes", [64, 10])) + bias("bias4", 10)


class MnistServerTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.tandem = Cluster({"worker": 1})
        cls.addClassCleanup(cls.tandem.close)
        cls.tensorflow = {}
        for threads in (1, 2):
            cls.tensorflow[threads] = Cluster({"worker": 1}, tensorflow={"worker:0": threads})
            cls.addClassCleanup(cls.tensorflow[threads].close)
        cls.images = idx("train-images-idx3-ubyte.gz", STEPS * BATCH).reshape(-1, 784) / 255
        cls.labels = idx("train-labels-idx1-ubyte.gz", STEPS * BATCH).astype(np.int64)

    def losses(self, cluster, logits_of, optimizer):
        with tf.Graph().as_default(), cluster.session("worker:0") as session:
            x = v1.placeholder(tf.float32, [None, 784])
            y = v1.placeholder(tf.int64, [None])
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=y, logits=logits_of(x)))
            train = optimizer().minimize(loss)
            session.run(v1.global_variables_initializer())
            return np.array([session.run([loss, train], {
                x: self.images[step * BATCH:][:BATCH], y: self.labels[step * BATCH:][:BATCH],
            })[0] for step in range(STEPS)])

    def test_softmax_regression_has_the_same_curve(self):
        found, wanted = (self.losses(cluster, softmax_regression,
                                     lambda: v1.train.GradientDescentOptimizer(0.5))
                         for cluster in (self.tandem, self.tensorflow[1]))
        self.assertLess(wanted[-10:].mean(), wanted[0] / 3)
        np.testing.assert_allclose(found, wanted, rtol=1e-4)

    def test_the_cnn_is_no_further_off_than_tensorflow_is_with_another_thread(self):
        found, one, two = (self.losses(cluster, convolutional,
                                       lambda: v1.train.AdamOptimizer(1e-3))
                           for cluster in (self.tandem, *self.tensorflow.values()))
        self.assertLess(one[-10:].mean(), one[0] / 3)
        np.testing.assert_allclose(found[0], one[0], rtol=1e-6)
        gap = np.abs(one - two).max()
        print(f"between TensorFlow with 1 and 2 threads {gap:.3g}, to Tandem "
              f"{np.abs(found - one).max():.3g}")
        self.assertLessEqual(np.abs(found - one).max(), 2 * gap)
