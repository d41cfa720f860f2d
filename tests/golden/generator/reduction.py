"""Reductions, arg-reductions, cumulative ops, segment sums."""

import numpy as np

from . import optable, values
from .base import array
from .harness import case, rng

_INDEX = {"Tidx": "int32"}


def axes(*a):
    return np.array(a, np.int32)


def _reductions():
    for op in ("Sum", "Mean", "Prod", "Max", "Min", "All", "Any"):
        boolean = op in ("All", "Any")
        exact = op in ("Max", "Min")
        for t in ["bool"] if boolean else optable.kernel_types(op):
            r = rng(op, t)
            x = values.ordinary(r, (3, 5), t, -2, 2)
            note = ""
            if op == "Mean" and t in optable.INTS:
                note = "integers divide with truncation"
            case(op, t + "/rows", x, axes(1), exact=exact, note=note)
            case(op, t + "/columns", x, axes(0), exact=exact, note=note)
            case(op, t + "/all", x, axes(0, 1), exact=exact, note=note)
            if op == "Mean" and t in optable.INTS + optable.COMPLEX:
                continue
            case(op,
                 t + "/empty",
                 x[:0],
                 axes(0),
                 exact=exact,
                 note="the op's neutral element" + (" (NaN for a mean)" if op == "Mean" else ""))
        t = "bool" if boolean else "float32"
        r = rng(op, "shapes")
        x = values.ordinary(r, (2, 3, 4), t)
        x5 = values.ordinary(r, (2, 3, 2, 3, 2), t, 0.5, 2)
        tight = {"exact": True} if exact else {}
        case(op, "negative_axis", x, axes(-1), **tight)
        case(op, "keep_dims", x, axes(0, -1), keep_dims=True, **tight)
        case(op, "middle_axis", x, axes(1), **tight)
        case(op, "outer_axes", x, axes(0, 2), **tight)
        case(op, "unordered_axes", x, axes(2, 0), **tight)
        case(op, "no_axes", x, axes(), **tight)
        case(op, "scalar_axis", x, array(1, "int32"), **tight)
        case(op, "int64_axes", x, array([1], "int64"), **tight)
        case(op, "keep_dims_all", x, axes(0, 1, 2), keep_dims=True, **tight)
        case(op, "scalar", x[0, 0, 0], axes(), **tight)
        case(op, "rank5_alternating", x5, axes(0, 2, 4), **tight)
        case(op, "rank5_inner", x5, axes(1, 3), keep_dims=True, **tight)
        case(op, "empty_kept", x[:, :0], axes(0), **tight)
        case(op, "long", values.ordinary(r, (2, 300), t, 0.9, 1.1), axes(1),
             **(tight or {
                 "rtol": 2e-5
             }))
        case(op, "error/axis_too_large", x, axes(3), error=True, fragments=["3"])
        case(op, "error/axis_too_small", x, axes(-4), error=True, fragments=["-4"])
        case(op, "error/axis_twice", x, axes(1, 1), error=True, fragments=["1"])
        case(op, "error/axis_rank", x, array([[0]], "int32"), error=True)
    for op in ("Sum", "Mean", "Max", "Min", "Prod"):
        x = array([[1, np.nan, 2], [np.inf, 1, -np.inf], [np.inf, 2, 1], [-np.inf, 0, 0],
                   [0.0, -0.0, 0.0]], "float32")
        if op in ("Max", "Min"):
            x = x[1:]
        case(op, "edges", x, axes(1), exact=op in ("Max", "Min"))
        # Long enough for vector instructions: a NaN is not lost.
        y = np.ones((2, 37), np.float32)
        y[1, 20] = np.nan
        case(op, "nan_in_a_long_row", y, axes(1))
    for t in ("int32", "int64", "int8", "uint8"):
        low, high = values.integer_range(t)
        case("Sum",
             t + "/overflow",
             np.array([[high, 1], [low, high]], dtype=t),
             axes(1),
             note="wraps around")
        case("Max", t + "/edges", np.array([[high, low], [low, low]], dtype=t), axes(1))
        case("Min", t + "/edges", np.array([[high, low], [high, high]], dtype=t), axes(1))


def _arg_reductions():
    for op in ("ArgMax", "ArgMin"):
        for t in optable.kernel_types(op):
            x = values.ordinary(rng(op, t), (3, 5), t, -9, 9)
            case(op, t + "/rows", x, array(1, "int32"))
            case(op, t + "/columns", x, array(0, "int32"))
        x = values.ordinary(rng(op, "x"), (2, 3, 4), "float32")
        case(op, "negative_axis", x, array(-2, "int32"))
        for t in ("int32", "int64"):  # TensorFlow misreads an int16 axis as an int32
            case(op, t + "_axis", x, array(2, t))
        case(op, "vector", x[0, 0], array(0, "int32"))
        for t in optable.kernel_types(op, "output_type"):
            case(op, "output_" + t, x, array(1, "int32"), output_type=t)
        case(op,
             "ties",
             array([[1, 1, 0, 1], [0, 0, 0, 0]], "float32"),
             array(1, "int32"),
             note="the first of equal elements")
        case(op, "infinities", array([[1, np.inf, -np.inf], [-np.inf, -np.inf, -np.inf]],
                                     "float32"), array(1, "int32"))
        case(op, "empty_kept", np.zeros((0, 3), np.float32), array(1, "int32"))
        case(op,
             "error/empty_reduced",
             np.zeros((0, 3), np.float32),
             array(0, "int32"),
             error=True,
             fragments=["0"])
        case(op, "error/axis_too_large", x, array(3, "int32"), error=True, fragments=["3"])
        case(op, "error/axis_too_small", x, array(-4, "int32"), error=True, fragments=["-4"])
        case(op, "error/axis_vector", x, axes(0, 1), error=True)


