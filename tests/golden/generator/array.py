"""Ops that shape, join, repeat, pad or make tensors."""

import numpy as np

from . import optable, values
from .base import array
from .harness import case, rng


def i32(*a):
    return np.array(a, np.int32)


def i64(*a):
    return np.array(a, np.int64)


def some(op, t, shape, seed=""):
    return values.ordinary(rng(op, t + seed), shape, t)


def counting(*shape, dtype="float32"):
    """0, 1, 2, ... : one sees where each element went."""
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def each_type(op, make, attr="T"):
    for t in optable.kernel_types(op, attr):
        make(t)


def _shapes():
    for op in ("Shape", "Size", "Rank", "ShapeN"):
        for t in optable.ALL:
            x = some(op, t, (2, 3))
            case(op, t, [x, x[:1]] if op == "ShapeN" else x)
        for name, shape in (("scalar", ()), ("empty", (0, 3)), ("rank5", (1, 2, 1, 3, 1))):
            x = np.zeros(shape, np.float32)
            case(op, name, [x, x] if op == "ShapeN" else x)
        if op != "Rank":
            x = counting(2, 3)
            case(op, "int64_output", [x, x] if op == "ShapeN" else x, out_type="int64")
    op = "Reshape"
    for t in optable.ALL:
        case(op, t, some(op, t, (2, 6)), i32(3, 4), exact=True)
    x = counting(2, 6)
    case(op, "int64_shape", x, i64(4, 3), exact=True)
    case(op, "inferred", x, i32(3, -1, 2), exact=True)
    case(op, "flat", x, i32(-1), exact=True)
    case(op, "to_scalar", counting(1, 1), i32(), exact=True)
    case(op, "from_scalar", array(5, "float32"), i32(1, 1), exact=True)
    case(op, "empty", np.zeros((0, 3), np.float32), i32(3, 0, 2), exact=True)
    case(op, "empty_inferred", np.zeros((0, 3), np.float32), i32(-1, 3), exact=True)
    case(op, "error/count", x, i32(5, 2), error=True, fragments=["12", "10"])
    case(op, "error/two_unknown", x, i32(-1, -1), error=True)
    case(op, "error/not_divisible", x, i32(5, -1), error=True, fragments=["12", "5"])
    case(op, "error/negative", x, i32(-2, 6), error=True, fragments=["-2"])
    case(op,
         "infer_beside_zero",
         np.zeros((0, 3), np.float32),
         i32(-1, 0),
         exact=True,
         note="zeros stand on both sides and are left out")
    case(op, "error/shape_matrix", x, array([[3, 4]], "int32"), error=True)
    op = "ExpandDims"
    for t in optable.ALL:
        case(op, t, some(op, t, (2, 3)), array(1, "int32"), exact=True)
    for axis in (0, 2, -1, -3):
        case(op,
             "axis%s" % str(axis).replace("-", "m"),
             counting(2, 3),
             array(axis, "int32"),
             exact=True)
    case(op, "int64_axis", counting(2, 3), array(0, "int64"), exact=True)
    case(op, "one_element_axis", counting(2, 3), i32(1), exact=True)
    case(op, "scalar", array(1, "float32"), array(0, "int32"), exact=True)
    case(op, "error/too_large", counting(2, 3), array(3, "int32"), error=True, fragments=["3"])
    case(op, "error/too_small", counting(2, 3), array(-4, "int32"), error=True, fragments=["-4"])
    case(op, "error/axis_vector", counting(2, 3), i32(0, 1), error=True)
    op = "Squeeze"
    for t in optable.ALL:
        case(op, t, some(op, t, (1, 2, 1)), exact=True)
    x = counting(1, 2, 1, 3, 1)
    case(op, "one", x, squeeze_dims=[2], exact=True)
    case(op, "negative", x, squeeze_dims=[-1, 0], exact=True)
    case(op, "twice_the_same", x, squeeze_dims=[0, 0], exact=True)
    case(op, "to_scalar", counting(1, 1), exact=True)
    case(op, "empty", np.zeros((1, 0), np.float32), exact=True)
    case(op, "error/not_one", x, squeeze_dims=[1], error=True, fragments=["1", "2"])
    case(op, "error/out_of_range", x, squeeze_dims=[5], error=True, fragments=["5"])
    op = "EnsureShape"
    for t in optable.ALL:
        case(op, t, some(op, t, (2, 3)), shape=[None, 3], exact=True)
    case(op, "same", counting(2, 3), shape=[2, 3], exact=True)
    case(op, "partial", counting(2, 3), shape=[None, 3], exact=True)
    case(op, "unknown_rank", counting(2, 3), shape=None, exact=True)
    case(op, "error/size", counting(2, 3), shape=[2, 4], error=True, fragments=["[2,3]", "[2,4]"])
    case(op, "error/rank", counting(2, 3), shape=[6], error=True, fragments=["[2,3]", "[6]"])


