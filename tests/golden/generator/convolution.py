"""Convolutions and pooling, with their gradients."""

import numpy as np

from . import harness, optable, running, values
from .base import array
from .harness import case, rng

NCHW_NOTE = "TensorFlow's CPU kernels have no NCHW: worked out in NHWC and transposed"


def i32(*a):
    return np.array(a, np.int32)


def data(op, name, shape, t="float32", low=-2, high=2):
    return values.ordinary(rng(op, name), shape, t, low, high)


def to_nchw(a):
    return np.transpose(a, (0, 3, 1, 2)).copy()


def _nchw_list(v):
    return [v[0], v[3], v[1], v[2]]


def nchw_case(op,
              name,
              inputs,
              images,
              shapes,
              images_out,
              exact=False,
              rtol=None,
              atol=None,
              unchecked=(),
              **attrs):
    """The case in NCHW, from the answer in NHWC.

    images, shapes: positions of the inputs that are images and that are shapes of images;
    images_out: positions of the outputs that are images.
    """
    node, flat = running.node_def(op, inputs, attrs)
    try:
        outputs = running.run_node(node, flat)
    except running.Failed as e:
        harness.problems.append("%s %s: %s" % (op, name, e))
        return
    attrs = dict(attrs, data_format="NCHW")
    for key in ("strides", "ksize", "dilations"):
        if key in attrs:
            attrs[key] = _nchw_list(attrs[key])
    if "explicit_paddings" in attrs:
        pads = attrs["explicit_paddings"]
        attrs["explicit_paddings"] = sum(_nchw_list([pads[i:i + 2] for i in range(0, 8, 2)]), [])
    moved = [
        to_nchw(a) if i in images else i32(*_nchw_list(a.tolist())) if i in shapes else a
        for i, a in enumerate(inputs)
    ]
    outputs = [to_nchw(o) if i in images_out else o for i, o in enumerate(outputs)]
    harness.computed(op,
                     name,
                     moved,
                     outputs,
                     NCHW_NOTE,
                     exact=exact,
                     rtol=rtol,
                     atol=atol,
                     unchecked=unchecked,
                     **attrs)


# --- convolutions ---------------------------------------------------------------------------

# name -> input, filter (depthwise: in, multiplier), attributes
_CONVS = {
    "same": ((2, 5, 4, 3), (3, 3, 3, 4), {
        "strides": [1, 1, 1, 1],
        "padding": "SAME"
    }),
    "valid": ((1, 5, 5, 2), (2, 3, 2, 3), {
        "strides": [1, 1, 1, 1],
        "padding": "VALID"
    }),
    "same_stride2": ((1, 6, 5, 2), (3, 3, 2, 2), {
        "strides": [1, 2, 2, 1],
        "padding": "SAME"
    }),
    "valid_stride2": ((1, 6, 7, 2), (3, 2, 2, 2), {
        "strides": [1, 2, 2, 1],
        "padding": "VALID"
    }),
    "same_even_filter": ((1, 4, 5, 1), (2, 4, 1, 2), {
        "strides": [1, 1, 1, 1],
        "padding": "SAME"
    }),
    "dilated": ((1, 7, 7, 2), (3, 3, 2, 2), {
        "strides": [1, 1, 1, 1],
        "padding": "SAME",
        "dilations": [1, 2, 2, 1]
    }),
    "dilated_valid": ((1, 7, 6, 1), (3, 2, 1, 2), {
        "strides": [1, 1, 1, 1],
        "padding": "VALID",
        "dilations": [1, 2, 2, 1]
    }),
    "one_by_one": ((2, 3, 3, 4), (1, 1, 4, 5), {
        "strides": [1, 1, 1, 1],
        "padding": "SAME"
    }),
    "stride_above_filter": ((1, 7, 7, 1), (2, 2, 1, 1), {
        "strides": [1, 3, 3, 1],
        "padding": "VALID"
    }),
    "filter_covers_image": ((2, 3, 3, 2), (3, 3, 2, 3), {
        "strides": [1, 1, 1, 1],
        "padding": "VALID"
    }),
    "explicit": ((1, 4, 4, 2), (3, 3, 2, 2), {
        "strides": [1, 2, 2, 1],
        "padding": "EXPLICIT",
        "explicit_paddings": [0, 0, 1, 0, 2, 1, 0, 0]
    }),
}
_CONV_ONLY = {
    "strides_differ": ((1, 6, 7, 2), (3, 3, 2, 2), {
        "strides": [1, 2, 1, 1],
        "padding": "SAME"
    }),
    "dilations_differ": ((1, 7, 6, 1), (3, 2, 1, 2), {
        "strides": [1, 1, 1, 1],
        "padding": "VALID",
        "dilations": [1, 3, 1, 1]
    }),
    "dilated_explicit": ((1, 5, 5, 1), (2, 2, 1, 2), {
        "strides": [1, 1, 1, 1],
        "padding": "EXPLICIT",
        "dilations": [1, 2, 2, 1],
        "explicit_paddings": [0, 0, 1, 1, 0, 2, 0, 0]
    }),
}


