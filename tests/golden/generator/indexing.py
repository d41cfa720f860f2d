"""Ops that take, place or find elements: slices, gathers, scatters, one-hot, top-k."""

import numpy as np

from . import optable, values
from .base import array
from .harness import case, rng
from .array import counting, each_type, i32, i64, some


def _slices():
    op = "Slice"
    each_type(op, lambda t: case(op, t, some(op, t, (3, 4)), i32(1, 0), i32(2, 3), exact=True))
    x = counting(3, 4, 2)
    case(op, "to_the_end", x, i32(1, 2, 0), i32(-1, -1, 1), exact=True)
    case(op, "index_int64", x, i64(0, 1, 1), i64(3, 2, 1), exact=True)
    case(op, "whole", x, i32(0, 0, 0), i32(-1, -1, -1), exact=True)
    case(op, "outer_rows", x, i32(1, 0, 0), i32(2, 4, 2), exact=True)
    case(op, "nothing", x, i32(3, 0, 0), i32(0, 4, 2), exact=True)
    case(op, "empty_input", x[:0], i32(0, 0, 0), i32(0, 2, 2), exact=True)
    case(op, "scalar", array(3, "float32"), i32(), i32(), exact=True)
    case(op,
         "rank7",
         counting(1, 2, 1, 2, 1, 2, 2),
         i32(0, 1, 0, 0, 0, 1, 0),
         i32(1, 1, 1, 2, 1, 1, 2),
         exact=True)
    case(op, "error/too_long", x, i32(1, 0, 0), i32(3, 1, 1), error=True, fragments=["3"])
    case(op, "error/begin", x, i32(4, 0, 0), i32(0, 1, 1), error=True, fragments=["4"])
    case(op, "error/begin_negative", x, i32(-1, 0, 0), i32(1, 1, 1), error=True, fragments=["-1"])
    case(op, "error/size_negative", x, i32(0, 0, 0), i32(-2, 1, 1), error=True, fragments=["-2"])
    case(op, "error/rank", x, i32(0, 0), i32(1, 1), error=True, fragments=["3", "2"])
    case(op, "error/lengths", x, i32(0, 0, 0), i32(1, 1), error=True)

    op = "StridedSlice"
    each_type(
        op, lambda t: case(op, t, some(op, t, (3, 4)), i32(0, 1), i32(3, 4), i32(2, 2), exact=True))
    x = counting(3, 4, 5)
    strided = {
        "index_int16": (array([1, 0, 1], "int16"), array([3, 2, 4],
                                                         "int16"), array([1, 1, 1], "int16"), {}),
        "index_int64": (i64(1, 0, 1), i64(3, 2, 4), i64(1, 1, 1), {}),
        "one_dimension": (i32(1), i32(3), i32(1), {}),
        "negative_index": (i32(-2, -3, -4), i32(-1, 4, -1), i32(1, 2, 1), {}),
        "backwards": (i32(2, 3, -1), i32(0, -5, -6), i32(-1, -2, -1), {}),
        "beyond_the_end": (i32(0, 2, -9), i32(99, 100, 99), i32(1, 1, 2), {}),
        "nothing": (i32(2, 0, 0), i32(1, 4, 5), i32(1, 1, 1), {}),
        "begin_mask": (i32(1, 2, 3), i32(3, 4, 5), i32(1, 1, 1), {
            "begin_mask": 5
        }),
        "end_mask": (i32(1, 2, 3), i32(2, 3, 4), i32(1, 1, 1), {
            "end_mask": 6
        }),
        "both_masks_backwards": (i32(0, 0, 0), i32(0, 0, 0), i32(-1, 1, -2), {
            "begin_mask": 7,
            "end_mask": 7
        }),
        "shrink_first": (i32(1, 0, 0), i32(2, 4, 5), i32(1, 1, 1), {
            "shrink_axis_mask": 1
        }),
        "shrink_negative": (i32(-1, 0, -2), i32(0, 4, 0), i32(1, 2, 1), {
            "shrink_axis_mask": 5
        }),
        "shrink_all": (i32(1, 2, 3), i32(2, 3, 4), i32(1, 1, 1), {
            "shrink_axis_mask": 7
        }),
        "ellipsis": (i32(1, 0, 2), i32(2, 0, 4), i32(1, 1, 1), {
            "ellipsis_mask": 2
        }),
        "ellipsis_alone": (i32(0), i32(0), i32(1), {
            "ellipsis_mask": 1
        }),
        "ellipsis_of_nothing": (i32(0, 1, 0, 2), i32(2, 3, 0, 4), i32(1, 1, 1, 1), {
            "ellipsis_mask": 4
        }),
        "ellipsis_then_shrink": (i32(0, 2), i32(0, 3), i32(1, 1), {
            "ellipsis_mask": 1,
            "shrink_axis_mask": 2
        }),
        "new_axis_first": (i32(0, 1), i32(0, 3), i32(1, 1), {
            "new_axis_mask": 1
        }),
        "new_axis_last": (i32(0, 0, 0, 0), i32(3, 4, 5, 0), i32(1, 1, 1, 1), {
            "new_axis_mask": 8
        }),
        "new_axis_after_ellipsis": (i32(0, 0), i32(0, 0), i32(1, 1), {
            "ellipsis_mask": 1,
            "new_axis_mask": 2
        }),
        "new_axis_and_shrink": (i32(0, 1, 0), i32(0, 2, 2), i32(1, 1, 1), {
            "new_axis_mask": 1,
            "shrink_axis_mask": 2
        }),
        "new_axis_beats_shrink": (i32(0, 1), i32(1, 3), i32(1, 1), {
            "new_axis_mask": 1,
            "shrink_axis_mask": 1
        }),
        "no_spec": (i32(), i32(), i32(), {}),
        "all_masks": (i32(1, 9, 0, 0), i32(2, 9, 0, 0), i32(1, 1, 1, -2), {
            "shrink_axis_mask": 1,
            "new_axis_mask": 4,
            "ellipsis_mask": 2,
            "begin_mask": 8,
            "end_mask": 8
        }),
    }
    for name, (b, e, s, masks) in strided.items():
        out = case(op, name, x, b, e, s, exact=True, **masks)
        if out is None or name == "index_int16":
            continue
        dy = counting(*out[0].shape) + 1
        case("StridedSliceGrad",
             name,
             array(x.shape, b.dtype.name),
             b,
             e,
             s,
             dy,
             exact=True,
             **masks)
    case(op, "empty_input", x[:0], i32(0), i32(3), i32(1), exact=True)
    case(op,
         "rank7",
         counting(2, 1, 2, 1, 2, 1, 2),
         i32(0, 0, 1, 0, 0, 0, 0),
         i32(2, 1, 2, 1, 2, 1, 2),
         i32(1, 1, 1, 1, 1, 1, 2),
         exact=True)
    case(op, "error/zero_stride", x, i32(0), i32(3), i32(0), error=True)
    case(op,
         "error/shrink_out_of_range",
         x,
         i32(3),
         i32(4),
         i32(1),
         shrink_axis_mask=1,
         error=True,
         fragments=["3"])
    case(op,
         "error/shrink_negative_out_of_range",
         x,
         i32(-4),
         i32(0),
         i32(1),
         shrink_axis_mask=1,
         error=True)
    case(op, "error/shrink_backwards", x, i32(1), i32(2), i32(-1), shrink_axis_mask=1, error=True)
    case(op, "error/too_many", x, i32(0, 0, 0, 0), i32(1, 1, 1, 1), i32(1, 1, 1, 1), error=True)
    case(op, "error/two_ellipses", x, i32(0, 0), i32(0, 0), i32(1, 1), ellipsis_mask=3, error=True)
    case(op, "error/lengths", x, i32(0, 0), i32(1), i32(1, 1), error=True)
    op = "StridedSliceGrad"
    each_type(
        op, lambda t: t != "string" and case(
            op, t, i32(3, 4), i32(0, 1), i32(3, 4), i32(2, 2), some(op, t, (2, 2)), exact=True))
    case(op,
         "error/dy_shape",
         i32(3, 4),
         i32(0, 1),
         i32(3, 4),
         i32(2, 2),
         counting(2, 3),
         error=True)

    op = "ReverseV2"
    each_type(op, lambda t: case(op, t, some(op, t, (3, 4)), i32(1), exact=True))
    x = counting(2, 3, 4)
    case(op, "two_axes", x, i32(0, -1), exact=True)
    case(op, "int64_axes", x, i64(1), exact=True)
    case(op, "no_axes", x, i32(), exact=True)
    case(op, "all_axes", x, i32(2, 0, 1), exact=True)
    case(op, "scalar", array(1, "float32"), i32(), exact=True)
    case(op, "empty", x[:0], i32(1), exact=True)
    case(op, "error/axis", x, i32(3), error=True, fragments=["3"])
    case(op, "error/axis_twice", x, i32(1, -2), error=True)
    case(op, "error/axis_scalar", x, array(1, "int32"), error=True)
    op = "ReverseSequence"
    each_type(op, lambda t: case(op, t, some(op, t, (2, 4)), i64(3, 2), seq_dim=1, exact=True))
    x = counting(4, 3, 2)
    case(op, "time_major", x, i32(2, 4, 0), seq_dim=0, batch_dim=1, exact=True)
    case(op, "inner", x, i64(1, 2, 0, 2), seq_dim=2, batch_dim=0, exact=True)
    case(op, "whole", x, i64(3, 3, 3, 3), seq_dim=1, exact=True)
    case(op, "error/too_long", x, i64(4, 1, 1, 1), seq_dim=1, error=True, fragments=["4"])
    case(op, "error/negative", x, i64(-1, 1, 1, 1), seq_dim=1, error=True, fragments=["-1"])
    case(op, "error/lengths", x, i64(1, 1), seq_dim=1, error=True)
    case(op, "error/same_dims", x, i64(1, 1, 1, 1), seq_dim=0, error=True)