def _concat_split():
    op = "ConcatV2"
    each_type(
        op, lambda t: case(
            op, t, [some(op, t, (2, 3)), some(op, t, (2, 1), "b")], array(1, "int32"), exact=True))
    x, y, z = counting(2, 3, 2), counting(2, 1, 2) + 100, counting(2, 2, 2) + 200
    case(op, "three_middle", [x, y, z], array(1, "int32"), exact=True)
    case(op, "negative_axis", [x, x + 50], array(-1, "int32"), exact=True)
    case(op, "outer", [x, x + 50, x + 70], array(0, "int32"), exact=True)
    case(op, "int64_axis", [x, y], array(1, "int64"), exact=True)
    case(op, "with_empty", [x, x[:, :0], y], array(1, "int32"), exact=True)
    case(op, "all_empty", [x[:0], x[:0]], array(0, "int32"), exact=True)
    case(op, "vectors", [counting(2), counting(3)], array(0, "int32"), exact=True)
    case(op,
         "error/shapes", [x, counting(2, 3, 3)],
         array(0, "int32"),
         error=True,
         fragments=["[2,3,2]", "[2,3,3]"])
    case(op, "error/ranks", [x, counting(2, 3)], array(0, "int32"), error=True)
    case(op, "error/axis", [x, x], array(3, "int32"), error=True, fragments=["3"])
    case(op, "error/axis_negative", [x, x], array(-4, "int32"), error=True, fragments=["-4"])
    case(op, "error/scalars", [array(1, "float32")] * 2, array(0, "int32"), error=True)
    case(op, "error/axis_vector", [x, x], i32(0, 1), error=True)
    op = "ConcatOffset"
    for t in ("int32", "int64"):
        case(op, t, array(1, "int32"),
             [array([2, 3, 4], t), array([2, 5, 4], t),
              array([2, 1, 4], t)])
    case(op, "negative_axis", array(-1, "int32"), [i32(2, 3), i32(2, 7)])
    case(op, "error/shapes", array(0, "int32"), [i32(2, 3), i32(2, 7)], error=True)
    case(op, "error/axis", array(2, "int32"), [i32(2, 3), i32(2, 3)], error=True, fragments=["2"])
    op = "Pack"
    each_type(op,
              lambda t: case(op, t, [some(op, t,
                                          (2, 3)), some(op, t, (2, 3), "b")], exact=True))
    x = counting(2, 3)
    for axis in (1, 2, -1, -3):
        case(op, "axis%s" % str(axis).replace("-", "m"), [x, x + 10, x + 20], axis=axis, exact=True)
    case(op, "scalars", [array(1, "int32"), array(2, "int32")])
    case(op, "one", [x], exact=True)
    case(op, "empty", [x[:0], x[:0]], axis=1, exact=True)
    case(op, "error/shapes", [x, counting(3, 2)], error=True, fragments=["[2,3]", "[3,2]"])
    case(op, "error/axis", [x, x], axis=3, error=True, fragments=["3"])
    case(op, "error/axis_negative", [x, x], axis=-4, error=True, fragments=["-4"])
    op = "Unpack"
    each_type(op, lambda t: case(op, t, some(op, t, (2, 3)), num=2, exact=True))
    x = counting(2, 3, 2)
    for axis, n in ((1, 3), (-1, 2)):
        case(op, "axis%s" % str(axis).replace("-", "m"), x, axis=axis, num=n, exact=True)
    case(op, "vector", counting(3), num=3, exact=True)
    case(op, "empty_parts", x[:, :0], num=2, exact=True)
    case(op, "none", x[:0], num=0)
    case(op, "error/number", x, num=3, error=True, fragments=["3", "2"])
    case(op, "error/axis", x, num=2, axis=3, error=True, fragments=["3"])
    case(op, "error/scalar", array(1, "float32"), num=1, error=True)
    op = "Split"
    each_type(
        op, lambda t: case(op, t, array(1, "int32"), some(op, t, (2, 4)), num_split=2, exact=True))
    x = counting(4, 6)
    case(op, "outer", array(0, "int32"), x, num_split=4, exact=True)
    case(op, "negative_axis", array(-1, "int32"), x, num_split=3, exact=True)
    case(op, "one", array(0, "int32"), x, num_split=1, exact=True)
    case(op, "middle", array(1, "int32"), counting(2, 4, 3), num_split=2, exact=True)
    case(op, "empty", array(1, "int32"), x[:0], num_split=2, exact=True)
    case(op,
         "error/not_divisible",
         array(1, "int32"),
         x,
         num_split=4,
         error=True,
         fragments=["6", "4"])
    case(op, "error/axis", array(2, "int32"), x, num_split=2, error=True, fragments=["2"])
    case(op, "error/axis_vector", i32(0, 1), x, num_split=2, error=True)
    op = "SplitV"
    each_type(
        op, lambda t: case(
            op, t, some(op, t, (2, 4)), i64(1, 3), array(1, "int32"), num_split=2, exact=True))
    for t in ("int8", "int32", "int64"):
        case(op, "sizes_" + t, x, array([2, 0, 4], t), array(-1, "int32"), num_split=3, exact=True)
    case(op, "inferred", x, i32(1, -1, 2), array(1, "int32"), num_split=3, exact=True)
    case(op, "outer", x, i32(3, 1), array(0, "int32"), num_split=2, exact=True)
    case(op, "one", x, i32(4), array(0, "int32"), num_split=1, exact=True)
    case(op,
         "error/sum",
         x,
         i32(2, 3),
         array(1, "int32"),
         num_split=2,
         error=True,
         fragments=["6", "5"])
    case(op, "error/two_unknown", x, i32(-1, -1), array(1, "int32"), num_split=2, error=True)
    case(op, "error/negative", x, i32(-2, 8), array(1, "int32"), num_split=2, error=True)
    case(op,
         "error/axis",
         x,
         i32(2, 4),
         array(2, "int32"),
         num_split=2,
         error=True,
         fragments=["2"])
    case(op, "error/number", x, i32(2, 4), array(1, "int32"), num_split=3, error=True)


