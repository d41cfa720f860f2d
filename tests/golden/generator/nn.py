"""Convolutions, pooling, matrix products, bias, normalization, softmax and losses, LSTM."""

import numpy as np

from . import harness, optable, values
from .harness import array, case, rng

NCHW_NOTE = "TensorFlow's CPU kernels have no NCHW: worked out in NHWC and transposed"


def i32(*a):
    return np.array(a, np.int32)


def data(op, name, shape, t="float32", low=-2, high=2):
    return values.ordinary(rng(op, name), shape, t, low, high)


def to_nchw(a):
    return np.transpose(a, (0, 3, 1, 2)).copy()


def _nchw_list(v):
    return [v[0], v[3], v[1], v[2]]


def nchw_case(op, name, inputs, images, shapes, images_out, exact=False, rtol=None, atol=None,
              **attrs):
    """The case in NCHW, from the answer in NHWC.

    images, shapes: positions of the inputs that are images and that are shapes of images;
    images_out: positions of the outputs that are images.
    """
    node, flat = harness.node_def(op, inputs, attrs)
    try:
        outputs = harness.run_node(node, flat)
    except harness.Failed as e:
        harness.problems.append("%s %s: %s" % (op, name, e))
        return
    attrs = dict(attrs, data_format="NCHW")
    for key in ("strides", "ksize", "dilations"):
        if key in attrs:
            attrs[key] = _nchw_list(attrs[key])
    if "explicit_paddings" in attrs:
        pads = attrs["explicit_paddings"]
        attrs["explicit_paddings"] = sum(_nchw_list([pads[i:i + 2] for i in range(0, 8, 2)]), [])
    moved = [to_nchw(a) if i in images else i32(*_nchw_list(a.tolist())) if i in shapes else a
             for i, a in enumerate(inputs)]
    outputs = [to_nchw(o) if i in images_out else o for i, o in enumerate(outputs)]
    harness.computed(op, name, moved, outputs, NCHW_NOTE, exact=exact, rtol=rtol, atol=atol, **attrs)


# --- convolutions ---------------------------------------------------------------------------