def _cumulative():
    for op in ("Cumsum", "Cumprod"):
        for t in optable.kernel_types(op):
            x = values.ordinary(rng(op, t), (3, 4), t, -2, 2)
            case(op, t + "/ordinary", x, array(1, "int32"))
            case(op, t + "/exclusive", x, array(0, "int32"), exclusive=True)
        x = values.ordinary(rng(op, "x"), (2, 3, 4), "float32")
        for name, attrs in (("reverse", {
                "reverse": True
        }), ("exclusive_reverse", {
                "reverse": True,
                "exclusive": True
        }), ("exclusive", {
                "exclusive": True
        })):
            for axis in (0, 1, -1):
                case(op, "%s/axis%s" % (name, str(axis).replace("-", "m")), x, array(axis, "int32"),
                     **attrs)
        case(op, "int64_axis", x, array(-1, "int64"))
        case(op, "empty", x[:, :0], array(1, "int32"))
        case(op, "error/scalar", array(2, "float32"), array(0, "int32"), error=True)
        case(op, "nan", array([1, np.nan, 2, np.inf], "float32"), array(0, "int32"))
        case(op, "error/axis_too_large", x, array(3, "int32"), error=True, fragments=["3"])
        case(op, "error/axis_too_small", x, array(-4, "int32"), error=True, fragments=["-4"])
        case(op, "error/axis_vector", x, axes(0), error=True)


def _l2loss():
    op = "L2Loss"
    for t in optable.kernel_types(op):
        case(op, t + "/ordinary", values.ordinary(rng(op, t), (3, 5), t))
        case(op, t + "/empty", array([], t))
    case(op, "scalar", array(3, "float32"))
    case(op, "nan", array([1, np.nan], "float32"))
    case(op, "long", values.ordinary(rng(op, "long"), (500,), "float32"), rtol=2e-5)


def _segments():
    op = "SegmentSum"
    for t in optable.kernel_types(op):
        x = values.ordinary(rng(op, t), (5, 3), t)
        case(op,
             t + "/ordinary",
             x,
             array([0, 0, 1, 3, 3], "int32"),
             note="a segment without elements is 0")
    x = values.ordinary(rng(op, "x"), (4, 2, 3), "float32")
    case(op, "int64_ids", x, array([0, 1, 1, 2], "int64"))
    case(op, "starts_above_zero", x, array([2, 2, 3, 3], "int32"))
    case(op, "vector", x[:, 0, 0], array([0, 0, 0, 0], "int32"))
    case(op, "empty", x[:0], array([], "int32"))
    case(op, "error/not_sorted", x, array([0, 2, 1, 2], "int32"), error=True)
    case(op, "error/negative", x, array([-1, 0, 1, 2], "int32"), error=True, fragments=["-1"])
    case(op, "error/length", x, array([0, 1], "int32"), error=True, fragments=["4", "2"])
    case(op, "error/ids_rank", x, array([[0, 1, 1, 2]], "int32"), error=True)
    op = "UnsortedSegmentSum"
    for t in optable.kernel_types(op):
        x = values.ordinary(rng(op, t), (5, 3), t)
        case(op, t + "/ordinary", x, array([3, 0, 1, 3, 0], "int32"), array(5, "int32"))
    x = values.ordinary(rng(op, "x"), (4, 2, 3), "float32")
    for t in ("int16", "int32", "int64"):
        case(op, t + "_ids", x, array([1, 0, 1, 2], t), array(3, "int32"))
    case(op, "int64_count", x, array([1, 0, 1, 2], "int32"), array(3, "int64"))
    case(op, "negative_ids_are_dropped", x, array([1, -1, 1, -5], "int32"), array(2, "int32"))
    case(op, "matrix_ids", x, array([[0, 1], [1, 0], [2, 2], [-1, 0]], "int32"), array(3, "int32"))
    case(op, "full_ids", x[:, :, 0], array([[0, 1], [1, 0], [2, 2], [3, 0]], "int32"),
         array(4, "int32"))
    case(op, "scalar", array(2, "float32"), array(1, "int32"), array(3, "int32"))
    case(op, "no_segments", x[:0], array([], "int32"), array(0, "int32"))
    case(op, "empty", x[:0], array([], "int32"), array(2, "int32"))
    case(op, "nan", array([1, np.nan, 2], "float32"), array([0, 1, 0], "int32"), array(2, "int32"))
    case(op,
         "error/id_too_large",
         x,
         array([0, 1, 2, 3], "int32"),
         array(3, "int32"),
         error=True,
         fragments=["3"])
    case(op,
         "error/negative_count",
         x,
         array([0, 1, 2, 3], "int32"),
         array(-1, "int32"),
         error=True,
         fragments=["-1"])
    case(op, "error/shapes", x, array([0, 1, 2], "int32"), array(3, "int32"), error=True)


def generate():
    _reductions()
    _arg_reductions()
    _cumulative()
    _l2loss()
    _segments()