def _transposes():
    for op in ("Transpose", "ConjugateTranspose"):
        each_type(op, lambda t: case(op, t, some(op, t, (3, 4)), i32(1, 0), exact=True))
        x = counting(2, 3, 4)
        for perm in ((0, 2, 1), (2, 1, 0), (1, 2, 0), (2, 0, 1), (0, 1, 2), (1, 0, 2)):
            case(op, "perm%d%d%d" % perm, x, i32(*perm), exact=True)
        case(op, "int64_perm", x, i64(2, 0, 1), exact=True)
        case(op, "nhwc_to_nchw", counting(2, 2, 3, 4), i32(0, 3, 1, 2), exact=True)
        case(op, "rank6", counting(1, 2, 3, 1, 2, 2), i32(5, 0, 3, 2, 1, 4), exact=True)
        case(op, "size_one_moves", counting(1, 4, 1), i32(2, 0, 1), exact=True)
        case(op, "empty", counting(0, 3), i32(1, 0), exact=True)
        case(op, "scalar", array(1, "float32"), i32(), exact=True)
        case(op, "vector", counting(4), i32(0), exact=True)
        case(op, "error/perm_length", x, i32(1, 0), error=True, fragments=["3", "2"])
        case(op, "error/perm_range", x, i32(0, 1, 3), error=True, fragments=["3"])
        case(op, "error/perm_twice", x, i32(0, 1, 1), error=True, fragments=["1"])
        case(op, "error/perm_rank", x, array([[0, 1, 2]], "int32"), error=True)
    op = "InvertPermutation"
    for t in ("int32", "int64"):
        case(op, t, array([3, 0, 2, 1], t))
    case(op, "empty", i32())
    case(op, "error/twice", i32(0, 0, 1), error=True, fragments=["0"])
    case(op, "error/range", i32(0, 3, 1), error=True, fragments=["3"])
    case(op, "error/negative", i32(0, -1, 1), error=True, fragments=["-1"])
    case(op, "error/rank", array([[0, 1]], "int32"), error=True)


