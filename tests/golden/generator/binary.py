"""Ops on two or three tensors with broadcasting, sums of several tensors, selection, casts."""

import numpy as np

from . import optable, values
from .base import array
from .harness import case, rng

# Op -> (low, high) of both inputs.
ARITHMETIC = {
    "Add": (-3, 3),
    "AddV2": (-3, 3),
    "Sub": (-3, 3),
    "Mul": (-3, 3),
    "Div": (0.5, 5),
    "DivNoNan": (-2, 2),
    "RealDiv": (0.5, 5),
    "FloorDiv": (-9, 9),
    "FloorMod": (-9, 9),
    "Mod": (-9, 9),
    "TruncateDiv": (-9, 9),
    "Maximum": (-3, 3),
    "Minimum": (-3, 3),
    "Pow": (0.5, 3),
    "SquaredDifference": (-3, 3),
}
COMPARISONS = ["Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"]
_DIVISIONS = {"Div", "FloorDiv", "FloorMod", "Mod", "TruncateDiv"}
_EXACT = {"Maximum", "Minimum"}


def _no_zeros(a):
    return np.where(a == 0, np.ones_like(a), a).astype(a.dtype) if a.dtype != object else a


def edge_pairs(op, t):
    """All pairs of a type's edges, but for those where the op has no answer."""
    s = values.special(t)
    if t in optable.FLOATS:
        s = s[[0, 1, 2, 3, 4, 5, 6, 7, 11, 17]]
    elif t in optable.INTS:
        low, high = values.integer_range(t)
        s = np.array([low, low + 1, 0, 1, 3, high - 1, high] + ([-1, -3] if low else []), dtype=t)
    x, y = np.repeat(s, len(s)), np.tile(s, len(s))
    keep = np.ones(len(x), bool)
    if t in optable.INTS:
        if op in _DIVISIONS:
            keep &= y != 0
            if t in optable.SIGNED:
                # The quotient does not fit: the processor traps.
                keep &= ~((x == values.integer_range(t)[0]) & (y == -1))
        if op == "Pow":
            keep &= (y >= 0) & (y <= 3)
    return x[keep], y[keep]


def _broadcasts(op, t, low, high, exact):
    r = rng(op, "broadcast" + t)
    shapes = {
        "scalar_right": ((2, 3), ()),
        "scalar_left": ((), (2, 3)),
        "row": ((3, 4), (4,)),
        "column": ((3, 4), (3, 1)),
        "outer": ((3, 1), (1, 5)),
        "one_element": ((1,), (2, 1, 2)),
        "rank4": ((2, 1, 3, 1), (4, 1, 5)),
        "middle": ((2, 3, 4), (2, 1, 4)),
        "rank6": ((2, 2, 2, 1, 1, 1), (1, 1, 1, 2, 2, 2)),
        "empty": ((0, 3), (3,)),
        "empty_times_one": ((0, 1), (1, 4)),
        "scalars": ((), ()),
    }
    for name, (a, b) in shapes.items():
        x, y = values.ordinary(r, a, t, low, high), values.ordinary(r, b, t, low, high)
        case(op, "broadcast/" + name, x, _no_zeros(y), exact=exact)
    case(op,
         "error/shapes",
         values.ordinary(r, (2, 3), t, low, high),
         values.ordinary(r, (2, 4), t, low, high),
         error=True,
         fragments=["[2,3]", "[2,4]"])