def _gathers():
    for op in ("Gather", "GatherV2"):
        tail = (array(0, "int32"),) if op == "GatherV2" else ()
        each_type(op, lambda t: case(op, t, some(op, t, (4, 3)), i32(3, 0, 3), *tail, exact=True),
                  "Tparams")
        x = counting(4, 3)
        for t in ("int16", "int32", "int64") if op == "GatherV2" else ("int32", "int64"):
            case(op, "index_" + t, x, array([[1, 2], [0, 3]], t), *tail, exact=True)
        case(op, "scalar_index", x, array(2, "int32"), *tail, exact=True)
        case(op, "vector", counting(5), i32(4, 1), *tail, exact=True)
        case(op, "no_indices", x, array(np.zeros((0, 2)), "int32"), *tail, exact=True)
        case(op, "empty_rows", x[:, :0], i32(1, 1), *tail, exact=True)
        case(op, "error/too_large", x, i32(0, 4), *tail, error=True, fragments=["4"])
        case(op, "error/negative", x, i32(0, -1), *tail, error=True, fragments=["-1"])
        case(op, "error/scalar_params", array(1, "float32"), i32(0), *tail, error=True)
        case(op, "error/empty_params", x[:0], i32(0), *tail, error=True)
    op = "GatherV2"
    x = counting(2, 4, 3)
    case(op, "axis1", x, i32(3, 0), array(1, "int32"), exact=True)
    case(op, "negative_axis", x, array([[2, 0], [1, 1]], "int32"), array(-1, "int32"), exact=True)
    case(op, "int64_axis", x, i32(3, 0), array(1, "int64"), exact=True)
    case(op,
         "batch_dims",
         x,
         array([[3, 0], [1, 2]], "int32"),
         array(1, "int32"),
         batch_dims=1,
         exact=True)
    case(op,
         "negative_batch_dims",
         x,
         array([[3, 0], [1, 2]], "int32"),
         array(1, "int32"),
         batch_dims=-1,
         exact=True)
    case(op,
         "batch_dims_axis2",
         x,
         array([[2], [0]], "int32"),
         array(2, "int32"),
         batch_dims=1,
         exact=True)
    case(op, "error/axis", x, i32(0), array(3, "int32"), error=True, fragments=["3"])
    case(op,
         "error/batch_dims",
         x,
         array([[0], [0], [0]], "int32"),
         array(1, "int32"),
         batch_dims=1,
         error=True)
    case(op,
         "error/batch_after_axis",
         x,
         array([[0], [0]], "int32"),
         array(0, "int32"),
         batch_dims=1,
         error=True)
    case(op, "error/axis_vector", x, i32(0), i32(0, 1), error=True)
    op = "GatherNd"
    each_type(
        op, lambda t: case(op, t, some(op, t,
                                       (3, 4)), array([[0, 1], [2, 3]], "int32"), exact=True),
        "Tparams")
    x = counting(2, 3, 4)
    for t in ("int16", "int32", "int64"):
        case(op, "rows_" + t, x, array([[1], [0], [1]], t), exact=True)
    case(op, "full_index", x, array([[[1, 2, 3]], [[0, 0, 0]]], "int32"), exact=True)
    case(op, "one_index", x, i32(1, 2), exact=True)
    case(op, "no_depth", x, array(np.zeros((2, 0)), "int32"), exact=True)
    case(op, "no_indices", x, array(np.zeros((0, 2)), "int32"), exact=True)
    case(op,
         "ignored",
         x,
         array([[1], [7], [-1]], "int32"),
         bad_indices_policy="IGNORE",
         exact=True,
         note="rows out of range become 0")
    case(op,
         "error/too_large",
         x,
         array([[0, 3]], "int32"),
         error=True,
         fragments=["[0,3]", "[2,3,4]"])
    case(op, "error/negative", x, array([[-1, 0]], "int32"), error=True, fragments=["-1"])
    case(op, "error/depth", x, array([[0, 0, 0, 0]], "int32"), error=True, fragments=["4", "3"])
    case(op, "error/policy", x, array([[0]], "int32"), bad_indices_policy="NONSENSE", error="type")
    case(op, "error/scalar_params", array(1, "float32"), array([[0]], "int32"), error=True)
    op = "ScatterNd"
    each_type(
        op, lambda t: t not in ("string", "bool") and case(op, t, array([[3], [0], [3]], "int32"),
                                                           some(op, t, (3, 2)), i32(4, 2)))
    case(op, "bool", array([[3], [0]], "int32"), np.array([True, True]), i32(4))
    case(op, "string", array([[3], [0]], "int32"), array([b"a", b"b"], "string"), i32(4))
    u = counting(2, 3) + 1
    for t in ("int32", "int64"):
        case(op, "index_" + t, array([[1], [2]], t), u, array([4, 3], t), exact=True)
    case(op,
         "elements",
         array([[0, 1], [1, 0], [0, 1]], "int32"),
         array([1, 2, 4], "float32"),
         i32(2, 2),
         exact=True,
         note="what goes to one place is added")
    case(op,
         "nested_indices",
         array([[[0], [2]]], "int32"),
         counting(1, 2, 3),
         i32(3, 3),
         exact=True)
    case(op, "nothing", array(np.zeros((0, 1)), "int32"), counting(0, 3), i32(2, 3), exact=True)
    case(op,
         "ignored",
         array([[1], [9]], "int32"),
         u,
         i32(4, 3),
         bad_indices_policy="IGNORE",
         exact=True)
    case(op,
         "error/too_large",
         array([[4], [0]], "int32"),
         u,
         i32(4, 3),
         error=True,
         fragments=["4"])
    case(op,
         "error/negative",
         array([[-1], [0]], "int32"),
         u,
         i32(4, 3),
         error=True,
         fragments=["-1"])
    case(op, "error/updates_shape", array([[1], [0]], "int32"), u, i32(4, 2), error=True)
    case(op, "error/shape_negative", array([[1], [0]], "int32"), u, i32(-4, 3), error=True)
    case(op,
         "error/depth",
         array([[1, 0, 0]], "int32"),
         array([1], "float32"),
         i32(4, 3),
         error=True)