def _repeats():
    op = "BroadcastTo"
    each_type(op, lambda t: case(op, t, some(op, t, (3, 1)), i32(2, 3, 2), exact=True))
    case(op, "scalar", array(5, "float32"), i32(2, 3), exact=True)
    case(op, "row", counting(3), i64(2, 3), exact=True)
    case(op, "same", counting(2, 3), i32(2, 3), exact=True)
    case(op, "to_empty", counting(1, 3), i32(0, 3), exact=True)
    case(op, "to_scalar", array(5, "float32"), i32(), exact=True)
    case(op, "error/size", counting(3), i32(2, 4), error=True, fragments=["[3]", "[2,4]"])
    case(op, "error/lower_rank", counting(2, 3), i32(3), error=True)
    case(op, "error/negative", counting(3), i32(-1, 3), error=True)
    op = "BroadcastArgs"
    for t in ("int32", "int64"):
        case(op, t, array([2, 1, 3], t), array([4, 1], t))
    case(op, "scalar", i32(), i32(2, 3))
    case(op, "equal", i32(2, 3), i32(2, 3))
    case(op, "zero", i32(0, 1), i32(1, 5))
    case(op, "error", i32(2, 3), i32(2, 4), error=True, fragments=["[2,3]", "[2,4]"])
    op = "BroadcastGradientArgs"
    for t in ("int32", "int64"):
        case(op, t, array([2, 1, 3], t), array([4, 1], t))
    for name, a, b in (("scalar", (), (2, 3)), ("equal", (2, 3), (2, 3)),
                       ("both_one", (1, 3), (1, 1)), ("longer_right", (3,), (2, 1, 3)),
                       ("scalars", (), ()), ("ones", (1, 1), (1,)), ("zero", (0, 1), (1, 5)),
                       ("interleaved", (2, 1, 3, 1), (1, 4, 1, 5))):
        case(op, name, i32(*a), i32(*b))
    case(op, "error", i32(2, 3), i32(2, 4), error=True, fragments=["[2,3]", "[2,4]"])
    op = "Tile"
    for t in optable.ALL:
        if t not in ("uint16", "uint32", "uint64"):  # no CPU kernel
            case(op, t, some(op, t, (2, 3)), i32(2, 1), exact=True)
    case(op, "index_int64", counting(2, 3), i64(1, 3), exact=True)
    case(op, "rank3", counting(2, 1, 2), i32(2, 3, 2), exact=True)
    case(op, "zero_times", counting(2, 3), i32(0, 2), exact=True)
    case(op, "ones", counting(2, 3), i32(1, 1), exact=True)
    case(op, "scalar", array(2, "float32"), i32(), exact=True)
    case(op, "empty", counting(0, 3), i32(2, 2), exact=True)
    case(op, "error/length", counting(2, 3), i32(2), error=True, fragments=["2", "1"])
    case(op, "error/negative", counting(2, 3), i32(2, -1), error=True, fragments=["-1"])
    op = "Fill"
    each_type(op, lambda t: case(op, t, i32(2, 3), some(op, t, ()), exact=True))
    case(op, "int64_dims", i64(3), array(7, "float32"), exact=True)
    case(op, "scalar", i32(), array(7, "float32"), exact=True)
    case(op, "empty", i32(2, 0), array(7, "float32"), exact=True)
    case(op, "error/negative", i32(2, -1), array(7, "float32"), error=True, fragments=["-1"])
    case(op, "error/value_vector", i32(2), counting(2), error=True)
    case(op, "error/dims_matrix", array([[2]], "int32"), array(1, "float32"), error=True)