def _arithmetic():
    for op, (low, high) in ARITHMETIC.items():
        exact = op in _EXACT
        for t in optable.kernel_types(op):
            r = rng(op, t)
            x = values.ordinary(r, (3, 7), t, low, high)
            y = values.ordinary(r, (3, 7), t, low, high)
            if op in _DIVISIONS or op == "RealDiv":
                y = _no_zeros(y)
            if op == "Pow" and t in optable.SIGNED:
                x = values.ordinary(r, (3, 7), t, -3, 3)
            if op == "DivNoNan":
                y[0, ::2] = 0
            case(op, t + "/ordinary", x, y, exact=exact)
            case(op, t + "/empty", x[:0], y[:0], exact=exact)
            if t in optable.COMPLEX and op in ("Div", "RealDiv", "Pow", "DivNoNan"):
                continue
            edge, note = values.settled(op, list(edge_pairs(op, t)), t)
            case(op, t + "/edges", *edge, exact=exact, note=note)
        _broadcasts(op, "float32", low, high, exact)
    for op in sorted(_DIVISIONS):
        for t in ("int32", "int64"):
            case(op,
                 "error/%s_by_zero" % t,
                 array([1, 2], t),
                 array([1, 0], t),
                 error=True,
                 fragments=["zero"])
            case(op,
                 "error/%s_by_zero_scalar" % t,
                 array([1, 2], t),
                 array(0, t),
                 error=True,
                 fragments=["zero"])
    for t in ("int32", "int64"):
        case("Pow",
             "error/%s_negative_exponent" % t,
             array([2, 3], t),
             array([1, -1], t),
             error=True,
             fragments=["negative"])


def _comparisons():
    for op in COMPARISONS:
        for t in optable.kernel_types(op):
            r = rng(op, t)
            x, y = values.ordinary(r, (3, 7), t, -2, 2), values.ordinary(r, (3, 7), t, -2, 2)
            y[1] = x[1]
            case(op, t + "/ordinary", x, y)
            case(op, t + "/empty", x[:0], y[:0])
            if t in optable.FLOATS + optable.INTS:
                edge, note = values.settled(op, list(edge_pairs(op, t)), t)
                case(op, t + "/edges", *edge, note=note)
        _broadcasts(op, "float32", -3, 3, False)
    for op in ("Equal", "NotEqual"):
        case(op, "string_broadcast", array([b"a", b"b", b""], "string"), array(b"b", "string"))
        case(op,
             "incompatible_shapes_allowed",
             array([1, 2], "int32"),
             array([1, 2, 3], "int32"),
             incompatible_shape_error=False)
        case(op,
             "compatible_shapes_allowed",
             array([1, 2], "int32"),
             array([[1], [2]], "int32"),
             incompatible_shape_error=False)
    for op in ("LogicalAnd", "LogicalOr"):
        x, y = np.array([[True, False], [True, False]]), np.array([[True, True], [False, False]])
        case(op, "ordinary", x, y)
        case(op, "broadcast/row", x, np.array([True, False]))
        case(op, "broadcast/scalar", x, np.array(True))
        case(op, "empty", x[:0], y[:0])
        case(op, "error/shapes", x, np.array([True] * 3), error=True, fragments=["[2,2]", "[3]"])


def _complex_and_clip():
    op = "Complex"
    for t, out in (("float32", "complex64"), ("float64", "complex128")):
        r = rng(op, t)
        case(op,
             t + "/ordinary",
             values.ordinary(r, (2, 5), t),
             values.ordinary(r, (2, 5), t),
             Tout=out,
             exact=True)
        case(op,
             t + "/broadcast",
             values.ordinary(r, (2, 1), t),
             values.ordinary(r, (3,), t),
             Tout=out,
             exact=True)
        case(op, t + "/empty", array([], t), array([], t), Tout=out, exact=True)
    case(op,
         "error/shapes",
         array([1, 2], "float32"),
         array([1, 2, 3], "float32"),
         Tout="complex64",
         error=True,
         fragments=["[2]", "[3]"])
    op = "ClipByValue"
    for t in optable.kernel_types(op):
        if t in optable.COMPLEX:
            continue
        r = rng(op, t)
        x = values.ordinary(r, (3, 5), t, -5, 5)
        low, high = (1, 4) if t in optable.UNSIGNED else (-2, 3)
        case(op, t + "/scalars", x, array(low, t), array(high, t), exact=True)
        case(op, t + "/per_element", x, np.full_like(x, low), np.full_like(x, high), exact=True)
        case(op, t + "/empty", x[:0], array(low, t), array(high, t), exact=True)
    x = array([[-5, 0, 5], [1, 2, 9]], "float32")
    case(op, "error/row", x, array(-1, "float32"), array([1, 2, 3], "float32"), error=True)
    case(op, "scalar_min_full_max", x, array(-1, "float32"), np.full_like(x, 2), exact=True)
    case(op, "scalar_max_full_min", x, np.full_like(x, -2), array(2, "float32"), exact=True)
    case(op,
         "edges",
         array([np.inf, -np.inf, 0.5], "float32"),
         array(-1, "float32"),
         array(1, "float32"),
         exact=True)
    case(op,
         "error/shapes",
         x,
         array([1, 2], "float32"),
         array([3, 4, 5, 6], "float32"),
         error=True)