# name -> input, filter (depthwise: in, multiplier), attributes
_CONVS = {
    "same": ((2, 5, 4, 3), (3, 3, 3, 4), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
    "valid": ((1, 5, 5, 2), (2, 3, 2, 3), {"strides": [1, 1, 1, 1], "padding": "VALID"}),
    "same_stride2": ((1, 6, 5, 2), (3, 3, 2, 2), {"strides": [1, 2, 2, 1], "padding": "SAME"}),
    "valid_stride2": ((1, 6, 7, 2), (3, 2, 2, 2), {"strides": [1, 2, 2, 1], "padding": "VALID"}),
    "same_even_filter": ((1, 4, 5, 1), (2, 4, 1, 2), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
    "dilated": ((1, 7, 7, 2), (3, 3, 2, 2),
                {"strides": [1, 1, 1, 1], "padding": "SAME", "dilations": [1, 2, 2, 1]}),
    "dilated_valid": ((1, 7, 6, 1), (3, 2, 1, 2),
                      {"strides": [1, 1, 1, 1], "padding": "VALID", "dilations": [1, 2, 2, 1]}),
    "one_by_one": ((2, 3, 3, 4), (1, 1, 4, 5), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
    "stride_above_filter": ((1, 7, 7, 1), (2, 2, 1, 1), {"strides": [1, 3, 3, 1], "padding": "VALID"}),
    "filter_covers_image": ((2, 3, 3, 2), (3, 3, 2, 3), {"strides": [1, 1, 1, 1], "padding": "VALID"}),
    "explicit": ((1, 4, 4, 2), (3, 3, 2, 2),
                 {"strides": [1, 2, 2, 1], "padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 0, 2, 1, 0, 0]}),
}
_CONV_ONLY = {
    "strides_differ": ((1, 6, 7, 2), (3, 3, 2, 2), {"strides": [1, 2, 1, 1], "padding": "SAME"}),
    "dilations_differ": ((1, 7, 6, 1), (3, 2, 1, 2),
                         {"strides": [1, 1, 1, 1], "padding": "VALID", "dilations": [1, 3, 1, 1]}),
    "dilated_explicit": ((1, 5, 5, 1), (2, 2, 1, 2),
                         {"strides": [1, 1, 1, 1], "padding": "EXPLICIT", "dilations": [1, 2, 2, 1],
                          "explicit_paddings": [0, 0, 1, 1, 0, 2, 0, 0]}),
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
    out = harness.run_node(*harness.node_def(op, inputs, plain))[0]
    return out[::dilations[1], ::dilations[2]].copy() if op.endswith("BackpropFilter") else out


def _convolution(op, name, inputs, images, shapes, images_out, attrs, **tolerance):
    """One configuration in NHWC and in NCHW; returns the output."""
    if "dilations" in attrs and op != "Conv2D":
        out = _dilated(op, attrs, *inputs)
        note = "TensorFlow's CPU kernel has no dilation: worked out with zeros between the filter's rows"
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
            loose = {"rtol": 3e-2, "atol": 1e-1} if t == "bfloat16" else (
                {"rtol": 5e-3, "atol": 2e-2} if t == "float16" else {})
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
        case(to_filter, "empty_batch", x[:0], i32(3, 3, 2, 2), np.zeros((0, 4, 4, 4 if depthwise else 2), np.float32),
             **plain)
        case(to_input, "empty_batch", i32(0, 4, 4, 2), w, np.zeros((0, 4, 4, 4 if depthwise else 2), np.float32),
             **plain)
        case(forward, "error/channels", x, data(forward, "ew3", (3, 3, 3, 2)), error=True, fragments=["2", "3"], **plain)
        case(forward, "error/input_rank", x[0], w, error=True, fragments=["[4,4,2]"], **plain)
        case(forward, "error/filter_rank", x, w[0], error=True, **plain)
        case(forward, "error/filter_too_large", x, data(forward, "ew5", (5, 5, 2, 2)), error=True, **valid)
        case(forward, "error/stride_in_batch", x, w, strides=[2, 1, 1, 1], padding="SAME", error=True)
        case(forward, "error/strides_length", x, w, strides=[1, 1, 1], padding="SAME", error=True)
        case(forward, "error/stride_zero", x, w, strides=[1, 0, 0, 1], padding="SAME", error=True)
        dy = np.zeros((1, 4, 4, 3), np.float32)
        case(to_filter, "error/depth", x, i32(3, 3, 2, 2), dy, error=True, **plain)
        case(to_input, "error/depth", i32(1, 4, 4, 2), w, dy, error=True, **plain)
        case(to_filter, "error/spatial", x, i32(3, 3, 2, 2), np.zeros((1, 5, 4, 4 if depthwise else 2), np.float32),
             error=True, **plain)
        case(to_input, "error/batch", i32(1, 4, 4, 2), w, np.zeros((2, 4, 4, 4 if depthwise else 2), np.float32),
             error=True, **plain)
        case(to_filter, "error/sizes_rank", x, array([[3, 3, 2, 2]], "int32"),
             np.zeros((1, 4, 4, 4 if depthwise else 2), np.float32), error=True, **plain)
    case("Conv2D", "grouped", data("Conv2D", "g", (1, 4, 4, 4)), data("Conv2D", "gw", (3, 3, 2, 6)),
         strides=[1, 1, 1, 1], padding="SAME", note="a filter with fewer channels: groups")
    case("Conv2D", "error/explicit_negative", x, w, strides=[1, 1, 1, 1], padding="EXPLICIT",
         explicit_paddings=[0, 0, -1, 0, 0, 0, 0, 0], error=True, fragments=["-1"])
    case("Conv2D", "error/explicit_missing", x, w, strides=[1, 1, 1, 1], padding="EXPLICIT", error=True)


# --- pooling --------------------------------------------------------------------------------

_POOLS = {
    "valid": ((1, 4, 6, 3), {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}),
    "same": ((2, 5, 5, 2), {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}),
    "overlapping": ((1, 5, 4, 2), {"ksize": [1, 3, 2, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}),
    "same_even": ((1, 4, 5, 1), {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}),
    "whole": ((2, 3, 3, 2), {"ksize": [1, 3, 3, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}),
    "stride_above_window": ((1, 7, 7, 1), {"ksize": [1, 2, 2, 1], "strides": [1, 3, 3, 1], "padding": "VALID"}),
    "one": ((1, 3, 3, 2), {"ksize": [1, 1, 1, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}),
}


def _distinct(op, name, shape, t="float32"):
    """No two equal elements, so that a maximum has one place."""
    n = int(np.prod(shape))
    return array(rng(op, name).permutation(n).reshape(shape) - (0 if t in optable.UNSIGNED else n // 2), t)


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
        nchw_case("MaxPoolGradGrad", name + "_nchw", [x, y, g], [0, 1, 2], [], [0], exact=True, **attrs)
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
        case("MaxPoolGradGrad", t, x, y, data("MaxPoolGradGrad", t, x.shape, t), exact=True, **attrs)
    for t in ("uint32", "uint64"):  # which MaxPool itself has not
        x = _distinct("MaxPool", t, (1, 5, 4, 2), t)
        y = harness.run_node(*harness.node_def("MaxPool", [x.astype(np.int64)], attrs))[0].astype(x.dtype)
        case("MaxPoolGrad", t, x, y, data("MaxPoolGrad", t, y.shape, t), **attrs)
        case("MaxPoolGradGrad", t, x, y, data("MaxPoolGradGrad", t, x.shape, t), exact=True, **attrs)
    for t in optable.kernel_types("AvgPool"):
        x = data("AvgPool", t, xs, t)
        y = case("AvgPool", t, x, **attrs)[0]
        case("AvgPoolGrad", t, i32(*xs), data("AvgPoolGrad", t, y.shape, t), **attrs)
    explicit = {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "EXPLICIT",
                "explicit_paddings": [0, 0, 1, 1, 0, 1, 0, 0]}
    x = _distinct("MaxPool", "explicit", (1, 5, 5, 2))
    y = case("MaxPool", "explicit", x, exact=True, **explicit)[0]
    case("MaxPoolGrad", "explicit", x, y, data("MaxPoolGrad", "explicit", y.shape), **explicit)
    depth = {"ksize": [1, 1, 1, 2], "strides": [1, 1, 1, 2], "padding": "VALID"}
    case("MaxPool", "over_channels", _distinct("MaxPool", "depth", (1, 2, 2, 4)), exact=True, **depth)
    ties = np.ones((1, 4, 4, 1), np.float32)
    two = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    case("MaxPoolGrad", "ties", ties, ties[:, ::2, ::2], array(np.arange(1, 5).reshape(1, 2, 2, 1), "float32"),
         note="of equal elements the first one gets it all", **two)
    case("MaxPool", "negative_infinity", np.full((1, 2, 2, 1), -np.inf, np.float32), exact=True, **two)
    for op in ("MaxPool", "AvgPool"):
        case(op, "empty_batch", np.zeros((0, 4, 4, 2), np.float32), **two)
        case(op, "error/rank", np.zeros((4, 4, 2), np.float32), error=True, fragments=["[4,4,2]"], **two)
        case(op, "error/window_too_large", np.zeros((1, 2, 2, 1), np.float32), ksize=[1, 3, 3, 1],
             strides=[1, 1, 1, 1], padding="VALID", error=True)
        case(op, "error/batch_window", np.zeros((2, 4, 4, 2), np.float32), ksize=[2, 2, 2, 1], strides=[1, 1, 1, 1],
             padding="VALID", error=True)
        case(op, "error/ksize_zero", np.zeros((1, 4, 4, 2), np.float32), ksize=[1, 0, 2, 1], strides=[1, 1, 1, 1],
             padding="VALID", error=True)
        case(op, "error/stride_zero", np.zeros((1, 4, 4, 2), np.float32), ksize=[1, 2, 2, 1], strides=[1, 0, 2, 1],
             padding="VALID", error=True)
    case("AvgPool", "error/over_channels", np.zeros((1, 4, 4, 4), np.float32), error=True, **depth)
    z = np.zeros((1, 4, 4, 1), np.float32)
    case("MaxPoolGrad", "error/output_shape", z, z, z, error=True, **two)
    case("MaxPoolGrad", "error/grad_shape", z, z[:, :2, :2], z, error=True, **two)
    case("AvgPoolGrad", "error/shape_rank", i32(4, 4, 1), z, error=True, **two)
    case("AvgPoolGrad", "error/grad_shape", i32(1, 4, 4, 1), z, error=True, **two)


# --- matrix products ------------------------------------------------------------------------

def _products():
    for op in ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"):
        batch = op != "MatMul"
        ta, tb = ("adj_x", "adj_y") if batch else ("transpose_a", "transpose_b")
        types = [(t, t, t) for t in optable.kernel_types(op)] if op != "BatchMatMulV3" else [
            ("float32",) * 3, ("float64",) * 3, ("bfloat16",) * 3, ("int32",) * 3, ("int64",) * 3,
            ("int16",) * 3, ("complex64",) * 3, ("complex128",) * 3, ("int8", "int8", "int32"),
            ("uint8", "int8", "int32"), ("int8", "uint8", "int32"), ("uint8", "uint8", "int32"),
            ("bfloat16", "int8", "bfloat16"), ("int8", "bfloat16", "bfloat16")]
        lead = (2,) if batch else ()
        for t, u, out in types:
            attrs = {"Tout": out} if op == "BatchMatMulV3" else {}
            loose = {}
            if out in ("float16", "bfloat16"):
                loose = {"rtol": 2e-2 if out == "bfloat16" else 5e-3, "atol": 5e-2 if out == "bfloat16" else 1e-2}
            name = t if t == u else "%s_%s" % (t, u)
            x, y = data(op, name, lead + (3, 4), t), data(op, name + "y", lead + (4, 5), u)
            try:
                harness.run_node(*harness.node_def(op, [x, y], attrs))
            except harness.Failed as e:
                if t == u == out:
                    harness.problems.append("%s %s: %s" % (op, name, e))
                continue  # the mixed type has no kernel
            case(op, name, x, y, **loose, **attrs)
        attrs = {"Tout": "float32"} if op == "BatchMatMulV3" else {}
        x, y = data(op, "x", lead + (3, 4)), data(op, "y", lead + (4, 5))
        xt, yt = np.swapaxes(x, -1, -2).copy(), np.swapaxes(y, -1, -2).copy()
        case(op, "transposed_left", xt, y, **{ta: True}, **attrs)
        case(op, "transposed_right", x, yt, **{tb: True}, **attrs)
        case(op, "transposed_both", xt, yt, **{ta: True, tb: True}, **attrs)
        z = data(op, "z", lead + (3, 4), "complex64")
        zattrs = {"Tout": "complex64"} if op == "BatchMatMulV3" else {}
        case(op, "complex_transposed", z, z, **{ta: True}, **zattrs,
             note="the adjoint: conjugated" if batch else "not conjugated")
        case(op, "vector_like", x[..., :1, :], y[..., :, :1], **attrs)
        case(op, "outer_product", x[..., :, :1].copy(), y[..., :1, :].copy(), **attrs)
        case(op, "no_inner", x[..., :, :0].copy(), y[..., :0, :].copy(), **attrs, note="a sum of nothing is 0")
        case(op, "no_rows", x[..., :0, :].copy(), y, **attrs)
        case(op, "larger", data(op, "lx", lead + (17, 33)), data(op, "ly", lead + (33, 19)), rtol=1e-5, atol=2e-5,
             **attrs)
        case(op, "nan", np.where(np.arange(x.size).reshape(x.shape) == 5, np.nan, x).astype(np.float32), y, **attrs)
        case(op, "error/inner", x, x, error=True, fragments=["4", "3"], **attrs)
        case(op, "error/rank", x.reshape(-1)[:4], y, error=True, **attrs)
        if batch:
            case(op, "no_batch", x[0], y[0], **attrs)
            case(op, "two_batch_dims", data(op, "b2x", (2, 3, 2, 3)), data(op, "b2y", (2, 3, 3, 1)), **attrs)
            case(op, "empty_batch", x[:0], y[:0], **attrs)
        if op == "BatchMatMul":
            case(op, "error/batch", x, y[:1], error=True, **attrs)
        elif batch:
            case(op, "broadcast_right", x, y[0], **attrs)
            case(op, "broadcast_both", data(op, "bx", (2, 1, 2, 3)), data(op, "by", (3, 3, 2)), **attrs)
            case(op, "broadcast_transposed", data(op, "bx", (2, 1, 3, 2)), data(op, "by", (3, 2, 3)), adj_x=True,
                 adj_y=True, **attrs)
            case(op, "error/batch", x, np.concatenate([y, y[:1]]), error=True, fragments=["2", "3"], **attrs)


# --- bias, normalization --------------------------------------------------------------------

def _bias():
    for op in ("BiasAdd", "BiasAddV1"):
        for t in optable.kernel_types(op):
            case(op, t, data(op, t, (2, 3, 4), t), data(op, t + "b", (4,), t))
        x, b = data(op, "x", (2, 2, 3, 4)), data(op, "b", (4,))
        case(op, "matrix", x[0, 0], b)
        case(op, "images", x, b)
        case(op, "empty", x[:0], b)
        case(op, "error/length", x, b[:3], error=True, fragments=["4", "3"])
        case(op, "error/bias_rank", x, x[0, 0], error=True)
        case(op, "error/value_rank", b, b, error=True)
    op = "BiasAdd"
    case(op, "nchw", x, data(op, "b2", (2,)), data_format="NCHW")
    case(op, "nchw_rank3", data(op, "r3", (2, 3, 2)), data(op, "b3", (3,)), data_format="NCHW")
    case(op, "nchw_rank5", data(op, "r5", (2, 3, 2, 1, 2)), data(op, "b3", (3,)), data_format="NCHW")
    case(op, "nchw_matrix", data(op, "m", (2, 3)), data(op, "b3", (3,)), data_format="NCHW")
    case(op, "error/nchw_length", x, b, data_format="NCHW", error=True, fragments=["2", "4"])
    op = "BiasAddGrad"
    for t in optable.kernel_types(op):
        case(op, t, data(op, t, (2, 3, 4), t))
    x = data(op, "x", (2, 2, 3, 4))
    case(op, "matrix", x[0, 0])
    case(op, "images", x)
    case(op, "nchw", x, data_format="NCHW")
    case(op, "nchw_rank3", x[0], data_format="NCHW")
    case(op, "nchw_rank5", data(op, "r5", (2, 3, 2, 1, 2)), data_format="NCHW")
    case(op, "empty", x[:0])
    case(op, "error/vector", x[0, 0, 0], error=True)


def _batch_norm():
    op, grad = "FusedBatchNormV3", "FusedBatchNormGradV3"
    none = np.zeros(0, np.float32)

    def parameters(name, c):
        return (data(op, name + "s", (c,), low=0.5, high=2), data(op, name + "o", (c,)),
                data(op, name + "m", (c,)), data(op, name + "v", (c,), low=0.5, high=2))

    def pair(name, x, training, epsilon=1e-3, factor=None, nchw=False, **tolerance):
        scale, offset, mean, var = parameters(name, x.shape[-1])
        attrs = {"epsilon": epsilon, "is_training": training}
        forward = dict(attrs)
        if factor is not None:
            forward["exponential_avg_factor"] = factor
        if training and factor in (None, 1.0):
            mean, var = none, none
        note = "batch_variance is the unbiased one, reserve_space_2 the other" if training else ""
        inputs = [x, scale, offset, mean, var]
        y = case(op, name, *inputs, unchecked=[5], note=note, **tolerance, **forward)
        if y is None:
            return
        dy = data(grad, name, x.shape, harness.type_of(x))
        back = [dy, x, scale, y[3], y[4], y[5]]
        if not training:
            back[3:5] = [mean, var]
        case(grad, name, *back, unchecked=[3, 4], **tolerance, **attrs)
        if nchw:
            nchw_case(op, name + "_nchw", inputs, [0], [], [0], **tolerance, **forward)
            nchw_case(grad, name + "_nchw", back, [0, 1], [], [0], **tolerance, **attrs)

    loose = {"rtol": 2e-5, "atol": 1e-5}
    x = data(op, "x", (2, 3, 4, 3))
    pair("training", x, True, nchw=True, **loose)
    pair("inference", x, False, nchw=True, **loose)
    pair("running_average", x, True, factor=0.1, **loose)
    pair("large_epsilon", x, True, epsilon=0.5, **loose)
    pair("one_channel", data(op, "c1", (3, 2, 2, 1)), True, **loose)
    pair("one_pixel", data(op, "p1", (4, 1, 1, 3)), True, **loose)
    pair("constant", np.full((2, 2, 2, 2), 3, np.float32), True, **loose)
    for t, tolerance in (("float16", {"rtol": 5e-3, "atol": 1e-2}), ("bfloat16", {"rtol": 3e-2, "atol": 6e-2})):
        pair(t + "_training", data(op, t, (2, 3, 2, 3), t), True, **tolerance)
        pair(t + "_inference", data(op, t, (2, 3, 2, 3), t), False, **tolerance)
    scale, offset, mean, var = parameters("e", 3)
    case(op, "ndhwc", data(op, "d", (2, 2, 2, 2, 3)), scale, offset, none, none, data_format="NDHWC", unchecked=[5],
         **loose)
    case(op, "empty_batch", x[:0], scale, offset, none, none, unchecked=[5], note="mean and variance are NaN")
    case(op, "empty_batch_inference", x[:0], scale, offset, mean, var, is_training=False, unchecked=[5])
    case(op, "error/rank", x[0], scale, offset, none, none, error=True)
    case(op, "error/scale", x, scale[:2], offset, none, none, error=True, fragments=["3", "2"])
    case(op, "error/offset_rank", x, scale, x[0, 0], none, none, error=True)
    case(op, "error/inference_without_mean", x, scale, offset, none, none, is_training=False, error=True)
    case(grad, "error/shapes", x[:1], x, scale, mean, var, none, error=True)


# --- softmax, losses ------------------------------------------------------------------------

def _softmax():
    for op in ("Softmax", "LogSoftmax"):
        for t in optable.kernel_types(op):
            x = data(op, t, (3, 5), t, -4, 4)
            case(op, t, x)
            case(op, t + "/empty", x[:0])
        case(op, "vector", data(op, "v", (7,)))
        case(op, "rank4", data(op, "r4", (2, 1, 3, 4)))
        case(op, "one_class", data(op, "o", (3, 1)))
        case(op, "large", array([[1000, 999, -1000], [-1e30, 0, 1e30]], "float32"))
        case(op, "edges", array([[1, np.nan, 2], [-np.inf, 0, 1], [np.inf, 0, 1], [-np.inf, -np.inf, -np.inf]],
                                "float32"))
        case(op, "error/scalar", array(1, "float32"), error=True)
    op = "SoftmaxCrossEntropyWithLogits"
    for t in optable.kernel_types(op):
        x, l = data(op, t, (3, 5), t, -4, 4), data(op, t + "l", (3, 5), t, 0, 1)
        case(op, t, x, l)
        case(op, t + "/empty", x[:0], l[:0])
    x = data(op, "x", (3, 4), low=-4, high=4)
    one_hot = np.eye(4, dtype=np.float32)[[1, 0, 3]]
    case(op, "one_hot", x, one_hot)
    case(op, "broadcast_labels", x, one_hot[:1])
    case(op, "broadcast_logits", x[:1], one_hot)
    case(op, "large", array([[1000, 0, -1000]], "float32"), array([[0, 1, 0]], "float32"))
    case(op, "zero_label_of_infinity", array([[-np.inf, 0, 1]], "float32"), array([[0, 1, 0]], "float32"))
    case(op, "nan", array([[np.nan, 0, 1], [0, 1, 2]], "float32"), array([[0, 1, 0], [1, 0, 0]], "float32"))
    case(op, "error/shapes", x, one_hot[:, :3], error=True, fragments=["[3,4]", "[3,3]"])
    case(op, "error/rank", x[0], one_hot[0], error=True)
    op = "SparseSoftmaxCrossEntropyWithLogits"
    for t in optable.kernel_types(op):
        x = data(op, t, (3, 5), t, -4, 4)
        for l in ("int32", "int64"):
            case(op, "%s_%s" % (t, l), x, array([4, 0, 2], l))
        case(op, t + "/empty", x[:0], array([], "int64"))
    x = data(op, "x", (3, 4), low=-4, high=4)
    case(op, "large", array([[1000, 0, -1000]], "float32"), i32(2))
    case(op, "one_class", x[:, :1], i32(0, 0, 0))
    case(op, "out_of_range_is_nan", x, i32(0, 4, -1),
         note="the CPU kernel says NaN for the rows of labels out of range") \
        if _runs(op, [x, i32(0, 4, -1)]) else case(op, "error/label", x, i32(0, 4, 1), error=True, fragments=["4"])
    case(op, "error/lengths", x, i32(0, 1), error=True, fragments=["3", "2"])
    case(op, "error/labels_rank", x, array([[0], [1], [2]], "int32"), error=True)
    case(op, "error/logits_rank", x[0], i32(0), error=True)
    case(op, "error/no_classes", x[:, :0], i32(0, 0, 0), error=True)


def _runs(op, inputs):
    try:
        harness.run_node(*harness.node_def(op, inputs, {}))
        return True
    except harness.Failed:
        return False


def _lstm():
    op, grad = "BlockLSTMV2", "BlockLSTMGradV2"
    time, batch, inputs, cells = 4, 2, 3, 2
    for name, t, length, attrs in (("float32", "float32", 4, {}), ("peephole", "float32", 4, {"use_peephole": True}),
                                   ("clipped", "float32", 4, {"cell_clip": 0.3}),
                                   ("shorter_sequence", "float32", 2, {}), ("float16", "float16", 4, {})):
        tolerance = {"rtol": 5e-3, "atol": 5e-3} if t == "float16" else {"rtol": 2e-5, "atol": 1e-5}

        def d(suffix, *shape):
            return data(op, name + suffix, shape, t, -1, 1)
        args = [array(length, "int64"), d("x", time, batch, inputs), d("cs", batch, cells), d("h", batch, cells),
                d("w", inputs + cells, 4 * cells), d("wci", cells), d("wcf", cells), d("wco", cells),
                d("b", 4 * cells)]
        out = case(op, name, *args, **tolerance, **attrs)
        if out is None or name == "clipped":
            continue
        case(grad, name, *args, *out, d("dcs", time, batch, cells), d("dh", time, batch, cells),
             use_peephole=attrs.get("use_peephole", False), **tolerance)
    args[0] = array(5, "int64")
    harness.refused(op, "error/length", args, "TensorFlow aborts the process", fragments=["5", "4"])
    args[0] = array(4, "int64")
    case(op, "error/weights", *args[:4], args[4][:4], *args[5:], error=True)


def generate():
    _convolutions()
    _pooling()
    _products()
    _bias()
    _batch_norm()
    _softmax()
    _lstm()