def _selections():
    op = "OneHot"
    for t in optable.kernel_types(op):
        on, off = (array(v, t) for v in ((b"on", b"off") if t == "string" else (1, 0)))
        case(op, t, i64(1, 0, 2), array(3, "int32"), on, off, exact=True)
    on, off = array(5, "float32"), array(-1, "float32")
    for t in optable.kernel_types(op, "TI"):
        case(op, "index_" + t, array([[1, 0], [3, 2]], t), array(4, "int32"), on, off, exact=True)
    for axis in (0, 1, 2, -1):
        case(op,
             "axis%s" % str(axis).replace("-", "m"),
             array([[1, 0, 1], [3, 2, 0]], "int32"),
             array(4, "int32"),
             on,
             off,
             axis=axis,
             exact=True)
    case(op, "out_of_range_is_off", i32(-1, 3, 9, 1), array(3, "int32"), on, off, exact=True)
    case(op, "scalar_index", array(1, "int32"), array(3, "int32"), on, off, exact=True)
    case(op, "no_depth", i32(0, 1), array(0, "int32"), on, off, exact=True)
    case(op, "empty", i32(), array(3, "int32"), on, off, exact=True)
    case(op, "error/depth", i32(0), array(-1, "int32"), on, off, error=True, fragments=["-1"])
    case(op, "error/axis", i32(0), array(2, "int32"), on, off, axis=2, error=True, fragments=["2"])
    case(op, "error/depth_vector", i32(0), i32(1, 2), on, off, error=True)
    case(op, "error/on_vector", i32(0), array(2, "int32"), counting(2), off, error=True)
    op = "Where"
    for t in optable.kernel_types(op):
        if t != "float16":  # TensorFlow's kernel for it only says that there is none
            case(op, t, some(op, t, (3, 4)))
    x = array([[0, 1, 0], [2, 0, 0], [0, -0.0, np.nan]], "float32")
    case(op, "nan_is_true", x)
    case(op, "vector", np.array([True, False, True]))
    case(op, "rank4", counting(2, 1, 2, 2) > 3)
    case(op, "none", np.zeros((2, 3), bool))
    case(op, "empty", np.zeros((0, 3), bool))
    case(op, "error/scalar", np.array(True), error=True)
    op = "Unique"
    for t in optable.kernel_types(op):
        case(op, t, some(op, t, (9,)), exact=True)
    case(op, "int64_index", i32(3, 1, 3, 2, 1), out_idx="int64")
    case(op, "empty", i32())
    case(op, "error/matrix", array([[1, 2]], "int32"), error=True)
    op = "TopKV2"
    for t in optable.kernel_types(op):
        case(op, t, values.ordinary(rng(op, t), (3, 6), t, -20, 20), array(3, "int32"), exact=True)
    x = values.ordinary(rng(op, "x"), (2, 2, 5), "float32", -9, 9)
    for t in ("int16", "int32", "int64"):
        case(op, "k_" + t, x, array(2, t), exact=True)
        case(op, "index_" + t, x, array(2, "int32"), index_type=t, exact=True)
    case(op, "all", x, array(5, "int32"), exact=True)
    case(op, "none", x, array(0, "int32"), exact=True)
    case(op, "one", x, array(1, "int32"), exact=True)
    case(op,
         "ties",
         array([1, 3, 3, 1, 3], "float32"),
         array(4, "int32"),
         exact=True,
         note="of equal elements the lower index first")
    case(op, "empty_rows", x[:0], array(2, "int32"), exact=True)
    case(op, "infinities", array([1, np.inf, -np.inf, 3], "float32"), array(4, "int32"), exact=True)
    case(op, "error/k_too_large", x, array(6, "int32"), error=True, fragments=["6", "5"])
    case(op, "error/k_negative", x, array(-1, "int32"), error=True, fragments=["-1"])
    case(op, "error/scalar", array(1, "float32"), array(1, "int32"), error=True)
    case(op, "error/k_vector", x, i32(1, 1), error=True)
    op = "InTopKV2"
    p = array([[0.1, 0.3, 0.2, 0.4], [0.4, 0.3, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25],
               [0.1, np.nan, 0.5, 0.2], [0.1, np.inf, 0.5, 0.2]], "float32")
    for t in ("int32", "int64"):
        for k in (1, 2, 4, 9):
            case(op, "%s/k%d" % (t, k), p, array([1, 0, 3, 2, 2], t), array(k, t))
    case(op, "k0", p, i32(1, 0, 3, 2, 2), array(0, "int32"))
    case(op, "target_out_of_range", p, i32(1, 4, -1, 2, 2), array(2, "int32"))
    case(op, "empty", p[:0], i32(), array(2, "int32"))
    case(op, "error/targets", p, i32(1, 0), array(1, "int32"), error=True)
    case(op, "error/predictions_rank", p[0], i32(1), array(1, "int32"), error=True)
    op = "MatrixBandPart"
    each_type(
        op,
        lambda t: case(op, t, some(op, t,
                                   (3, 4)), array(1, "int64"), array(0, "int64"), exact=True))
    x = counting(2, 4, 3) + 1
    for lo, hi in ((0, -1), (-1, 0), (0, 0), (-1, -1), (1, 1), (2, 1), (4, 3)):
        case(op, ("band_%d_%d" % (lo, hi)).replace("-", "m"),
             x,
             array(lo, "int32"),
             array(hi, "int32"),
             exact=True)
    case(op, "empty", x[:0], array(1, "int64"), array(1, "int64"), exact=True)
    case(op, "error/lower", x, array(5, "int64"), array(0, "int64"), error=True, fragments=["5"])
    case(op, "error/vector", counting(3), array(0, "int64"), array(0, "int64"), error=True)