def _eighths(a):
    """Rounded so that sums are exact: TensorFlow may add the inputs in any order."""
    if a.dtype.kind in "iu":
        return a
    wide = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    return (np.round(wide * 8) / 8).astype(a.dtype)


def _sums():
    for op in ("AddN", "AccumulateNV2"):
        for t in optable.kernel_types(op):
            r = rng(op, t)
            xs = [_eighths(values.ordinary(r, (2, 5), t)) for _ in range(3)]
            extra = {"shape": [2, 5]} if op == "AccumulateNV2" else {}
            case(op, t + "/three", xs, **extra)
        r = rng(op, "many")
        for n in (1, 2, 8, 9, 13):
            xs = [_eighths(values.ordinary(r, (7,), "float32")) for _ in range(n)]
            extra = {"shape": [7]} if op == "AccumulateNV2" else {}
            case(op, "count%d" % n, xs, **extra)
        extra = {"shape": [0, 3]} if op == "AccumulateNV2" else {}
        case(op, "empty", [np.zeros((0, 3), np.float32)] * 2, **extra)
        extra = {"shape": []} if op == "AccumulateNV2" else {}
        case(op, "scalars", [array(1, "float32"), array(2, "float32")], **extra)
        extra = {"shape": [2]} if op == "AccumulateNV2" else {}
        case(op,
             "error/shapes",
             [array([1, 2], "float32"), array([1, 2, 3], "float32")],
             error=True,
             fragments=["[2]", "[3]"],
             **extra)


def _select():
    for op in ("Select", "SelectV2"):
        for t in optable.kernel_types(op):
            r = rng(op, t)
            c = values.ordinary(r, (3, 5), "bool")
            x, y = values.ordinary(r, (3, 5), t), values.ordinary(r, (3, 5), t)
            case(op, t + "/ordinary", c, x, y, exact=True)
            case(op, t + "/scalar_condition", np.array(False), x, y, exact=True)
            case(op, t + "/empty", c[:0], x[:0], y[:0], exact=True)
        x, y = array([[1, 2], [3, 4], [5, 6]], "float32"), array([[7, 8], [9, 10], [11, 12]],
                                                                 "float32")
        case(op, "scalars", np.array(True), x[0, 0], y[0, 0], exact=True)
        case(op,
             "nan",
             np.array([True, False]),
             array([np.nan, np.nan], "float32"),
             array([1, 2], "float32"),
             exact=True)
        case(op,
             "error/branches",
             np.array([[True, True]]),
             x,
             array([1, 2, 3, 4], "float32"),
             error=True,
             fragments=["[3,2]", "[4]"])
        case(op,
             "error/condition_length",
             np.array([True, False, True, True]),
             x,
             y,
             error=True,
             fragments=["[4]", "[3,2]"])
    case("Select",
         "rows",
         np.array([True, False, True]),
         x,
         y,
         exact=True,
         note="a vector condition chooses whole rows")
    case("Select", "error/no_broadcast", np.array([True, False]), x[0], y, error=True)
    case("Select", "error/condition_rank", np.array([[True], [False], [True]]), x, y, error=True)
    for name, c, a, b in (("column", (3, 1), (3, 4), (1, 4)), ("row", (4,), (3, 4), (3, 4)),
                          ("scalar_branches", (2, 2), (), ()), ("outer", (2, 1, 1), (3, 1), (4,)),
                          ("empty", (0, 1), (1, 3), (3,))):
        r = rng("SelectV2", name)
        case("SelectV2",
             "broadcast/" + name,
             values.ordinary(r, c, "bool"),
             values.ordinary(r, a, "float32"),
             values.ordinary(r, b, "float32"),
             exact=True)


