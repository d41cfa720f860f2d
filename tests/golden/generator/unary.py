"""Ops on each element of one tensor, and the gradients that take (y, dy)."""

import numpy as np

from . import optable, values
from .base import array
from .harness import case, rng

# Op -> range of ordinary values.
_ANY = (-3.0, 3.0)
_POSITIVE = (0.1, 5.0)
RANGES = {
    "Abs": _ANY,
    "Ceil": _ANY,
    "Cos": (-7, 7),
    "Erf": _ANY,
    "Exp": _ANY,
    "Expm1": _ANY,
    "Floor": _ANY,
    "Inv": _POSITIVE,
    "Reciprocal": _POSITIVE,
    "IsFinite": _ANY,
    "IsInf": _ANY,
    "IsNan": _ANY,
    "Log": _POSITIVE,
    "Log1p": (-0.9, 5),
    "Neg": _ANY,
    "Rint": _ANY,
    "Round": _ANY,
    "Rsqrt": _POSITIVE,
    "Sigmoid": (-8, 8),
    "Sign": _ANY,
    "Sin": (-7, 7),
    "Sqrt": _POSITIVE,
    "Square": _ANY,
    "Tan": (-1.3, 1.3),
    "Tanh": _ANY,
    "Elu": _ANY,
    "Relu": _ANY,
    "Relu6": (-2, 9),
    "LeakyRelu": _ANY,
    "Selu": _ANY,
    "Softplus": (-20, 20),
    "Softsign": _ANY,
    "ZerosLike": _ANY,
    "OnesLike": _ANY,
    "Conj": _ANY,
    "Identity": _ANY,
    "StopGradient": _ANY,
    "PreventGradient": _ANY,
}
_EXACT = {
    "Abs", "Ceil", "Floor", "Neg", "Rint", "Round", "Sign", "Relu", "Relu6", "ZerosLike",
    "OnesLike", "Conj", "Identity", "StopGradient", "PreventGradient"
}
_NOTES = {"Round": "halves go to the even neighbour", "Rint": "halves go to the even neighbour"}

# y and the range of dy.
GRADIENTS = {
    "EluGrad": (-0.9, 3),
    "InvGrad": (0.2, 3),
    "ReciprocalGrad": (0.2, 3),
    "LeakyReluGrad": (-3, 3),
    "Relu6Grad": (-2, 8),
    "ReluGrad": (-3, 3),
    "RsqrtGrad": (0.2, 2),
    "SeluGrad": (-1.7, 3),
    "SigmoidGrad": (0.01, 0.99),
    "SoftplusGrad": (-5, 5),
    "SoftsignGrad": (-3, 3),
    "SqrtGrad": (0.2, 3),
    "TanhGrad": (-0.99, 0.99),
}
# These take the incoming gradient first.
_GRADIENT_FIRST = {
    "EluGrad", "LeakyReluGrad", "Relu6Grad", "ReluGrad", "SeluGrad", "SoftplusGrad", "SoftsignGrad"
}
# Of the others, those whose kernels compare the shapes.
_CHECKED = {"InvGrad", "ReciprocalGrad", "RsqrtGrad", "SigmoidGrad", "SqrtGrad", "TanhGrad"}


def _unary(op, low, high):
    exact = op in _EXACT
    for t in optable.kernel_types(op):
        r = rng(op, t)
        ordinary = values.ordinary(r, (3, 7), t, low, high)
        if op in ("Sqrt", "Rsqrt", "Log", "Log1p", "Inv", "Reciprocal") and t in optable.INTS:
            ordinary = np.maximum(ordinary, 1).astype(ordinary.dtype)
        case(op, t + "/ordinary", ordinary, exact=exact)
        if t == "string" and op not in ("Identity", "ZerosLike"):
            continue
        edge, note = values.settled(op, [values.special(t)], t)
        note = "; ".join(n for n in (note, _NOTES.get(op, "")) if n)
        case(op, t + "/edges", edge[0], exact=exact, note=note)
        case(op, t + "/empty", ordinary[:0], exact=exact)
    t = optable.kernel_types(op)[0]
    case(op, "scalar", values.ordinary(rng(op, "scalar"), (), t, low, high), exact=exact)
    case(op, "rank4", values.ordinary(rng(op, "rank4"), (2, 1, 3, 2), t, low, high), exact=exact)


def _gradients():
    for op, (low, high) in GRADIENTS.items():
        for t in optable.kernel_types(op):
            r = rng(op, t)
            y = values.ordinary(r, (3, 7), t, low, high)
            dy = values.ordinary(r, (3, 7), t, -2, 2)
            pair = (lambda a, b: (b, a)) if op in _GRADIENT_FIRST else (lambda a, b: (a, b))
            case(op, t + "/ordinary", *pair(y, dy))
            case(op, t + "/empty", *pair(y[:0], dy[:0]))
            if t in optable.FLOATS:
                y = array([np.nan, np.inf, -np.inf, 0, -0.0, 1, 6, 0.5, -1, 0.25], t)
                dy = array([1, 2, -1, 1, 3, 0, 2, np.nan, np.inf, -2], t)
                edge, note = values.settled(op, list(pair(y, dy)), t)
                case(op, t + "/edges", *edge, note=note)
        case(op, "scalar", *pair(array(0.5, "float32"), array(2.0, "float32")))
        if op in _GRADIENT_FIRST or op in _CHECKED:
            case(op,
                 "error/shapes",
                 array([1.0, 2.0], "float32"),
                 array([1.0, 2.0, 3.0], "float32"),
                 error=True,
                 fragments=["[2]", "[3]"])
    for op in ("LeakyRelu", "LeakyReluGrad"):
        x = values.ordinary(rng(op, "alpha"), (9,), "float32")
        inputs = (x,) if op == "LeakyRelu" else (np.ones_like(x), x)
        case(op, "alpha", *inputs, alpha=0.01)
        case(op, "alpha_above_one", *inputs, alpha=1.5)


def _complex():
    for op in ("Real", "Imag", "Angle", "ComplexAbs"):
        for t, out in (("complex64", "float32"), ("complex128", "float64")):
            exact = op in ("Real", "Imag")
            case(op, t + "/ordinary", values.ordinary(rng(op, t), (3, 5), t), Tout=out, exact=exact)
            case(op, t + "/edges", values.special(t), Tout=out, exact=exact)
            case(op, t + "/empty", array(np.zeros((0, 2)), t), Tout=out, exact=exact)
        case(op, "scalar", array(3 - 4j, "complex64"), Tout="float32")


def generate():
    for op, (low, high) in RANGES.items():
        _unary(op, low, high)
    case("LogicalNot", "bool", np.array([[True, False], [False, True]]))
    case("LogicalNot", "scalar", np.array(True))
    case("LogicalNot", "empty", np.zeros((0, 3), bool))
    _gradients()
    _complex()
    case("PreventGradient", "message", array([1.0], "float32"), message="no gradient here")
