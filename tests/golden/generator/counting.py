"""Numbers counted and sorted into buckets; ragged tensors, and values at indices, as dense ones."""

import numpy as np

from . import optable, values
from .array import counting, each_type, i32, i64, some
from .base import array
from .harness import case, refused

NONE = np.zeros((0,), np.float32)
COUNTED = ["int32", "int64", "float32", "float64"]


def one_of(op, t):
    """A scalar."""
    return some(op, t, (1,), "default").reshape(())


def _bucketize():
    op = "Bucketize"
    for t in COUNTED:
        x = some(op, t, (3, 5))
        case(op, t, x, boundaries=[-2.0, -0.5, 0.0, 1.0, 1.0, 2.5])
        case(op, t + "/edges", values.special(t), boundaries=[-100.0, -1.0, 0.0, 1.0, 100.0])
    case(op, "on_the_boundaries", array([0, 10, 100, 9.99, -5, 150], "float32"),
         boundaries=[0.0, 10.0, 100.0])
    case(op, "none", array([1, 2], "int32"), boundaries=[])
    case(op, "scalar", array(5, "int64"), boundaries=[3.0])
    case(op, "empty", NONE, boundaries=[3.0])
    case(op, "whole_numbers_as_floats", array([16777217, 16777216], "int32"),
         boundaries=[16777216.0])
    case(op, "error/unsorted", array([1], "int32"), boundaries=[1.0, 3.0, 2.0], error=True,
         fragments=["2"])


def _bincount():
    numbers = i32(1, 3, 1, 0, 5, 3, 1)
    for t in COUNTED:
        weights = some("Bincount", t, (7,))
        case("Bincount", t, numbers, array(6, "int32"), weights)
        case("Bincount", t + "/unweighted", numbers, array(6, "int32"), weights[:0])
    op = "Bincount"
    case(op, "beyond_size", numbers, array(2, "int32"), NONE)
    case(op, "no_bins", numbers, array(0, "int32"), NONE)
    case(op, "no_numbers", numbers[:0], array(3, "int32"), NONE)
    case(op, "matrix", numbers[:6].reshape(2, 3), array(4, "int32"), NONE)
    case(op, "error/negative", i32(1, -2), array(4, "int32"), NONE, error=True, fragments=["-2"])
    case(op, "error/size", numbers, array(-1, "int32"), NONE, error=True, fragments=["-1"])
    case(op, "error/size_shape", numbers, i32(1, 2), NONE, error=True)
    case(op, "error/weights", numbers, array(4, "int32"), counting(3), error=True)

    rows = np.array([[1, 3, 1], [0, 5, 3]])
    sparse = i64([0, 1], [0, 4], [2, 0], [2, 1], [2, 2], [3, 9])
    splits = i64(0, 2, 2, 5, 6)
    six = np.array([1, 3, 1, 0, 5, 3])
    for index in ("int32", "int64"):
        size = array(5, index)
        for t in COUNTED:
            name = index + "_" + t
            weights = some("DenseBincount", t, (2, 3))
            flat = weights.reshape(6)
            for label, w, attrs in (("", weights, {}), ("/unweighted", weights[:0], {}),
                                    ("/binary", weights[:0], {"binary_output": True}),
                                    ("/binary_weighted", weights, {"binary_output": True})):
                w1 = flat if w.size else flat[:0]
                case("DenseBincount", name + label, array(rows, index), size, w, **attrs)
                case("DenseBincount", name + label + "/vector", array(six, index), size, w1, **attrs)
                case("SparseBincount", name + label, sparse, array(six, index), i64(4, 10), size,
                     w1, **attrs)
                case("RaggedBincount", name + label, splits, array(six, index), size, w1, **attrs)
    op = "DenseBincount"
    case(op, "no_columns", np.zeros((2, 0), np.int32), array(3, "int32"), NONE)
    case(op, "no_rows", np.zeros((0, 2), np.int32), array(3, "int32"), NONE)
    case(op, "no_bins", rows.astype(np.int32), array(0, "int32"), NONE)
    case(op, "error/rank", np.zeros((1, 1, 1), np.int32), array(3, "int32"), NONE, error=True)
    case(op, "error/negative", i32(1, -3), array(3, "int32"), NONE, error=True)
    case(op, "error/negative_in_row", array([[1], [-3]], "int32"), array(3, "int32"), NONE,
         error=True)
    case(op, "error/size", i32(1), array(-3, "int32"), NONE, error=True)
    case(op, "error/size_shape", i32(1), i32(3, 3), NONE, error=True)
    case(op, "error/weights", i32(1, 2), array(3, "int32"), counting(3), error=True)
    op = "SparseBincount"
    size = array(5, "int64")
    case(op, "vector", i64([0], [4], [7]), i64(1, 1, 3), i64(10), size, NONE)
    case(op, "nothing", np.zeros((0, 2), np.int64), i64(), i64(2, 3), size, NONE)
    refused(op, "error/negative", (i64([0, 0]), i64(-1), i64(2, 3), size, NONE),
            "TensorFlow counts it before the beginning of the row")
    case(op, "error/row", i64([2, 0]), i64(1), i64(2, 3), size, NONE, error=True)
    case(op, "error/size", i64([0, 0]), i64(1), i64(2, 3), array(-1, "int64"), NONE, error=True)
    case(op, "error/counts", i64([0, 0], [0, 1]), i64(1), i64(2, 3), size, NONE, error=True)
    refused(op, "error/weights", (i64([0, 0]), i64(1), i64(2, 3), size, counting(3)),
            "TensorFlow does not look")
    op = "RaggedBincount"
    case(op, "no_rows", i64(0), i64(), size, NONE)
    case(op, "error/no_splits", i64(), i64(), size, NONE, error=True)
    case(op, "error/first_split", i64(1, 3), i64(1, 2, 3), size, NONE, error=True)
    case(op, "error/last_split", i64(0, 2), i64(1, 2, 3), size, NONE, error=True)
    case(op, "error/negative", i64(0, 2), i64(1, -2), size, NONE, error=True)
    case(op, "error/size", i64(0, 1), i64(1), array(-1, "int64"), NONE, error=True)


