"""Matrix products, bias, batch normalization, softmax and losses, LSTM."""

import numpy as np

from . import optable, running
from .base import array, type_of
from .convolution import data, i32, nchw_case
from .harness import case, problems, refused


# --- matrix products ------------------------------------------------------------------------


def _products():
    for op in ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"):
        batch = op != "MatMul"
        ta, tb = ("adj_x", "adj_y") if batch else ("transpose_a", "transpose_b")
        types = [(t, t, t) for t in optable.kernel_types(op)] if op != "BatchMatMulV3" else [
            ("float32",) * 3, ("float64",) * 3, ("bfloat16",) * 3, ("int32",) * 3, ("int64",) * 3,
            ("int16",) * 3, ("complex64",) * 3, ("complex128",) * 3, ("int8", "int8", "int32"),
            ("uint8", "int8", "int32"), ("int8", "uint8", "int32"), ("uint8", "uint8", "int32"),
            ("bfloat16", "int8", "bfloat16"), ("int8", "bfloat16", "bfloat16")
        ]
        lead = (2,) if batch else ()
        for t, u, out in types:
            attrs = {"Tout": out} if op == "BatchMatMulV3" else {}
            loose = {}
            if out in ("float16", "bfloat16"):
                loose = {
                    "rtol": 2e-2 if out == "bfloat16" else 5e-3,
                    "atol": 5e-2 if out == "bfloat16" else 1e-2
                }
            name = t if t == u else "%s_%s" % (t, u)
            x, y = data(op, name, lead + (3, 4), t), data(op, name + "y", lead + (4, 5), u)
            try:
                running.run_node(*running.node_def(op, [x, y], attrs))
            except running.Failed as e:
                if t == u == out:
                    problems.append("%s %s: %s" % (op, name, e))
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
        case(op,
             "complex_transposed",
             z,
             z,
             **{ta: True},
             **zattrs,
             note="the adjoint: conjugated" if batch else "not conjugated")
        case(op, "vector_like", x[..., :1, :], y[..., :, :1], **attrs)
        case(op, "outer_product", x[..., :, :1].copy(), y[..., :1, :].copy(), **attrs)
        case(op,
             "no_inner",
             x[..., :, :0].copy(),
             y[..., :0, :].copy(),
             **attrs,
             note="a sum of nothing is 0")
        case(op, "no_rows", x[..., :0, :].copy(), y, **attrs)
        case(op,
             "larger",
             data(op, "lx", lead + (17, 33)),
             data(op, "ly", lead + (33, 19)),
             rtol=1e-5,
             atol=2e-5,
             **attrs)
        case(op, "nan",
             np.where(np.arange(x.size).reshape(x.shape) == 5, np.nan, x).astype(np.float32), y,
             **attrs)
        case(op, "error/inner", x, x, error=True, fragments=["4", "3"], **attrs)
        case(op, "error/rank", x.reshape(-1)[:4], y, error=True, **attrs)
        if batch:
            case(op, "no_batch", x[0], y[0], **attrs)
            case(op, "two_batch_dims", data(op, "b2x", (2, 3, 2, 3)), data(op, "b2y", (2, 3, 3, 1)),
                 **attrs)
            case(op, "empty_batch", x[:0], y[:0], **attrs)
        if op == "BatchMatMul":
            case(op, "error/batch", x, y[:1], error=True, **attrs)
        elif batch:
            case(op, "broadcast_right", x, y[0], **attrs)
            case(op, "broadcast_both", data(op, "bx", (2, 1, 2, 3)), data(op, "by", (3, 3, 2)),
                 **attrs)
            case(op,
                 "broadcast_transposed",
                 data(op, "bx", (2, 1, 3, 2)),
                 data(op, "by", (3, 2, 3)),
                 adj_x=True,
                 adj_y=True,
                 **attrs)
            case(op,
                 "error/batch",
                 x,
                 np.concatenate([y, y[:1]]),
                 error=True,
                 fragments=["2", "3"],
                 **attrs)


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
    case(op,
         "nchw_rank5",
         data(op, "r5", (2, 3, 2, 1, 2)),
         data(op, "b3", (3,)),
         data_format="NCHW")
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
        open_ends = [5] if training else [3, 4, 5]
        y = case(op, name, *inputs, unchecked=open_ends, note=note, **tolerance, **forward)
        if y is None:
            return
        dy = data(grad, name, x.shape, type_of(x))
        back = [dy, x, scale, y[3], y[4], np.zeros_like(y[5])]
        if not training:
            back[3:5] = [mean, var]
        case(grad, name, *back, unchecked=[3, 4], **tolerance, **attrs)
        if nchw:
            nchw_case(op, name + "_nchw", inputs, [0], [], [0], unchecked=open_ends, **tolerance,
                      **forward)
            nchw_case(grad, name + "_nchw", back, [0, 1], [], [0], unchecked=[3, 4], **tolerance,
                      **attrs)

    loose = {"rtol": 2e-5, "atol": 1e-5}
    x = data(op, "x", (2, 3, 4, 3))
    pair("training", x, True, nchw=True, **loose)
    pair("inference", x, False, nchw=True, **loose)
    pair("running_average", x, True, factor=0.1, **loose)
    pair("large_epsilon", x, True, epsilon=0.5, **loose)
    pair("one_channel", data(op, "c1", (3, 2, 2, 1)), True, **loose)
    pair("one_pixel", data(op, "p1", (4, 1, 1, 3)), True, **loose)
    pair("constant", np.full((2, 2, 2, 2), 3, np.float32), True, **loose)
    for t, tolerance in (("float16", {
            "rtol": 5e-3,
            "atol": 1e-2
    }), ("bfloat16", {
            "rtol": 3e-2,
            "atol": 6e-2
    })):
        pair(t + "_training", data(op, t, (2, 3, 2, 3), t), True, **tolerance)
        pair(t + "_inference", data(op, t, (2, 3, 2, 3), t), False, **tolerance)
    scale, offset, mean, var = parameters("e", 3)
    case(op,
         "ndhwc",
         data(op, "d", (2, 2, 2, 2, 3)),
         scale,
         offset,
         none,
         none,
         data_format="NDHWC",
         unchecked=[5],
         **loose)
    case(op,
         "empty_batch",
         x[:0],
         scale,
         offset,
         none,
         none,
         unchecked=[3, 4, 5],
         note="mean and variance are NaN")
    case(op,
         "empty_batch_inference",
         x[:0],
         scale,
         offset,
         mean,
         var,
         is_training=False,
         unchecked=[3, 4, 5])
    case(op, "error/rank", x[0], scale, offset, none, none, error=True)
    case(op, "error/scale", x, scale[:2], offset, none, none, error=True, fragments=["3", "2"])
    case(op, "error/offset_rank", x, scale, x[0, 0], none, none, error=True)
    case(op,
         "error/inference_without_mean",
         x,
         scale,
         offset,
         none,
         none,
         is_training=False,
         error=True)
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
        case(
            op, "edges",
            array([[1, np.nan, 2], [-np.inf, 0, 1], [np.inf, 0, 1], [-np.inf, -np.inf, -np.inf]],
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
    case(op, "zero_label_of_infinity", array([[-np.inf, 0, 1]], "float32"),
         array([[0, 1, 0]], "float32"))
    case(op, "nan", array([[np.nan, 0, 1], [0, 1, 2]], "float32"),
         array([[0, 1, 0], [1, 0, 0]], "float32"))
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
    case(op, "error/label", x, i32(0, 4, 1), error=True, fragments=["4"])
    case(op, "error/label_negative", x, i32(0, -1, 1), error=True, fragments=["-1"])
    case(op, "error/lengths", x, i32(0, 1), error=True, fragments=["3", "2"])
    case(op, "error/labels_rank", x, array([[0], [1], [2]], "int32"), error=True)
    case(op, "error/logits_rank", x[0], i32(0), error=True)
    case(op, "error/no_classes", x[:, :0], i32(0, 0, 0), error=True)


def _lstm():
    op, grad = "BlockLSTMV2", "BlockLSTMGradV2"
    time, batch, inputs, cells = 4, 2, 3, 2
    for name, t, length, attrs in (("float32", "float32", 4, {}), ("peephole", "float32", 4, {
            "use_peephole": True
    }), ("clipped", "float32", 4, {
            "cell_clip": 0.3
    }), ("shorter_sequence", "float32", 2, {}), ("float16", "float16", 4, {})):
        tolerance = {"rtol": 5e-3, "atol": 5e-3} if t == "float16" else {"rtol": 2e-5, "atol": 1e-5}

        def d(suffix, *shape):
            return data(op, name + suffix, shape, t, -1, 1)

        args = [
            array(length, "int64"),
            d("x", time, batch, inputs),
            d("cs", batch, cells),
            d("h", batch, cells),
            d("w", inputs + cells, 4 * cells),
            d("wci", cells),
            d("wcf", cells),
            d("wco", cells),
            d("b", 4 * cells)
        ]
        short = length < time
        # TensorFlow clears only cs and h after the end of the sequence.
        out = case(op,
                   name,
                   *args,
                   unchecked=[0, 2, 3, 4, 5] if short else [],
                   **tolerance,
                   **attrs)
        if out is None or name == "clipped":
            continue
        for o in out:
            o[length:] = 0
        case(grad,
             name,
             *args,
             *out,
             d("dcs", time, batch, cells),
             d("dh", time, batch, cells),
             use_peephole=attrs.get("use_peephole", False),
             **tolerance)
    args[0] = array(5, "int64")
    refused(op, "error/length", args, "TensorFlow aborts the process", fragments=["5", "4"])
    args[0] = array(4, "int64")
    case(op, "error/weights", *args[:4], args[4][:4], *args[5:], error=True)


def generate():
    _products()
    _bias()
    _batch_norm()
    _softmax()
    _lstm()