def spread(w, dilations):
    """The filter with zeros between its rows and columns: the same as dilating it."""
    h, d = dilations[1:3]
    out = np.zeros(((w.shape[0] - 1) * h + 1, (w.shape[1] - 1) * d + 1) + w.shape[2:], w.dtype)
    out[::h, ::d] = w
    return out


def _dilated(op, attrs, *inputs):
    """What op with dilations would answer, by way of a spread filter and no dilations."""
    dilations = attrs["dilations"]
    plain = {k: v for k, v in attrs.items() if k != "dilations"}
    inputs = list(inputs)
    if op.endswith("BackpropFilter"):
        inputs[1] = i32(*spread(np.zeros(inputs[1], np.float32), dilations).shape)
    else:
        inputs[1] = spread(inputs[1], dilations)
    out = running.run_node(*running.node_def(op, inputs, plain))[0]
    return out[::dilations[1], ::dilations[2]].copy() if op.endswith("BackpropFilter") else out


def _convolution(op, name, inputs, images, shapes, images_out, attrs, **tolerance):
    """One configuration in NHWC and in NCHW; returns the output."""
    if "dilations" in attrs and op != "Conv2D":
        out = _dilated(op, attrs, *inputs)
        note = ("TensorFlow's CPU kernel has no dilation: worked out with zeros between the "
                "filter's rows")
        harness.computed(op, name, inputs, [out], note, **tolerance, **attrs)
        return out
    nchw_case(op, name + "_nchw", inputs, images, shapes, images_out, **tolerance, **attrs)
    return case(op, name, *inputs, **tolerance, **attrs)[0]


