"""Ops that move elements between space, batch and depth; Roll."""

import numpy as np

from . import optable
from .base import array, tf, v1
from .convolution import data, i32, to_nchw
from .harness import case, computed, refused

_KNOWN_NOTE = "TensorFlow wants to know the shape of block_shape when the graph is made"


def _many(op, name, x, block, sides):
    """A case of the ops on any number of dimensions; returns the output."""
    sides_name = "paddings" if op.startswith("Space") else "crops"
    with tf.Graph().as_default(), v1.Session() as session:
        y = session.run(
            getattr(tf.raw_ops, op)(input=x, block_shape=block, **{
                sides_name: sides
            }))
    computed(op, name, [x, block, sides], [y], _KNOWN_NOTE, exact=True)
    return y


def _to_batch():
    cases = {
        "images": ((1, 4, 6, 2), [2, 3], [[0, 0], [0, 0]]),
        "padded": ((2, 3, 4, 1), [2, 2], [[1, 0], [0, 2]]),
        "one_dimension": ((2, 5, 3), [3], [[2, 2]]),
        "vectors": ((3, 8), [4], [[0, 0]]),
        "three_dimensions": ((1, 2, 4, 3, 2), [1, 2, 3], [[0, 0], [1, 1], [0, 0]]),
        "no_dimensions": ((2, 3), [], np.zeros((0, 2))),
        "padding_alone": ((1, 1, 2, 1), [2, 2], [[0, 3], [4, 2]]),
    }
    for name, (shape, block, paddings) in cases.items():
        x = data("SpaceToBatchND", name, shape)
        block, paddings = array(block, "int32"), array(paddings, "int32")
        y = _many("SpaceToBatchND", name, x, block, paddings)
        _many("BatchToSpaceND", name, y, block, paddings)
    _many("BatchToSpaceND", "all_cropped", data("BatchToSpaceND", "c", (4, 1, 2, 1)), i32(2, 2),
          array([[1, 1], [0, 1]], "int64"))
    for op in ("SpaceToBatchND", "BatchToSpaceND"):
        for t in optable.kernel_types(op):
            _many(op, t, data(op, t, (4, 4, 2, 1), t), i32(2, 2), array([[0, 0], [0, 0]], "int64"))
        x, zeros = data(op, "x", (4, 4, 4, 1)), array([[0, 0], [0, 0]], "int32")
        _many(op, "empty", x[:, :, :, :0].copy(), i32(2, 2), zeros)
        for name, inputs in (
            ("rank", [x[0, 0], i32(2, 2), zeros]),
            ("block_zero", [x, i32(2, 0), zeros]),
            ("negative", [x, i32(2, 2), array([[0, 0], [-1, 1]], "int32")]),
            ("paddings", [x, i32(2, 2), i32(0, 0)]),
            ("paddings_rows", [x, i32(2, 2), zeros[:1]]),
            ("multiple", [x, i32(3, 1), zeros])):
            refused(op, "error/" + name, inputs, _KNOWN_NOTE)
    refused("BatchToSpaceND", "error/crops", [x, i32(2, 1), array([[9, 0], [0, 0]], "int32")],
            _KNOWN_NOTE)
    x, paddings = data("SpaceToBatch", "x", (1, 3, 4, 2)), array([[1, 0], [0, 2]], "int32")
    y = case("SpaceToBatch", "padded", x, paddings, block_size=2, exact=True)
    case("BatchToSpace", "cropped", y[0], paddings, block_size=2, exact=True)
    case("SpaceToBatch", "error/rank", x[0], paddings, block_size=2, error=True)
    case("BatchToSpace", "error/multiple", x, paddings, block_size=2, error=True)


def _to_depth():
    for name, shape, block in (("two", (2, 4, 6, 3), 2), ("three", (1, 3, 6, 1), 3)):
        x = data("SpaceToDepth", name, shape)
        y = case("SpaceToDepth", name, x, block_size=block, exact=True)[0]
        case("DepthToSpace", name, y, block_size=block, exact=True)
        note = "TensorFlow's CPU kernels have no NCHW: worked out in NHWC and transposed"
        nchw = {"block_size": block, "data_format": "NCHW", "exact": True}
        computed("SpaceToDepth", name + "_nchw", [to_nchw(x)], [to_nchw(y)], note, **nchw)
        computed("DepthToSpace", name + "_nchw", [to_nchw(y)], [to_nchw(x)], note, **nchw)
    for op in ("SpaceToDepth", "DepthToSpace"):
        for t in optable.kernel_types(op):
            case(op, t, data(op, t, (1, 2, 2, 4), t), block_size=2, exact=True)
        case(op, "empty", np.zeros((0, 2, 2, 4), np.float32), block_size=2)
        case(op, "error/rank", np.zeros((2, 2, 4), np.float32), block_size=2, error=True)
        case(op, "error/multiple", np.zeros((1, 3, 3, 3), np.float32), block_size=2, error=True)


def _roll():
    op = "Roll"
    x = data(op, "x", (3, 4, 5))
    for name, shift, axis in (("scalar", 2, 1), ("vector", [1, -2], [0, 2]),
                              ("twice", [1, 3], [1, 1]), ("around", [7], [-1]),
                              ("back_around", [-11, 4], [0, 1]), ("nothing", [0, 4], [0, 1]),
                              ("all", [1, 1, 1], [0, 1, 2])):
        case(op, name, x, array(shift, "int32"), array(axis, "int64"), exact=True)
    for t in optable.kernel_types(op):
        case(op, t, data(op, t, (5,), t), array(2, "int64"), array(0, "int32"), exact=True)
    case(op, "empty", x[:0], array(2, "int32"), array(0, "int32"), exact=True)
    case(op, "error/scalar", np.float32(1), array(2, "int32"), array(0, "int32"), error=True)
    case(op, "error/axis", x, array(2, "int32"), array(3, "int32"), error=True)
    case(op, "error/shift_rank", x, array([[2]], "int32"), array(0, "int32"), error=True)
    case(op, "error/lengths", x, i32(1, 2), i32(0), error=True)


def generate():
    _to_batch()
    _to_depth()
    _roll()
