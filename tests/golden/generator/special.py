"""Hyperbolic, inverse trigonometric and special functions; products that know zero."""

import numpy as np

from . import optable, values
from .base import array
from .harness import case, rng
from .unary import _unary

# Op -> range of ordinary values.
RANGES = {
    "Sinh": (-3, 3),
    "Cosh": (-3, 3),
    "Asin": (-1, 1),
    "Acos": (-1, 1),
    "Atan": (-3, 3),
    "Asinh": (-3, 3),
    "Acosh": (1, 5),
    "Atanh": (-0.9, 0.9),
    "Erfc": (-3, 3),
    "Erfinv": (-0.99, 0.99),
    "Ndtri": (0.01, 0.99),
    "Lgamma": (-3.4, 5),
    "Digamma": (-3.4, 5),
}
_BINARY = {
    "Atan2": (-3, 3),
    "Xlogy": (0.1, 3),
    "Xlog1py": (-0.9, 3),
    "Xdivy": (0.5, 3),
    "MulNoNan": (-3, 3),
    "Igamma": (0.2, 6),
    "Igammac": (0.2, 6),
    "IgammaGradA": (0.2, 6),
    "Zeta": (1.5, 5),
    "Polygamma": (0.5, 5),
}


def _binary(op, low, high):
    special = op in ("Igamma", "Igammac", "IgammaGradA", "Zeta", "Polygamma")
    for t in optable.kernel_types(op):
        loose = {"rtol": 1e-4 if t == "float32" else 1e-9, "atol": 1e-5} if special else {}
        r = rng(op, t)
        x, y = values.ordinary(r, (3, 7), t, low, high), values.ordinary(r, (3, 7), t, low, high)
        if op == "Polygamma":
            x = array(r.randint(1, 5, (3, 7)), t)
        case(op, t + "/ordinary", x, y, **loose)
        case(op, t + "/row", x, y[0], **loose)
        case(op, t + "/column", x[:, :1].copy(), y, **loose)
        case(op, t + "/scalar", x, y[0, 0], **loose)
        case(op, t + "/empty", x[:0], y[:0], **loose)
        # A complex division by zero depends on the processor.
        if special or (op == "Xdivy" and t in optable.COMPLEX):
            continue
        zeros = array([0, 0, 0, 1, 2, 0, -0.0], t)
        others = array([0, 1, 0.5, 0, 1, 2, 3], t)
        case(op, t + "/zeros", zeros, others)
        case(op, t + "/zeros_second", others, zeros)
        if t in optable.FLOATS and op != "Atan2":
            case(op, t + "/zero_and_others", array([0, 0, 0, 0], t),
                 array([np.nan, np.inf, -np.inf, -1], t))
    case(op, "error/shapes", array([1, 2], "float32"), array([1, 2, 3], "float32"), error=True)


def generate():
    for op, (low, high) in RANGES.items():
        _unary(op, low, high)
    for op, (low, high) in _BINARY.items():
        _binary(op, low, high)