def _partitions():
    op = "DynamicPartition"
    each_type(
        op,
        lambda t: case(op, t, some(op, t,
                                   (5, 2)), i32(1, 0, 2, 0, 1), num_partitions=4, exact=True))
    x = counting(2, 3, 2)
    case(op,
         "matrix_partitions",
         x,
         array([[0, 1, 0], [1, 1, 0]], "int32"),
         num_partitions=2,
         exact=True)
    case(op,
         "full",
         counting(2, 3),
         array([[0, 1, 0], [1, 1, 0]], "int32"),
         num_partitions=2,
         exact=True)
    case(op, "one", counting(3), i32(0, 0, 0), num_partitions=1, exact=True)
    case(op, "empty", counting(0, 3), i32(), num_partitions=2, exact=True)
    case(op, "scalar", array(4, "float32"), array(1, "int32"), num_partitions=2, exact=True)
    case(op,
         "error/too_large",
         counting(3),
         i32(0, 2, 0),
         num_partitions=2,
         error=True,
         fragments=["2"])
    case(op,
         "error/negative",
         counting(3),
         i32(0, -1, 0),
         num_partitions=2,
         error=True,
         fragments=["-1"])
    case(op, "error/shapes", counting(3), i32(0, 0), num_partitions=2, error=True)
    op = "DynamicStitch"
    each_type(
        op, lambda t: case(op,
                           t, [i32(3, 0), i32(1, 2, 0)],
                           [some(op, t, (2, 2)), some(op, t, (3, 2), "b")],
                           exact=True,
                           note="the last one to write a row wins"))
    case(op,
         "scalar_index", [array(1, "int32"), i32(0, 2)],
         [counting(2), counting(2, 2) + 10],
         exact=True)
    case(op, "matrix_index", [array([[3, 2], [1, 0]], "int32")], [counting(2, 2, 3)], exact=True)
    case(op, "elements", [i32(2, 0), i32(1)], [counting(2), counting(1) + 5], exact=True)
    case(op, "nothing", [i32()], [counting(0, 3)], exact=True)
    case(op, "error/negative", [i32(-1, 0)], [counting(2)], error=True, fragments=["-1"])
    case(op, "error/shapes", [i32(0, 1), i32(2)], [counting(2, 2), counting(1, 3)], error=True)
    case(op, "error/index_shape", [i32(0, 1, 2)], [counting(2, 2)], error=True)


def generate():
    _slices()
    _gathers()
    _selections()
    _partitions()
