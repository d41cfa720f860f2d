"""Loops whose bodies lie on several devices, as TensorFlow's clients make them.

Each entry of LOOPS builds one in the default graph and returns what to fetch; `devices` are two that
take turns. LOOPS is the same for every kind of cluster.
"""

import contextlib

import tensorflow as tf
from tensorflow.python.ops import control_flow_util

v1 = tf.compat.v1


@contextlib.contextmanager
def version(number):
    """Makes tf.cond and tf.while_loop build Switch and Merge (1), or functions (2)."""
    before = control_flow_util.ENABLE_CONTROL_FLOW_V2
    control_flow_util.ENABLE_CONTROL_FLOW_V2 = number == 2
    try:
        yield
    finally:
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = before


def counted(n, body, values, **options):
    """for i in range(n): values = body(i, *values)."""
    return tf.while_loop(lambda i, *_: i < n, lambda i, *v: (i + 1, *body(i, *v)),
                         (tf.constant(0), *values), **options)[1:]


def body_elsewhere(devices, n):
    def body(i, x, y):
        with tf.device(devices[1]):
            product = tf.linalg.matvec([[0.5, 0.25], [-0.5, 0.75]], x)
        with tf.device(devices[0]):
            return tf.sin(product) + tf.cast(i, tf.float32), y + product

    with tf.device(devices[0]):
        x = tf.constant([1.0, 2.0])
        return counted(n, body, [x, x * 0.0])


def one_round_at_a_time(devices, n):
    def body(i, x):
        with tf.device(devices[1]):
            return (x * 0.5 + tf.cast(i, tf.float32),)

    with tf.device(devices[0]):
        return counted(n, body, [tf.constant(3.0)], parallel_iterations=1)


def nested(devices, n):
    def inner(j, x):
        with tf.device(devices[0]):
            return (x * 0.75 + tf.cast(j, tf.float32),)

    def outer(i, x):
        with tf.device(devices[1]):
            return (counted(i, inner, [x])[0] - 1.0,)

    with tf.device(devices[0]):
        return counted(n, outer, [tf.constant(1.0)])


def branches(devices, n):
    def body(i, x):
        def even():
            with tf.device(devices[1]):
                return x * 2.0

        def odd():
            with tf.device(devices[0]):
                return counted(2, lambda _, z: (z - 0.5,), [x])[0]

        with tf.device(devices[0]):
            return (tf.cond(tf.equal(i % 2, 0), even, odd),)

    with tf.device(devices[0]):
        return counted(n, body, [tf.constant(1.5)])


def gradients(devices, n):
    def body(_, x, w):
        with tf.device(devices[1]):
            product = tf.tanh(tf.linalg.matvec(w, x))
        with tf.device(devices[0]):
            return product + 0.1, w

    with tf.device(devices[0]):
        x = tf.constant([0.5, -0.25])
        w = tf.constant([[0.3, -0.6], [0.7, 0.2]])
        y = counted(n, body, [x, w])[0]
        return [y, *tf.gradients(y, [x, w])]


def mapped(devices, n):
    def row(x):
        with tf.device(devices[1]):
            return tf.reduce_sum(x * x) * x

    with tf.device(devices[0]):
        x = tf.reshape(tf.range(2.0 * tf.cast(n, tf.float32)), [-1, 2])
        return [tf.map_fn(row, x)]


LOOPS = {loop.__name__: loop
         for loop in (body_elsewhere, one_round_at_a_time, nested, branches, gradients, mapped)}
