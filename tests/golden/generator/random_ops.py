"""Random ops: with seeds the numbers are fixed, bit for bit for the uniform ones.

The normal ones go through logarithm, sine and cosine, whose last digit is the C library's.
"""

import numpy as np

from . import optable, values
from .base import array, tf
from .harness import case, rng
from .program import Program
from .state import const, raw

_SHAPES = {
    "few": (3,),
    "uneven": (70,),
    "many": (261,),
    "matrix": (5, 7),
    "scalar": (),
    "empty": (0, 3)
}


def _exact(op):
    return "Uniform" in op


def _stateful():
    for op in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
        make = getattr(raw, op)
        for t in optable.kernel_types(op, "dtype"):
            p = Program(op, t, exact=_exact(op), note="each run goes on where the last one stopped")
            with p:
                x = make(shape=const(array([19], "int32")),
                         dtype=tf.as_dtype(t),
                         seed=87654321,
                         seed2=42)
            for _ in range(3):
                p.step(x)
            p.record()
        for name, shape in _SHAPES.items():
            p = Program(op, name, exact=_exact(op))
            with p:
                x = make(shape=const(array(shape, "int32")), dtype=tf.float32, seed=1, seed2=2)
                y = make(shape=const(array(shape, "int64")), dtype=tf.float32, seed=3, seed2=0)
            p.step([x, y])
            p.step([x, y])
            p.record()
        p = Program(op,
                    "seeds",
                    exact=_exact(op),
                    note="equal seeds: equal numbers; each node has its own state")
        with p:
            shape = const(array([5], "int32"))
            nodes = [
                make(shape=shape, dtype=tf.float32, seed=a, seed2=b)
                for a, b in ((1, 2), (1, 2), (2, 1), (0, 7), (-5, 2**40), (2**31, 9))
            ]
        p.step(nodes[0])
        p.step(nodes)
        p.record()
        p = Program(op, "changing_shape", exact=_exact(op))
        with p:
            shape = tf.compat.v1.placeholder(tf.int32, name="shape")
            x = make(shape=shape, dtype=tf.float32, seed=5, seed2=6)
        p.step(x, {shape: [2]})
        p.step(x, {shape: [3, 3]})
        p.step(x, {shape: [-1]}, error=True)
        p.step(x, {shape: [4]})
        p.record()
        p = Program(op, "no_seed", note="seeds of zero: only type and shape are known")
        with p:
            x = make(shape=const(array([4, 2], "int32")), dtype=tf.float32)
        p.step(x, unchecked=[0])
        p.record()
    op = "RandomUniformInt"
    for t in optable.kernel_types(op, "Tout"):
        for name, low, high in (("small", 0, 10), ("negative", -7, -3), ("one", 5, 6),
                                ("power_of_two", 0, 1 << 20), ("whole", *values.integer_range(t))):
            p = Program(op, "%s/%s" % (t, name))
            with p:
                x = raw.RandomUniformInt(shape=const(array([37], "int32")),
                                         minval=const(array(low, t)),
                                         maxval=const(array(high, t)),
                                         seed=11,
                                         seed2=12)
            p.step(x)
            p.step(x)
            p.record()
        p = Program(op, t + "/many")
        with p:
            x = raw.RandomUniformInt(shape=const(array([261], "int64")),
                                     minval=const(array(-100, t)),
                                     maxval=const(array(100, t)),
                                     seed=11,
                                     seed2=12)
        p.step(x)
        p.step(x)
        p.record()
    p = Program(op, "errors")
    with p:
        low, high = (tf.compat.v1.placeholder(tf.int32, name=n) for n in ("low", "high"))
        x = raw.RandomUniformInt(shape=const(array([3], "int32")),
                                 minval=low,
                                 maxval=high,
                                 seed=1,
                                 seed2=2)
    p.step(x, {low: array(5, "int32"), high: array(5, "int32")}, error=True, note="an empty range")
    p.step(x, {low: array(6, "int32"), high: array(5, "int32")}, error=True)
    p.step(x, {
        low: array([1], "int32"),
        high: array(5, "int32")
    },
           error=True,
           note="a bound must be a scalar")
    p.step(x, {low: array(1, "int32"), high: array(5, "int32")})
    p.record()
    op = "RandomShuffle"
    for t in optable.kernel_types(op):
        p = Program(op, t, exact=True)
        with p:
            v = values.ordinary(rng(op, t), (7, 2), t)
            x = raw.RandomShuffle(value=const(v), seed=3, seed2=4)
        p.step(x)
        p.step(x)
        p.record()
    for name, a in (("vector", np.arange(40)), ("scalar", np.array(3)), ("empty", np.zeros(
        (0, 2))), ("one_row", np.ones((1, 3)))):
        p = Program(op, name, exact=True)
        with p:
            x = raw.RandomShuffle(value=const(a.astype(np.float32)), seed=3, seed2=4)
        p.step(x)
        p.step(x)
        p.record()
    op = "Multinomial"
    for t in optable.kernel_types(op):
        for out in ("int32", "int64"):
            p = Program(op, "%s_%s" % (t, out))
            with p:
                logits = values.ordinary(rng(op, t), (3, 5), t, -2, 2)
                x = raw.Multinomial(logits=const(logits),
                                    num_samples=const(array(20, "int32")),
                                    seed=7,
                                    seed2=8,
                                    output_dtype=tf.as_dtype(out))
            p.step(x)
            p.step(x)
            p.record()
    p = Program(op, "shapes_and_errors")
    with p:
        logits, n = tf.compat.v1.placeholder(tf.float32,
                                             name="logits"), tf.compat.v1.placeholder(tf.int32,
                                                                                      name="n")
        x = raw.Multinomial(logits=logits, num_samples=n, seed=7, seed2=8)
    three = array(3, "int32")
    p.step(x, {
        logits: [[0, -np.inf, 1], [-np.inf, 0, -np.inf]],
        n: three
    },
           note="minus infinity is never drawn")
    p.step(x, {logits: np.zeros((0, 3), np.float32), n: three})
    p.step(x, {logits: [[0, 1]], n: array(0, "int32")})
    p.step(x, {logits: [0, 1], n: three}, error=True, note="a vector")
    p.step(x, {logits: np.zeros((2, 0), np.float32), n: three}, error=True, note="no classes")
    p.step(x, {logits: [[0, 1]], n: array(-1, "int32")}, error=True)
    p.record()