def _casts():
    op = "Cast"
    sources = optable.NUMBERS + ["bool"]
    for s in sources:
        for d in sources:
            r = rng(op, s + d)
            low = 0 if d in optable.UNSIGNED or d == "bool" else -9
            x = values.ordinary(r, (2, 5), s, low, 9)
            case(op, "%s_to_%s" % (s, d), x, DstT=d, exact=True)
    for s in optable.FLOATS:
        edges = array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -1.5, 2.5, 1e4, 3.14159274], s)
        for d in optable.FLOATS + ["bool", "complex64"]:
            case(op, "edges/%s_to_%s" % (s, d), edges, DstT=d, exact=True)
        fractions = array([-2.9, -2.5, -0.5, 0.5, 0.999, 1.5, 2.5, 100.7], s)
        for d in ("int32", "int64", "int8"):
            case(op, "towards_zero/%s_to_%s" % (s, d), fractions, DstT=d)
    case(op,
         "rounding/float32_to_float16",
         array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 65519.0, 65520.0, 2.0**-24, 2.0**-25, 1e-8],
               "float32"),
         DstT="float16",
         exact=True,
         note="ties go to even; 65520 overflows")
    case(op,
         "rounding/float32_to_bfloat16",
         array([1 + 2.0**-8, 1 + 3 * 2.0**-8, 3.3e38, 3.4e38, 1.00001], "float32"),
         DstT="bfloat16",
         exact=True,
         note="ties go to even")
    case(op,
         "truncate/float32_to_bfloat16",
         array([1 + 2.0**-8, 1 + 3 * 2.0**-8, 1.999], "float32"),
         DstT="bfloat16",
         Truncate=True,
         exact=True)
    for s in ("int32", "int64", "uint8", "int8", "uint32", "uint64"):
        for d in optable.INTS + ["float32", "float64", "bool"]:
            case(op, "wrap/%s_to_%s" % (s, d), values.special(s), DstT=d, exact=True)
    case(op, "empty", np.zeros((0, 3), np.float32), DstT="int32")
    case(op, "scalar", array(2.75, "float32"), DstT="int32")
    case(op, "error/string", array([b"1"], "string"), DstT="int32", error=True)
    op = "Bitcast"
    for s, d in (("float32", "int32"), ("int32", "float32"), ("float64", "int64"),
                 ("float16", "uint16"), ("bfloat16", "int16"), ("uint8", "int8"),
                 ("uint32", "int32"), ("uint64", "int64"), ("complex64", "int64")):
        r = rng(op, s + d)
        case(op, "same_size/%s_to_%s" % (s, d), values.ordinary(r, (2, 3), s), type=d, exact=True)
    for s, d in (("float32", "uint8"), ("int64", "int32"), ("complex128", "float64"), ("float64",
                                                                                       "uint16")):
        case(op,
             "smaller/%s_to_%s" % (s, d),
             values.ordinary(rng(op, s + d), (2, 3), s),
             type=d,
             exact=True)
    case(op,
         "larger/uint8_to_float32",
         np.array([[0, 0, 128, 63], [0, 0, 0, 192]], np.uint8),
         type="float32",
         exact=True)
    case(op, "larger/int32_to_int64", array([[[1, 0], [0, 1]]], "int32"), type="int64")
    case(op, "empty", np.zeros((0, 2), np.float32), type="int32")
    case(op,
         "error/last_dimension",
         array([1, 2, 3], "uint8"),
         type="float32",
         error=True,
         fragments=["[3]", "4"])
    case(op, "error/scalar", array(1, "uint8"), type="float32", error=True)


def generate():
    _arithmetic()
    _comparisons()
    _complex_and_clip()
    _sums()
    _select()
    _casts()
