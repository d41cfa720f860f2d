"""Arrays in .npy and .npz files, in both directions."""

import numpy as np
import tensorflow as tf

from side_by_side import NUMBER_TYPES, SHAPES, SideBySide, numbers

# NumPy has no bfloat16 of its own.
TYPES = [dtype for dtype in NUMBER_TYPES if dtype != tf.bfloat16]


def every_array():
    return {f"{dtype.name}/{'x'.join(map(str, shape)) or 'scalar'}": numbers(dtype, shape)
            for dtype in TYPES for shape in SHAPES}


class TandemWrites(SideBySide):

    def test_every_type_and_shape(self):
        arrays = every_array()
        for form in ("stored", "deflated"):
            with self.subTest(form):
                path = self.path(form + ".npz")
                self.formats("write_npz", self.write_tensors(arrays), path, form)
                with np.load(path, allow_pickle=False) as found:
                    self.assert_same(dict(found), arrays)

    def test_strings_become_bytes_of_a_fixed_size(self):
        path = self.path("strings.npz")
        self.formats("write_npz", self.write_tensors({"s": np.array([b"a", b"", b"long"], object)}),
                     path, "stored")
        with np.load(path) as found:
            self.assertEqual(found["s"].tolist(), [b"a", b"", b"long"])

    def test_bfloat16_becomes_float32(self):
        value = numbers(tf.bfloat16, [7])
        path = self.path("bfloat16.npz")
        self.formats("write_npz", self.write_tensors({"x": value}), path, "stored")
        with np.load(path) as found:
            self.assert_same({"x": found["x"]}, {"x": value.astype(np.float32)})


class NumPyWrites(SideBySide):

    def read(self, path):
        tensors = self.path("read")
        self.formats("read_npz", path, tensors)
        return self.read_tensors(tensors)

    def test_every_type_and_shape(self):
        arrays = every_array()
        for save in (np.savez, np.savez_compressed):
            with self.subTest(save.__name__):
                path = self.path(save.__name__ + ".npz")
                save(path, **arrays)
                self.assert_same(self.read(path), arrays)

    def test_fortran_order(self):
        value = np.asfortranarray(numbers(tf.float64, [3, 4, 5]))
        path = self.path("fortran.npz")
        np.savez(path, x=value)
        self.assert_same(self.read(path), {"x": np.ascontiguousarray(value)})

    def test_strings(self):
        path = self.path("strings.npz")
        np.savez(path, bytes=np.array([b"a", b"", b"long"]), text=np.array(["\u00e4", "b"]))
        found = self.read(path)
        self.assertEqual(found["bytes"].tolist(), [b"a", b"", b"long"])
        self.assertEqual(found["text"].tolist(), ["\u00e4".encode(), b"b"])