def _seeded(op, t, name, shape, seed, **kwargs):
    case(op, "%s/%s" % (t, name), array(shape, "int32"), seed, dtype=t, **kwargs)


def _stateless():
    for op in ("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"):
        exact = {"exact": True} if _exact(op) else {}
        for t in optable.kernel_types(op, "dtype"):
            _seeded(op, t, "few", (5,), array([1, 2], "int64"), **exact)
            _seeded(op, t, "many", (261,), array([3, 4], "int64"), **exact)
        for name, shape in _SHAPES.items():
            case(op,
                 "shape/" + name,
                 array(shape, "int64"),
                 array([5, 6], "int32"),
                 dtype="float32",
                 **exact)
        for i, seed in enumerate(((0, 0), (-1, 1), (2**62, -2**62), (7, 2**33))):
            case(op,
                 "seed/%d" % i,
                 array([6], "int32"),
                 array(seed, "int64"),
                 dtype="float32",
                 **exact)
        case(op,
             "error/seed_length",
             array([2], "int32"),
             array([1], "int64"),
             dtype="float32",
             error=True)
        case(op,
             "error/shape_negative",
             array([-2], "int32"),
             array([1, 2], "int64"),
             dtype="float32",
             error=True)
        v2 = op + "V2"
        key, counter = np.array([0x123456789abcdef0], np.uint64), np.array([7, 2**63 + 1],
                                                                           np.uint64)
        for t in optable.kernel_types(v2, "dtype"):
            for name, shape in (("few", (5,)), ("many", (261,))):
                case(v2,
                     "%s/%s" % (t, name),
                     array(shape, "int32"),
                     key,
                     counter,
                     array(1, "int32"),
                     dtype=t,
                     **exact)
        for name, shape in _SHAPES.items():
            case(v2,
                 "shape/" + name,
                 array(shape, "int64"),
                 key,
                 counter,
                 array(1, "int32"),
                 dtype="float32",
                 **exact)
        case(v2,
             "algorithm/philox",
             array([6], "int32"),
             key,
             counter,
             array(1, "int32"),
             dtype="float32",
             **exact)
        case(v2,
             "algorithm/automatic",
             array([6], "int32"),
             key,
             counter,
             array(3, "int32"),
             dtype="float32",
             note="on a CPU that is Philox (1)",
             **exact)
        case(v2,
             "counter_wraps",
             array([9], "int32"),
             key,
             np.array([2**64 - 2, 0], np.uint64),
             array(1, "int32"),
             dtype="float32",
             **exact)
        case(v2,
             "error/key_length",
             array([2], "int32"),
             np.array([1, 2], np.uint64),
             counter,
             array(1, "int32"),
             dtype="float32",
             error=True)
        case(v2,
             "error/algorithm",
             array([2], "int32"),
             key,
             counter,
             array(77, "int32"),
             dtype="float32",
             error=True)
    op = "StatelessRandomUniformInt"
    key, counter = np.array([99], np.uint64), np.array([7, 8], np.uint64)
    for t in optable.kernel_types(op, "dtype"):
        for name, low, high in (("small", 0, 10), ("negative", -7, -3), ("one", 5, 6),
                                ("whole", *values.integer_range(t))):
            case(op, "%s/%s" % (t, name), array([37], "int32"), array([1, 2], "int64"),
                 array(low, t), array(high, t))
        case(op, t + "/many", array([261], "int64"), array([1, 2], "int32"), array(-100, t),
             array(100, t))
        for name, low, high in (("small", 0, 10), ("negative", -7, -3), ("whole",
                                                                         *values.integer_range(t))):
            case(op + "V2", "%s/%s" % (t, name), array([37], "int32"), key, counter,
                 array(1, "int32"), array(low, t), array(high, t))
        case(op + "V2", t + "/many", array([261], "int64"), key, counter, array(1, "int32"),
             array(-100, t), array(100, t))
        case(op + "V2", t + "/empty", array([0], "int64"), key, counter, array(1, "int32"),
             array(-100, t), array(100, t))
    case(op,
         "error/range",
         array([3], "int32"),
         array([1, 2], "int64"),
         array(5, "int32"),
         array(5, "int32"),
         error=True)
    case(op + "V2",
         "error/range",
         array([3], "int32"),
         key,
         counter,
         array(1, "int32"),
         array(5, "int32"),
         array(4, "int32"),
         error=True)
    op = "StatelessRandomGetKeyCounter"
    for t in ("int32", "int64"):
        for i, seed in enumerate(((0, 0), (1, 2), (-1, 5), (123456, -7))):
            case(op, "%s/%d" % (t, i), array(seed, t))
    case(op, "int64/large", array([2**62 + 3, -2**61], "int64"))
    case(op, "error/length", array([1], "int64"), error=True)
    case("StatelessRandomGetAlg", "cpu", note="Philox")


def generate():
    _stateful()
    _stateless()