def _pads():
    p = array([[1, 2], [0, 3]], "int32")
    for op in ("Pad", "PadV2", "MirrorPad", "MirrorPadGrad"):
        mirror = op.startswith("Mirror")
        for t in optable.kernel_types(op):
            tail = (some(op, t, (), "value"),) if op == "PadV2" else ()
            pads = array([[1, 2], [0, 1]], "int32")
            shape = (6, 5) if op == "MirrorPadGrad" else (3, 4)
            modes = ("REFLECT", "SYMMETRIC") if mirror else ("",)
            for mode in modes:
                attrs = {"mode": mode} if mirror else {}
                case(op,
                     t + ("/" + mode.lower() if mode else ""),
                     some(op, t, shape),
                     pads,
                     *tail,
                     exact=op != "MirrorPadGrad",
                     **attrs)
    for op in ("Pad", "PadV2"):
        tail = (array(9, "float32"),) if op == "PadV2" else ()
        case(op, "none", counting(2, 3), array([[0, 0], [0, 0]], "int32"), *tail, exact=True)
        case(op, "index_int64", counting(2, 3), p.astype(np.int64), *tail, exact=True)
        case(op, "rank1", counting(3), array([[2, 1]], "int32"), *tail, exact=True)
        case(op,
             "rank3",
             counting(2, 2, 2),
             array([[1, 0], [0, 1], [1, 1]], "int32"),
             *tail,
             exact=True)
        case(op,
             "rank4",
             counting(1, 2, 2, 2),
             array([[0, 0], [1, 2], [2, 1], [0, 0]], "int32"),
             *tail,
             exact=True)
        case(op, "empty_input", counting(0, 3), p, *tail, exact=True)
        case(op, "scalar", array(3, "float32"), array(np.zeros((0, 2)), "int32"), *tail, exact=True)
        case(op,
             "error/negative",
             counting(2, 3),
             array([[0, -1], [0, 0]], "int32"),
             *tail,
             error=True,
             fragments=["-1"])
        case(op, "error/rank", counting(2, 3), array([[0, 1]], "int32"), *tail, error=True)
        case(op, "error/columns", counting(2, 3), array([[0], [1]], "int32"), *tail, error=True)
    case("PadV2", "error/value_vector", counting(2, 3), p, counting(2), error=True)
    for op in ("MirrorPad", "MirrorPadGrad"):
        grad = op == "MirrorPadGrad"
        for mode in ("REFLECT", "SYMMETRIC"):
            m = mode.lower()
            case(op,
                 m + "/vector",
                 counting(7 if grad else 4),
                 array([[1, 2]], "int32"),
                 mode=mode,
                 exact=True)
            case(op,
                 m + "/rank3",
                 counting(4, 4, 6) if grad else counting(2, 3, 4),
                 array([[1, 1], [0, 1], [1, 1]], "int64"),
                 mode=mode,
                 exact=True)
            case(op,
                 m + "/none",
                 counting(2, 3),
                 array([[0, 0], [0, 0]], "int32"),
                 mode=mode,
                 exact=True)
        case(op,
             "error/negative",
             counting(4, 4),
             array([[0, -1], [0, 0]], "int32"),
             mode="REFLECT",
             error=True)
        case(op, "error/rank", counting(4, 4), array([[0, 1]], "int32"), mode="REFLECT", error=True)
    case("MirrorPad",
         "reflect/most",
         counting(3),
         array([[2, 2]], "int32"),
         mode="REFLECT",
         exact=True)
    case("MirrorPad",
         "symmetric/most",
         counting(3),
         array([[3, 3]], "int32"),
         mode="SYMMETRIC",
         exact=True)
    case("MirrorPad",
         "error/reflect_too_far",
         counting(3),
         array([[3, 0]], "int32"),
         mode="REFLECT",
         error=True,
         fragments=["3"])
    case("MirrorPad",
         "error/symmetric_too_far",
         counting(3),
         array([[0, 4]], "int32"),
         mode="SYMMETRIC",
         error=True,
         fragments=["4"])