def _convolutions():
    for forward in ("Conv2D", "DepthwiseConv2dNative"):
        depthwise = forward != "Conv2D"
        to_filter, to_input = forward + "BackpropFilter", forward + "BackpropInput"
        configurations = dict(_CONVS) if depthwise else dict(_CONVS, **_CONV_ONLY)
        for name, (xs, ws, attrs) in configurations.items():
            if depthwise:
                ws = ws[:2] + (xs[3], 2 if ws[3] > 1 else 1)
            x, w = data(forward, name, xs), data(forward, name + "w", ws)
            y = _convolution(forward, name, [x, w], [0], [], [0], attrs)
            dy = data(forward, name + "dy", y.shape)
            loose = {"rtol": 1e-5, "atol": 1e-5}
            _convolution(to_filter, name, [x, i32(*ws), dy], [0, 2], [], [], attrs, **loose)
            _convolution(to_input, name, [i32(*xs), w, dy], [2], [0], [0], attrs, **loose)
        xs, ws, attrs = _CONVS["same_stride2"]
        if depthwise:
            ws = ws[:2] + (2, 2)
        for t in optable.kernel_types(forward):
            x, w = data(forward, t, xs, t), data(forward, t + "w", ws, t)
            loose = {
                "rtol": 3e-2,
                "atol": 1e-1
            } if t == "bfloat16" else ({
                "rtol": 5e-3,
                "atol": 2e-2
            } if t == "float16" else {})
            y = case(forward, t, x, w, **loose, **attrs)[0]
            dy = data(forward, t + "dy", y.shape, t)
            if t in optable.kernel_types(to_filter):
                case(to_filter, t, x, i32(*ws), dy, **loose, **attrs)
            if t in optable.kernel_types(to_input):
                case(to_input, t, i32(*xs), w, dy, **loose, **attrs)
        plain = {"strides": [1, 1, 1, 1], "padding": "SAME"}
        valid = {"strides": [1, 1, 1, 1], "padding": "VALID"}
        x, w = data(forward, "ex", (1, 4, 4, 2)), data(forward, "ew", (3, 3, 2, 2))
        case(forward, "empty_batch", x[:0], w, **plain)
        empty = [x[:0], i32(3, 3, 2, 2), np.zeros((0, 4, 4, 4 if depthwise else 2), np.float32)]
        if depthwise:
            harness.computed(to_filter, "empty_batch", empty, [np.zeros((3, 3, 2, 2), np.float32)],
                             "TensorFlow leaves its memory as it was; a sum of nothing is 0",
                             **plain)
        else:
            case(to_filter, "empty_batch", *empty, **plain)
        case(to_input, "empty_batch", i32(0, 4, 4, 2), w,
             np.zeros((0, 4, 4, 4 if depthwise else 2), np.float32), **plain)
        case(forward,
             "error/channels",
             x,
             data(forward, "ew3", (3, 3, 3, 2)),
             error=True,
             fragments=["2", "3"],
             **plain)
        case(forward, "error/input_rank", x[0], w, error=True, fragments=["[4,4,2]"], **plain)
        case(forward, "error/filter_rank", x, w[0], error=True, **plain)
        case(forward,
             "error/filter_too_large",
             x,
             data(forward, "ew6", (6, 6, 2, 2)),
             error=True,
             **valid)
        case(forward,
             "error/stride_in_batch",
             x,
             w,
             strides=[2, 1, 1, 1],
             padding="SAME",
             error=True)
        case(forward, "error/strides_length", x, w, strides=[1, 1, 1], padding="SAME", error=True)
        case(forward, "error/stride_zero", x, w, strides=[1, 0, 0, 1], padding="SAME", error=True)
        dy = np.zeros((1, 4, 4, 3), np.float32)
        case(to_filter, "error/depth", x, i32(3, 3, 2, 2), dy, error=True, **plain)
        case(to_input, "error/depth", i32(1, 4, 4, 2), w, dy, error=True, **plain)
        case(to_filter,
             "error/spatial",
             x,
             i32(3, 3, 2, 2),
             np.zeros((1, 5, 4, 4 if depthwise else 2), np.float32),
             error=True,
             **plain)
        case(to_input,
             "error/batch",
             i32(1, 4, 4, 2),
             w,
             np.zeros((2, 4, 4, 4 if depthwise else 2), np.float32),
             error=True,
             **plain)
        case(to_filter,
             "error/sizes_rank",
             x,
             array([[3, 3, 2, 2]], "int32"),
             np.zeros((1, 4, 4, 4 if depthwise else 2), np.float32),
             error=True,
             **plain)
    case("Conv2D",
         "grouped",
         data("Conv2D", "g", (1, 4, 4, 4)),
         data("Conv2D", "gw", (3, 3, 2, 6)),
         strides=[1, 1, 1, 1],
         padding="SAME",
         note="a filter with fewer channels: groups")
    case("Conv2D",
         "error/explicit_negative",
         x,
         w,
         strides=[1, 1, 1, 1],
         padding="EXPLICIT",
         explicit_paddings=[0, 0, -1, 0, 0, 0, 0, 0],
         error=True,
         fragments=["-1"])
    case("Conv2D",
         "error/explicit_missing",
         x,
         w,
         strides=[1, 1, 1, 1],
         padding="EXPLICIT",
         error=True)