def _range():
    op = "RaggedRange"
    for t in optable.kernel_types(op):
        for splits in ("int32", "int64"):
            case(op, t + "_" + splits, array([0, 5, 8, 3], t), array([3, 2, 9, 3], t),
                 array([1, -1, 2, 1], t), Tsplits=splits)
    case(op, "scalars", array(1, "int32"), array(7, "int32"), array(2, "int32"))
    case(op, "scalar_start", array(0, "int32"), i32(2, 0, 4), array(1, "int32"))
    case(op, "fractions", array([0, 1], "float32"), array([1, 0], "float32"),
         array([0.1, -0.3], "float32"))
    case(op, "wrong_way", i32(3, 0), i32(0, 3), i32(1, -1))
    case(op, "no_rows", i32(), i32(), i32())
    case(op, "error/delta", i32(0), i32(3), i32(0), error=True)
    case(op, "error/lengths", i32(0, 1), i32(3), i32(1, 1), error=True)
    case(op, "error/rank", array([[0]], "int32"), i32(3), i32(1), error=True)


def _to_sparse():
    op = "RaggedTensorToSparse"
    for t in optable.ALL:
        case(op, t, [i64(0, 2, 2, 5)], some(op, t, (5,)), exact=True)
    case(op, "int32_splits", [i32(0, 2, 2, 5)], counting(5))
    case(op, "two", [i64(0, 1, 3), i64(0, 2, 2, 5)], counting(5))
    case(op, "matrices", [i64(0, 1, 3)], counting(3, 2, 2))
    case(op, "two_and_rows", [i64(0, 0, 2), i64(0, 1, 2)], counting(2, 3))
    case(op, "nothing", [i64(0, 0)], NONE)
    case(op, "no_rows", [i64(0)], NONE)
    case(op, "error/first", [i64(1, 2)], counting(2), error=True)
    case(op, "error/last", [i64(0, 3)], counting(2), error=True)
    case(op, "error/falling", [i64(0, 2, 1, 3)], counting(3), error=True)
    case(op, "error/between", [i64(0, 1), i64(0, 2, 3)], counting(3), error=True)


def _to_tensor():
    op = "RaggedTensorToTensor"
    anything = i64(-1)[0]
    rows = {"row_partition_types": ["ROW_SPLITS"]}
    splits = i64(0, 2, 2, 5)
    for t in optable.kernel_types(op):
        case(op, t, anything, some(op, t, (5,)), one_of(op, t), [splits], exact=True,
             **rows)
    x, zero = counting(5) + 1, array(9, "float32")
    case(op, "int32_indices", i32(-1)[0], x, zero, [i32(0, 2, 2, 5)], **rows)
    for name, shape in (("wider", (3, 4)), ("cut", (2, 2)), ("longer", (5, -1)), ("any", (-1, -1)),
                        ("no_columns", (3, 0)), ("no_rows", (0, -1))):
        case(op, "shape/" + name, i64(*shape), x, zero, [splits], **rows)
    ids = {"row_partition_types": ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]}
    case(op, "row_ids", anything, x, zero, [i64(4)[0], i64(0, 0, 2, 2, 2)], **ids)
    case(op, "row_ids_cut", i64(2, 1), x, zero, [i64(4)[0], i64(0, 0, 1, 2, 2)], **ids)
    case(op, "row_ids_nothing", anything, NONE, zero, [i64(2)[0], i64()], **ids)
    two = {"row_partition_types": ["ROW_SPLITS", "ROW_SPLITS"]}
    case(op, "two", anything, x, zero, [i64(0, 1, 3), i64(0, 2, 2, 5)], **two)
    case(op, "two_cut", i64(-1, 1, 2), x, zero, [i64(0, 1, 3), i64(0, 2, 2, 5)], **two)
    case(op, "two_row_ids", anything, x, zero, [i64(2)[0], i64(0, 1, 1), i64(0, 0, 2, 2, 2)],
         row_partition_types=["FIRST_DIM_SIZE", "VALUE_ROWIDS", "VALUE_ROWIDS"])
    matrix = counting(5, 2) + 1
    case(op, "inner", anything, matrix, zero, [splits], **rows)
    case(op, "inner_default", anything, matrix, array([7, 8], "float32"), [splits], **rows)
    case(op, "inner_default_one", anything, matrix, array([7], "float32"), [splits], **rows)
    case(op, "inner_deep", anything, counting(5, 2, 3), array([[7], [8]], "float32"), [splits],
         **rows)
    case(op, "inner_shape", i64(-1, 2, 2), matrix, zero, [splits], **rows)
    case(op, "nothing", anything, NONE, zero, [i64(0)], **rows)
    case(op, "error/inner_shape", i64(-1, 2, 3), matrix, zero, [splits], error=True, **rows)
    case(op, "error/rank", i64(3, 2, 1), x, zero, [splits], error=True, **rows)
    case(op, "error/default", anything, matrix, array([7, 8, 9], "float32"), [splits], error=True,
         **rows)
    refused(op, "error/last_split", (anything, x, zero, [i64(0, 2, 7)]),
            "TensorFlow reads behind the values", **rows)
    case(op, "error/falling", anything, x, zero, [i64(0, 4, 2, 5)], error=True, **rows)
    case(op, "error/row_id", anything, x, zero, [i64(2)[0], i64(0, 0, 1, 1, 2)], error=True, **ids)
    case(op, "error/type", anything, x, zero, [splits], error=True,
         row_partition_types=["ROW_LENGTHS"])
    case(op, "error/types", anything, x, zero, [splits], error=True,
         row_partition_types=["ROW_SPLITS", "ROW_SPLITS"])


