"""Input values: ordinary ones, and those at the edges of each type."""

import numpy as np

from . import base, harness, optable, running

SPECIAL_FLOATS = [
    np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 6.0, 10.0, -10.0,
    100.0, -100.0
]


def integer_range(dtype):
    info = np.iinfo(np.dtype(dtype))
    return info.min, info.max


def ordinary(rng, shape, dtype, low=-3.0, high=3.0):
    """Values between low and high; for unsigned types between 0 and twice high."""
    if dtype == "bool":
        return rng.randint(0, 2, shape).astype(bool)
    if dtype == "string":
        words = [b"", b"a", b"bc", b"tensor", b"\xff\x00", b"xyz"]
        picks = rng.randint(0, len(words), shape)
        a = np.empty(shape, dtype=object)
        for i in np.ndindex(*shape):
            a[i] = words[picks[i]]
        return a
    if dtype in optable.INTS:
        if dtype in optable.UNSIGNED:
            low, high = max(0, low), 2 * high
        return np.asarray(rng.randint(int(np.ceil(low)), int(high) + 1, shape)).astype(dtype)
    if dtype in optable.COMPLEX:
        a = rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)
        return base.array(np.round(a, 3), dtype)
    return base.array(np.round(rng.uniform(low, high, shape), 3), dtype)


def special(dtype):
    """The edges of a type as a vector."""
    if dtype == "bool":
        return np.array([True, False])
    if dtype == "string":
        return base.array([b"", b"a", b"\x00\xff"], dtype)
    if dtype in optable.INTS:
        low, high = integer_range(dtype)
        values = [low, low + 1, 0, 1, 2, 3, 7, high - 1, high]
        if low < 0:
            values += [-1, -2, -7]
        return np.array(values, dtype=dtype)
    if dtype in optable.COMPLEX:
        return base.array([0, 1, -1, 1j, -1j, 1 + 1j, -2 + 3j, 0.5 - 4j], dtype)
    top = {"float16": 60000.0, "bfloat16": 3e38, "float32": 3e38, "float64": 1e308}[dtype]
    return base.array(SPECIAL_FLOATS + [top, -top, 1.0 / (top / 8)], dtype)


def same(a, b, dtype):
    """Whether two answers agree within the type's tolerance, NaN with NaN."""
    if a.dtype == object or a.dtype == bool or np.issubdtype(a.dtype, np.integer):
        return bool(np.all(a == b))
    wide = np.complex128 if np.iscomplexobj(a) else np.float64
    with np.errstate(all="ignore"):
        return bool(
            np.allclose(a.astype(wide),
                        b.astype(wide),
                        equal_nan=True,
                        rtol=harness.RTOL.get(dtype, 0),
                        atol=harness.ATOL.get(dtype, 0)))


def settled(op, vectors, dtype, **attrs):
    """Drops the positions where TensorFlow's answer depends on where the element stands.

    Its vector instructions and its scalar code treat some edge values differently (NaN, largest
    values): such an answer says nothing. Each element is run alone and in the whole vector,
    once as given and once reversed.
    """

    def run(arrays):
        node, flat = running.node_def(op, arrays, attrs)
        return running.run_node(node, flat)[0]

    n = len(vectors[0])
    try:
        whole = run(vectors)
        backwards = run([v[::-1].copy() for v in vectors])[::-1]
        keep = []
        for i in range(n):
            alone = run([v[i:i + 1] for v in vectors])
            if same(alone, whole[i:i + 1], dtype) and same(alone, backwards[i:i + 1], dtype):
                keep.append(i)
    except running.Failed:
        return vectors, ""
    if len(keep) == n:
        return vectors, ""
    return [v[keep] for v in vectors
           ], ("without the values for which TensorFlow's vector and scalar code differ")