# --- pooling --------------------------------------------------------------------------------

_POOLS = {
    "valid": ((1, 4, 6, 3), {
        "ksize": [1, 2, 2, 1],
        "strides": [1, 2, 2, 1],
        "padding": "VALID"
    }),
    "same": ((2, 5, 5, 2), {
        "ksize": [1, 3, 3, 1],
        "strides": [1, 2, 2, 1],
        "padding": "SAME"
    }),
    "overlapping": ((1, 5, 4, 2), {
        "ksize": [1, 3, 2, 1],
        "strides": [1, 1, 1, 1],
        "padding": "VALID"
    }),
    "same_even": ((1, 4, 5, 1), {
        "ksize": [1, 2, 2, 1],
        "strides": [1, 1, 1, 1],
        "padding": "SAME"
    }),
    "whole": ((2, 3, 3, 2), {
        "ksize": [1, 3, 3, 1],
        "strides": [1, 1, 1, 1],
        "padding": "VALID"
    }),
    "stride_above_window": ((1, 7, 7, 1), {
        "ksize": [1, 2, 2, 1],
        "strides": [1, 3, 3, 1],
        "padding": "VALID"
    }),
    "one": ((1, 3, 3, 2), {
        "ksize": [1, 1, 1, 1],
        "strides": [1, 1, 1, 1],
        "padding": "SAME"
    }),
}