def _gather():
    op = "RaggedGather"
    splits = i64(0, 2, 2, 5)
    for t in optable.kernel_types(op, "Tvalues"):
        case(op, t, [splits], some(op, t, (5,)), i64(2, 0, 1, 2), OUTPUT_RAGGED_RANK=1, exact=True)
    x = counting(5)
    case(op, "int32_splits", [i32(0, 2, 2, 5)], x, i32(2, 0), OUTPUT_RAGGED_RANK=1)
    case(op, "matrix_of_indices", [splits], x, i64([2, 0], [1, 2]), OUTPUT_RAGGED_RANK=2)
    case(op, "two", [i64(0, 1, 3), splits], x, i32(1, 0, 1), OUTPUT_RAGGED_RANK=2)
    case(op, "rows", [splits], counting(5, 2), i32(2, 2), OUTPUT_RAGGED_RANK=1)
    case(op, "no_indices", [splits], x, i32(), OUTPUT_RAGGED_RANK=1)
    case(op, "error/index", [splits], x, i32(3), OUTPUT_RAGGED_RANK=1, error=True, fragments=["3"])
    case(op, "error/negative", [splits], x, i32(-1), OUTPUT_RAGGED_RANK=1, error=True)
    case(op, "error/splits", [i64(0, 7)], x, i32(0), OUTPUT_RAGGED_RANK=1, error=True)
    refused(op, "error/rank", ([splits], x, i32(0)), "TensorFlow aborts", OUTPUT_RAGGED_RANK=2)


def _to_dense():
    op = "SparseToDense"
    indices = i64([0, 1], [1, 0], [2, 3])
    each_type(op, lambda t: case(op, t, indices, i64(3, 4), some(op, t, (3,)),
                                 one_of(op, t), exact=True))
    one, zero = counting(3) + 1, array(0, "float32")
    case(op, "int32_indices", i32([0, 1], [1, 0], [2, 3]), i32(3, 4), one, zero)
    case(op, "vector", i64(1, 3, 4), i64(6), one, zero)
    case(op, "scalar_index", array(2, "int64"), i64(4), array(5, "float32"), zero)
    case(op, "scalar_value", i64(1, 3), i64(6), array(5, "float32"), array(-1, "float32"))
    case(op, "nothing", np.zeros((0, 2), np.int64), i64(2, 2), NONE, array(3, "float32"))
    case(op, "turned", i64(3, 1, 4), i64(6), one, zero, validate_indices=False)
    case(op, "twice", i64(3, 3, 4), i64(6), one, zero, validate_indices=False)
    case(op, "error/order", i64(3, 1, 4), i64(6), one, zero, error=True)
    case(op, "error/twice", i64(1, 1, 4), i64(6), one, zero, error=True)
    case(op, "error/outside", i64(1, 2, 6), i64(6), one, zero, error=True)
    case(op, "error/outside_unordered", i64(1, 2, 6), i64(6), one, zero, validate_indices=False,
         error=True)
    case(op, "error/negative", i64(-1, 2, 3), i64(6), one, zero, error=True)
    case(op, "error/columns", i64([0, 1], [1, 2], [2, 3]), i64(6), one, zero, error=True)
    case(op, "error/values", i64(1, 2), i64(6), one, zero, error=True)
    case(op, "error/default", i64(1, 2, 3), i64(6), one, counting(2), error=True)
    case(op, "error/shape", i64(1, 2, 3), i64(-6), one, zero, error=True)


def generate():
    _bucketize()
    _bincount()
    _range()
    _to_sparse()
    _to_tensor()
    _gather()
    _to_dense()
