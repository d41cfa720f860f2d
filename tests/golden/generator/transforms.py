"""Fourier transforms, systems of equations, and ops on bits."""

import numpy as np

from . import optable, values
from .base import array
from .convolution import data, i32
from .harness import case, rng


def _fourier():
    for op in ("FFT", "IFFT"):
        for t, loose in (("complex64", 1e-5), ("complex128", 1e-12)):
            for n in (1, 2, 7, 8, 12, 30):
                case(op, "%s/%d" % (t, n), data(op, t, (2, n), t), rtol=loose, atol=loose * 10)
        case(op, "empty", data(op, "e", (0, 4), "complex64"))
        case(op, "error/scalar", array(1, "complex64"), error=True)
    for t, c, loose in (("float32", "complex64", 1e-5), ("float64", "complex128", 1e-12)):
        for n in (1, 2, 5, 8, 12):
            attrs = {"Treal": t, "Tcomplex": c, "rtol": loose, "atol": loose * 10}
            case("RFFT", "%s/%d" % (t, n), data("RFFT", t, (2, 3, n), t), i32(n), **attrs)
            case("RFFT", "%s/%d_of_more" % (t, n), data("RFFT", t, (2, n + 2), t), i32(n), **attrs)
            x = data("IRFFT", t, (2, n // 2 + 1), c)
            case("IRFFT", "%s/%d" % (t, n), x, i32(n), **attrs)
    x, y = data("RFFT", "x", (2, 4)), data("IRFFT", "x", (2, 3), "complex64")
    case("RFFT", "empty", x[:0], i32(4))
    case("IRFFT", "empty", y[:0], i32(4))
    for op, z in (("RFFT", x), ("IRFFT", y)):
        case(op, "error/length", z, i32(9), error=True)
        case(op, "error/two_lengths", z, i32(2, 2), error=True)
        case(op, "error/negative", z, i32(-1), error=True)


def _solve():
    op = "MatrixSolve"
    for t in optable.kernel_types(op):
        a = (data(op, t, (2, 4, 4), t) + 4 * np.eye(4)).astype(data(op, t, (1,), t).dtype)
        b = data(op, t + "b", (2, 4, 3), t)
        loose = {"rtol": 1e-4, "atol": 1e-5} if t in ("float32", "complex64") else {}
        for adjoint in (False, True):
            case(op, t + ("/adjoint" if adjoint else "/plain"), a, b, adjoint=adjoint, **loose)
    a, b = data(op, "a", (3, 3)) + 3 * np.eye(3, dtype=np.float32), data(op, "b", (3, 2))
    case(op, "matrix", a, b, rtol=1e-4, atol=1e-5)
    case(op, "no_columns", a, b[:, :0].copy())
    case(op, "empty", np.zeros((0, 0), np.float32), np.zeros((0, 2), np.float32))
    case(op, "error/not_invertible", np.ones((3, 3), np.float32), b, error=True)
    case(op, "error/not_square", a[:2].copy(), b[:2].copy(), error=True)
    case(op, "error/rows", a, b[:2].copy(), error=True)
    case(op, "error/vector", a, b[:, 0].copy(), error=True)


def _bits():
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift"):
        for t in optable.kernel_types(op):
            low, high = values.integer_range(t)
            r = rng(op, t)
            x = array(r.randint(low, high, (3, 5), dtype=np.dtype(t)), t)
            y = array(r.randint(low, high, (3, 5), dtype=np.dtype(t)), t)
            if op.endswith("Shift"):
                y = array(r.randint(0, 8 * x.dtype.itemsize, (3, 5)), t)
            case(op, t, x, y)
            case(op, t + "/row", x, y[0])
        case(op, "empty", i32(), i32())
        case(op, "error/shapes", i32(1, 2), i32(1, 2, 3), error=True)
    for op in ("LeftShift", "RightShift"):
        case(op, "far", i32(-5, 5, 7, -7), i32(40, 40, -1, -3))
    for t in optable.kernel_types("Invert"):
        case("Invert", t, values.special(t))


def generate():
    _fourier()
    _solve()
    _bits()
