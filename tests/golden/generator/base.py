"""TensorFlow, set up to run one op at a time, and its types by name."""

import os

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
v1.disable_eager_execution()


def dt(name):
    return tf.as_dtype(name)


def array(values, dtype):
    """A numpy array of a TensorFlow dtype given by name."""
    if dtype == "string":
        a = np.empty(np.shape(values), dtype=object)
        a[...] = np.array(values, dtype=object)
        return a
    return np.array(values).astype(dt(dtype).as_numpy_dtype)


def type_of(a):
    return "string" if a.dtype == object else dt(a.dtype).name
