"""Convolution and pooling of volumes, with their gradients."""

import numpy as np

from . import harness, optable, running
from .base import array
from .convolution import _distinct, data, i32
from .harness import case

_NCDHW_NOTE = "TensorFlow's CPU kernels have no NCDHW: worked out in NDHWC and transposed"
_DILATED_NOTE = ("TensorFlow's CPU kernel has no dilation: worked out with zeros between the "
                 "filter's elements")


def _first(a):
    return np.transpose(a, (0, 4, 1, 2, 3)).copy()


def _list(v):
    return [v[0], v[4], v[1], v[2], v[3]]


def _both(op, name, inputs, volumes, sizes, is_volume, attrs, **tolerance):
    """The case in NDHWC and in NCDHW; returns the output.

    volumes, sizes: positions of the inputs that are volumes, and of those that are their shapes.
    """
    y = case(op, name, *inputs, **tolerance, **attrs)
    if y is None:
        return None
    moved = [
        _first(a) if i in volumes else i32(*_list(a.tolist())) if i in sizes else a
        for i, a in enumerate(inputs)
    ]
    turned = {k: _list(v) if isinstance(v, list) else v for k, v in attrs.items()}
    harness.computed(op,
                     name + "_ncdhw",
                     moved, [_first(y[0]) if is_volume else y[0]],
                     _NCDHW_NOTE,
                     data_format="NCDHW",
                     **tolerance,
                     **turned)
    return y[0]


_CONVS = {
    "same": ((2, 3, 4, 5, 2), (2, 3, 2, 2, 3), [1, 1, 1, 1, 1], "SAME"),
    "valid": ((1, 4, 4, 5, 2), (2, 3, 2, 2, 3), [1, 1, 1, 1, 1], "VALID"),
    "same_strided": ((1, 4, 5, 6, 1), (3, 2, 3, 1, 2), [1, 2, 1, 3, 1], "SAME"),
    "valid_strided": ((1, 5, 5, 6, 2), (2, 2, 3, 2, 1), [1, 2, 3, 1, 1], "VALID"),
    "one_by_one": ((2, 2, 3, 2, 3), (1, 1, 1, 3, 4), [1, 1, 1, 1, 1], "SAME"),
    "whole": ((2, 2, 3, 2, 2), (2, 3, 2, 2, 2), [1, 1, 1, 1, 1], "VALID"),
}


def _spread(w, dilations):
    d, h, c = dilations[1:4]
    out = np.zeros(((w.shape[0] - 1) * d + 1, (w.shape[1] - 1) * h + 1,
                    (w.shape[2] - 1) * c + 1) + w.shape[3:], w.dtype)
    out[::d, ::h, ::c] = w
    return out


def _convolutions():
    op, to_input, to_filter = "Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"
    loose = {"rtol": 1e-5, "atol": 2e-5}
    for name, (xs, ws, strides, padding) in _CONVS.items():
        attrs = {"strides": strides, "padding": padding}
        x, w = data(op, name, xs), data(op, name + "w", ws)
        y = _both(op, name, [x, w], [0], [], True, attrs, **loose)
        dy = data(op, name + "dy", y.shape)
        _both(to_input, name, [i32(*xs), w, dy], [2], [0], True, attrs, **loose)
        _both(to_filter, name, [x, i32(*ws), dy], [0, 2], [], False, attrs, **loose)
    dilations = [1, 2, 1, 3, 1]
    xs, ws = (1, 5, 4, 7, 2), (2, 2, 2, 2, 2)
    x, w = data(op, "dilated", xs), data(op, "dilatedw", ws)
    for padding in ("SAME", "VALID"):
        attrs = {"strides": [1, 1, 1, 1, 1], "padding": padding}
        wide = _spread(w, dilations)
        run = lambda o, inputs: running.run_node(*running.node_def(o, inputs, attrs))[0]
        name = "dilated_" + padding.lower()
        y = run(op, [x, wide])
        dy = data(op, name, y.shape)
        dx = run(to_input, [i32(*xs), wide, dy])
        dw = run(to_filter, [x, i32(*wide.shape), dy])[::2, ::1, ::3].copy()
        attrs["dilations"] = dilations
        for o, inputs, result in ((op, [x, w], y), (to_input, [i32(*xs), w, dy], dx),
                                  (to_filter, [x, i32(*ws), dy], dw)):
            harness.computed(o, name, inputs, [result], _DILATED_NOTE, **loose, **attrs)
    xs, ws, strides, padding = _CONVS["same_strided"]
    attrs = {"strides": strides, "padding": padding}
    for t in optable.kernel_types(op):
        narrow = {
            "float16": {
                "rtol": 5e-3,
                "atol": 2e-2
            },
            "bfloat16": {
                "rtol": 3e-2,
                "atol": 1e-1
            }
        }.get(t, {})
        x, w = data(op, t, xs, t), data(op, t + "w", ws, t)
        y = case(op, t, x, w, **narrow, **attrs)[0]
        dy = data(op, t + "dy", y.shape, t)
        case(to_input, t, i32(*xs), w, dy, **narrow, **attrs)
        case(to_filter, t, x, i32(*ws), dy, **narrow, **attrs)
    plain = {"strides": [1, 1, 1, 1, 1], "padding": "SAME"}
    x, w = data(op, "ex", (1, 2, 3, 3, 2)), data(op, "ew", (2, 2, 2, 2, 2))
    case(to_input, "int64_sizes", np.array([1, 2, 3, 3, 2], np.int64), w, x, **plain, **loose)
    case(op, "empty_batch", x[:0], w, **plain)
    case(to_input, "empty_batch", i32(0, 2, 3, 3, 2), w, x[:0], **plain)
    case(op, "error/channels", x, data(op, "e3", (2, 2, 2, 3, 2)), error=True, **plain)
    case(op, "error/rank", x[0], w, error=True, **plain)
    case(op, "error/filter_rank", x, w[0], error=True, **plain)
    case(op,
         "error/filter_too_large",
         x,
         data(op, "e4", (5, 2, 2, 2, 2)),
         strides=[1, 1, 1, 1, 1],
         padding="VALID",
         error=True)
    case(op,
         "error/stride_in_batch",
         x,
         w,
         strides=[2, 1, 1, 1, 1],
         padding="SAME",
         error=True)
    case(op, "error/stride_zero", x, w, strides=[1, 0, 1, 1, 1], padding="SAME", error=True)
    case(to_input, "error/batch", i32(2, 2, 3, 3, 2), w, x, error=True, **plain)
    case(to_filter, "error/spatial", x, i32(2, 2, 2, 2, 2), x[:, :1].copy(), error=True, **plain)


