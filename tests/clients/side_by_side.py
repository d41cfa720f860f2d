"""What the tests of both sides share: Tandem's programs, and tensors that go between them."""

import os
import struct
import subprocess
import tempfile
import unittest

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import named_tensor_pb2

# TensorFlow's types of which Tandem holds tensors; strings are apart.
NUMBER_TYPES = [
    tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int8, tf.int16, tf.int32, tf.int64,
    tf.uint8, tf.uint16, tf.uint32, tf.uint64, tf.bool, tf.complex64, tf.complex128,
]

# From scalars over empty tensors and one element to some that fill more than a block.
SHAPES = [[], [0], [1], [3, 0, 2], [7], [2, 3, 4], [1, 1, 1, 1, 1, 5], [300, 401]]

STRINGS = [b"", b"a", "h\u00e4".encode(), bytes(range(256)), b"x" * 70000, b"\0", b"tail\0\0"]


def numbers(dtype, shape, seed=1):
    """Any bits of a type, but no NaN, so that arrays can be compared."""
    random = np.random.default_rng(seed + dtype.as_datatype_enum * 100 + len(shape))
    numpy_type = dtype.as_numpy_dtype
    if dtype == tf.bool:
        return random.integers(0, 2, shape).astype(bool)
    if dtype.is_integer:
        limits = np.iinfo(numpy_type)
        values = random.integers(limits.min, limits.max, shape, numpy_type, endpoint=True)
        return np.asarray(values, numpy_type)
    values = random.normal(size=shape)
    if dtype.is_complex:
        values = values + 1j * random.normal(size=shape)
    values = np.asarray(values).astype(numpy_type)
    if values.size >= 4 and not dtype.is_complex:
        values.reshape(-1)[:4] = [np.inf, -np.inf, -0.0, 0]
    return values


def strings(shape, seed=1):
    random = np.random.default_rng(seed)
    values = np.empty(shape, object)
    for index in np.ndindex(*shape):
        values[index] = STRINGS[random.integers(len(STRINGS))]
    return values


def bits(array):
    """What has to be equal: type, shape and bytes."""
    # As an array NumPy would cut NULs from its end.
    array = np.array(array, object) if isinstance(array, bytes) else np.asarray(array)
    if array.dtype == object:
        return ("string", array.shape, tuple(array.reshape(-1).tolist()))
    return (str(array.dtype), array.shape, array.tobytes())


class SideBySide(unittest.TestCase):
    """Has a folder of its own, and calls Tandem's programs."""

    maxDiff = 2000

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def call(self, program, *words, code=0):
        """Runs the program that an environment variable names, and returns what it prints (what it
        complains of, too, when it is to fail)."""
        result = subprocess.run([os.path.abspath(os.environ[program]), *map(str, words)],
                                capture_output=True, check=False, timeout=200)
        self.assertEqual(result.returncode, code,
                         f"{program} {' '.join(map(str, words))}: {result.stderr.decode()}")
        return (result.stdout if code == 0 else result.stdout + result.stderr).decode()

    def formats(self, *words):
        return self.call("FORMATS", *words)

    def write_tensors(self, tensors, name="tensors"):
        """A file for formats/tensors_file.h, of a dictionary."""
        path = self.path(name)
        with open(path, "wb") as file:
            for key, value in tensors.items():
                message = named_tensor_pb2.NamedTensorProto(
                    name=key, tensor=tf.make_tensor_proto(value)).SerializeToString()
                file.write(struct.pack("<Q", len(message)) + message)
        return path

    def read_tensors(self, path):
        with open(path, "rb") as file:
            data = file.read()
        tensors = {}
        while data:
            size, = struct.unpack_from("<Q", data)
            message = named_tensor_pb2.NamedTensorProto.FromString(data[8:8 + size])
            tensors[message.name] = tf.make_ndarray(message.tensor)
            data = data[8 + size:]
        return tensors

    def assert_same(self, found, wanted):
        """Two dictionaries of arrays are equal to the bit."""
        self.assertEqual(sorted(found), sorted(wanted))
        for key, value in wanted.items():
            with self.subTest(key):
                found_bits, wanted_bits = bits(found[key]), bits(value)
                self.assertEqual(found_bits[:2], wanted_bits[:2])
                self.assertTrue(found_bits[2] == wanted_bits[2], "the elements differ")