def _makers():
    op = "Range"
    for t in optable.kernel_types(op, "Tidx"):
        case(op, t, array(2, t), array(9, t), array(2, t))
        case(op, t + "/down", array(5, t), array(-4, t), array(-3, t))
    case(op, "fraction", array(0, "float32"), array(1, "float32"), array(0.1, "float32"))
    case(op, "float_end", array(0.5, "float64"), array(3.5, "float64"), array(0.5, "float64"))
    case(op, "nothing", array(3, "int32"), array(3, "int32"), array(1, "int32"))
    case(op,
         "error/zero_delta",
         array(3, "int32"),
         array(5, "int32"),
         array(0, "int32"),
         error=True,
         fragments=["0"])
    case(op,
         "error/up",
         array(5, "int32"),
         array(3, "int32"),
         array(1, "int32"),
         error=True,
         fragments=["5", "3"])
    case(op, "error/down", array(3, "int32"), array(5, "int32"), array(-1, "int32"), error=True)
    case(op, "error/vector", i32(1, 2), array(5, "int32"), array(1, "int32"), error=True)
    op = "LinSpace"
    for t in optable.kernel_types(op):
        case(op, t, array(1, t), array(3, t), array(5, "int32"))
        case(op, t + "/down", array(4, t), array(-2, t), array(7, "int64"))
    case(op, "one", array(2, "float32"), array(7, "float32"), array(1, "int32"))
    case(op, "equal_ends", array(2, "float32"), array(2, "float32"), array(3, "int32"))
    case(op, "thirds", array(0, "float32"), array(1, "float32"), array(4, "int32"))
    case(op,
         "error/none",
         array(2, "float32"),
         array(7, "float32"),
         array(0, "int32"),
         error=True,
         fragments=["0"])
    case(op, "error/vector", counting(2), array(7, "float32"), array(2, "int32"), error=True)
    op = "Const"
    for t in optable.ALL:
        case(op, t, value=some(op, t, (2, 3)), dtype=t, exact=True)
    case(op, "scalar", value=array(3, "float32"), dtype="float32", exact=True)
    case(op, "empty", value=counting(0, 3), dtype="float32", exact=True)
    op = "Empty"
    for t in optable.kernel_types(op, "dtype"):
        case(op, t + "/zeroed", i32(2, 3), dtype=t, init=True, exact=True)
    case(op, "not_zeroed", i32(2, 3), dtype="float32", unchecked=[0])
    case(op, "scalar", i32(), dtype="float32", init=True)
    case(op, "empty", i32(0, 3), dtype="float32", init=True)
    case(op, "error/negative", i32(2, -1), dtype="float32", init=True, error=True, fragments=["-1"])
    op = "IdentityN"
    case(op, "three", [counting(2), array(1, "int32"), array([b"a"], "string")], exact=True)
    case(op, "one", [counting(0, 2)], exact=True)
    op = "CheckNumerics"
    for t in optable.kernel_types(op):
        case(op, t, some(op, t, (2, 3)), message="x", exact=True)
        case(op,
             "error/nan_" + t,
             array([1, np.nan], t),
             message="the loss",
             error=True,
             fragments=["the loss", "NaN"])
        case(op,
             "error/infinity_" + t,
             array([1, -np.inf], t),
             message="the loss",
             error=True,
             fragments=["the loss", "Inf"])
    case(op, "empty", counting(0, 2), message="x", exact=True)


def generate():
    _shapes()
    _concat_split()
    _transposes()
    _repeats()
    _pads()
    _makers()