def _distinct(op, name, shape, t="float32"):
    """No two equal elements, so that a maximum has one place."""
    n = int(np.prod(shape))
    return array(
        rng(op, name).permutation(n).reshape(shape) - (0 if t in optable.UNSIGNED else n // 2), t)


def _pooling():
    for name, (xs, attrs) in _POOLS.items():
        x = _distinct("MaxPool", name, xs)
        y = case("MaxPool", name, x, exact=True, **attrs)[0]
        nchw_case("MaxPool", name + "_nchw", [x], [0], [], [0], exact=True, **attrs)
        dy = data("MaxPoolGrad", name, y.shape)
        case("MaxPoolGrad", name, x, y, dy, **attrs)
        nchw_case("MaxPoolGrad", name + "_nchw", [x, y, dy], [0, 1, 2], [], [0], **attrs)
        g = data("MaxPoolGradGrad", name, xs)
        case("MaxPoolGradGrad", name, x, y, g, exact=True, **attrs)
        nchw_case("MaxPoolGradGrad",
                  name + "_nchw", [x, y, g], [0, 1, 2], [], [0],
                  exact=True,
                  **attrs)
        x = data("AvgPool", name, xs)
        case("AvgPool", name, x, **attrs)
        nchw_case("AvgPool", name + "_nchw", [x], [0], [], [0], **attrs)
        case("AvgPoolGrad", name, i32(*xs), dy, **attrs)
        nchw_case("AvgPoolGrad", name + "_nchw", [i32(*xs), dy], [1], [0], [0], **attrs)
    xs, attrs = _POOLS["same"]
    for t in optable.kernel_types("MaxPool"):
        x = _distinct("MaxPool", t, (1, 5, 4, 2), t)
        y = case("MaxPool", t, x, exact=True, **attrs)[0]
        dy = data("MaxPoolGrad", t, y.shape, t)
        case("MaxPoolGrad", t, x, y, dy, **attrs)
        case("MaxPoolGradGrad",
             t,
             x,
             y,
             data("MaxPoolGradGrad", t, x.shape, t),
             exact=True,
             **attrs)
    for t in ("uint32", "uint64"):  # which MaxPool itself has not
        x = _distinct("MaxPool", t, (1, 5, 4, 2), t)
        y = running.run_node(*running.node_def("MaxPool", [x.astype(np.int64)], attrs))[0].astype(
            x.dtype)
        case("MaxPoolGrad", t, x, y, data("MaxPoolGrad", t, y.shape, t), **attrs)
        case("MaxPoolGradGrad",
             t,
             x,
             y,
             data("MaxPoolGradGrad", t, x.shape, t),
             exact=True,
             **attrs)
    for t in optable.kernel_types("AvgPool"):
        x = data("AvgPool", t, xs, t)
        y = case("AvgPool", t, x, **attrs)[0]
        case("AvgPoolGrad", t, i32(*xs), data("AvgPoolGrad", t, y.shape, t), **attrs)
    explicit = {
        "ksize": [1, 3, 3, 1],
        "strides": [1, 2, 2, 1],
        "padding": "EXPLICIT",
        "explicit_paddings": [0, 0, 1, 1, 0, 1, 0, 0]
    }
    x = _distinct("MaxPool", "explicit", (1, 5, 5, 2))
    y = case("MaxPool", "explicit", x, exact=True, **explicit)[0]
    case("MaxPoolGrad", "explicit", x, y, data("MaxPoolGrad", "explicit", y.shape), **explicit)
    depth = {"ksize": [1, 1, 1, 2], "strides": [1, 1, 1, 2], "padding": "VALID"}
    case("MaxPool",
         "over_channels",
         _distinct("MaxPool", "depth", (1, 2, 2, 4)),
         exact=True,
         **depth)
    ties = np.ones((1, 4, 4, 1), np.float32)
    two = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    case("MaxPoolGrad",
         "ties",
         ties,
         ties[:, ::2, ::2],
         array(np.arange(1, 5).reshape(1, 2, 2, 1), "float32"),
         note="of equal elements the first one gets it all",
         **two)
    case("MaxPool",
         "negative_infinity",
         np.full((1, 2, 2, 1), -np.inf, np.float32),
         exact=True,
         **two)
    for op in ("MaxPool", "AvgPool"):
        case(op, "empty_batch", np.zeros((0, 4, 4, 2), np.float32), **two)
        case(op,
             "error/rank",
             np.zeros((4, 4, 2), np.float32),
             error=True,
             fragments=["[4,4,2]"],
             **two)
        case(op,
             "error/window_too_large",
             np.zeros((1, 2, 2, 1), np.float32),
             ksize=[1, 4, 4, 1],
             strides=[1, 1, 1, 1],
             padding="VALID",
             error=True)
        case(op,
             "error/batch_window",
             np.zeros((2, 4, 4, 2), np.float32),
             ksize=[2, 2, 2, 1],
             strides=[1, 1, 1, 1],
             padding="VALID",
             error=True)
        case(op,
             "error/ksize_zero",
             np.zeros((1, 4, 4, 2), np.float32),
             ksize=[1, 0, 2, 1],
             strides=[1, 1, 1, 1],
             padding="VALID",
             error=True)
        case(op,
             "error/stride_zero",
             np.zeros((1, 4, 4, 2), np.float32),
             ksize=[1, 2, 2, 1],
             strides=[1, 0, 2, 1],
             padding="VALID",
             error=True)
    case("AvgPool", "error/over_channels", np.zeros((1, 4, 4, 4), np.float32), error=True, **depth)
    z = np.zeros((1, 4, 4, 1), np.float32)
    case("MaxPoolGrad", "error/output_shape", z, z, z, error=True, **two)
    case("MaxPoolGrad", "error/grad_shape", z, z[:, :2, :2], z, error=True, **two)
    case("AvgPoolGrad", "error/shape_rank", i32(4, 4, 1), z, error=True, **two)
    case("AvgPoolGrad", "error/grad_shape", i32(1, 4, 4, 1), z, error=True, **two)


def generate():
    _convolutions()
    _pooling()