_POOLS = {
    "halves": ((2, 4, 4, 6, 2), [1, 2, 2, 2, 1], [1, 2, 2, 2, 1], "VALID"),
    "same": ((1, 3, 5, 4, 2), [1, 3, 2, 3, 1], [1, 2, 2, 1, 1], "SAME"),
    "overlapping": ((1, 3, 4, 4, 1), [1, 2, 3, 2, 1], [1, 1, 1, 1, 1], "VALID"),
    "stride_above_window": ((1, 5, 5, 5, 1), [1, 2, 1, 2, 1], [1, 3, 3, 3, 1], "VALID"),
    "whole": ((2, 2, 3, 2, 2), [1, 2, 3, 2, 1], [1, 1, 1, 1, 1], "VALID"),
    "one": ((1, 2, 2, 3, 2), [1, 1, 1, 1, 1], [1, 1, 1, 1, 1], "SAME"),
}


def _pooling():
    for name, (xs, ksize, strides, padding) in _POOLS.items():
        attrs = {"ksize": ksize, "strides": strides, "padding": padding}
        x = _distinct("MaxPool3D", name, xs)
        y = _both("MaxPool3D", name, [x], [0], [], True, attrs, exact=True)
        dy = data("MaxPool3DGrad", name, y.shape)
        _both("MaxPool3DGrad", name, [x, y, dy], [0, 1, 2], [], True, attrs)
        g = data("MaxPool3DGradGrad", name, xs)
        _both("MaxPool3DGradGrad", name, [x, y, g], [0, 1, 2], [], True, attrs, exact=True)
        _both("AvgPool3D", name, [data("AvgPool3D", name, xs)], [0], [], True, attrs)
        _both("AvgPool3DGrad", name, [i32(*xs), dy], [1], [0], True, attrs)
    xs, ksize, strides, padding = _POOLS["same"]
    attrs = {"ksize": ksize, "strides": strides, "padding": padding}
    for t in optable.kernel_types("MaxPool3D"):
        loose = {"rtol": 2e-2, "atol": 2e-2} if t == "bfloat16" else {}
        x = _distinct("MaxPool3D", t, xs, t)
        y = case("MaxPool3D", t, x, exact=True, **attrs)[0]
        dy = data("MaxPool3DGrad", t, y.shape, t)
        case("MaxPool3DGrad", t, x, y, dy, **loose, **attrs)
        case("MaxPool3DGradGrad", t, x, y, data("MaxPool3DGradGrad", t, xs, t), exact=True, **attrs)
        case("AvgPool3D", t, data("AvgPool3D", t, xs, t), **attrs)
        case("AvgPool3DGrad", t, i32(*xs), dy, **loose, **attrs)
    two = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}
    ties = np.ones((1, 2, 2, 4, 1), np.float32)
    case("MaxPool3DGrad", "ties", ties, ties[:, :1, :1, :2].copy(),
         array([[[[[1], [2]]]]], "float32"), **two)
    case("MaxPool3DGradGrad", "ties", ties, ties[:, :1, :1, :2].copy(),
         array(np.arange(16).reshape(1, 2, 2, 4, 1), "float32"), **two)
    z = np.zeros((1, 4, 4, 4, 2), np.float32)
    for op in ("MaxPool3D", "AvgPool3D"):
        case(op, "empty_batch", z[:0], **two)
        case(op, "error/rank", z[0], error=True, **two)
        case(op,
             "error/window_too_large",
             z,
             ksize=[1, 6, 1, 1, 1],
             strides=[1, 1, 1, 1, 1],
             padding="VALID",
             error=True)
        case(op,
             "error/batch_window",
             z,
             ksize=[2, 1, 1, 1, 1],
             strides=[1, 1, 1, 1, 1],
             padding="VALID",
             error=True)
        case(op,
             "error/ksize_zero",
             z,
             ksize=[1, 0, 2, 2, 1],
             strides=[1, 1, 1, 1, 1],
             padding="VALID",
             error=True)
    case("MaxPool3DGrad", "error/output_shape", z, z, z, error=True, **two)
    case("AvgPool3DGrad", "error/grad_shape", i32(1, 4, 4, 4, 2), z, error=True, **two)


def generate():
    _convolutions()
    _pooling()
