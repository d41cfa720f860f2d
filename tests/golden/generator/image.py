"""Resized, cropped and transformed images, and colors."""

import numpy as np

from . import optable, values
from .base import array
from .convolution import data, i32
from .harness import case, rng

_SIZES = {
    "larger": (7, 9),
    "smaller": (2, 3),
    "same": (4, 5),
    "one_pixel": (1, 1),
    "tall": (9, 2),
    "twice": (8, 10)
}
_WAYS = {"": {}, "_aligned": {"align_corners": True}, "_centers": {"half_pixel_centers": True}}
_GRADIENTS = {
    "ResizeBilinear": "ResizeBilinearGrad",
    "ResizeBicubic": "ResizeBicubicGrad",
    "ResizeNearestNeighbor": "ResizeNearestNeighborGrad"
}


def _resizes():
    for op in ("ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor", "ResizeArea"):
        loose = {"rtol": 2e-5, "atol": 2e-5} if op != "ResizeNearestNeighbor" else {"exact": True}
        x = data(op, "x", (1, 4, 5, 2))
        for size, hw in _SIZES.items():
            for way, attrs in _WAYS.items():
                if op == "ResizeArea" and way == "_centers":
                    continue
                if op == "ResizeArea" and way and 1 in hw:
                    continue  # a mean of nothing
                case(op, size + way, x, i32(*hw), **loose, **attrs)
                grad = _GRADIENTS.get(op)
                if grad is None:
                    continue
                dy = data(grad, size, (1,) + hw + (2,))
                like = i32(4, 5) if grad == "ResizeNearestNeighborGrad" else x
                case(grad, size + way, dy, like, rtol=2e-5, atol=2e-5, **attrs)
        for t in optable.kernel_types(op):
            case(op, t, data(op, t, (1, 3, 4, 2), t), i32(5, 3), **loose)
        case(op, "one_row", data(op, "row", (1, 1, 4, 1)), i32(3, 6), **loose)
        case(op, "from_one_pixel", data(op, "one", (1, 1, 1, 2)), i32(2, 3), **loose)
        case(op, "empty_batch", x[:0], i32(2, 2), **loose)
        case(op, "error/rank", x[0], i32(2, 2), error=True)
        case(op, "error/size_rank", x, array(2, "int32"), error=True)
        case(op, "error/three_sizes", x, i32(2, 2, 2), error=True)
        case(op, "error/no_rows", x, i32(0, 2), error=True)
        case(op, "error/negative", x, i32(2, -3), error=True)
        case(op, "error/no_pixels", x[:, :0].copy(), i32(2, 2), error=True)
        if op != "ResizeArea":
            case(op,
                 "error/two_ways",
                 x,
                 i32(2, 2),
                 align_corners=True,
                 half_pixel_centers=True,
                 error=True)
    for op in ("ResizeBilinearGrad", "ResizeBicubicGrad"):
        for t in optable.kernel_types(op):
            loose = {"float16": 5e-3, "bfloat16": 4e-2}.get(t, 2e-5)
            case(op,
                 t,
                 data(op, t, (1, 5, 3, 2)),
                 data(op, t + "x", (1, 3, 4, 2), t),
                 rtol=loose,
                 atol=loose)
        case(op, "error/rank", data(op, "r", (5, 3, 2)), data(op, "x", (1, 3, 4, 2)), error=True)
    op = "ResizeNearestNeighborGrad"
    for t in optable.kernel_types(op):
        loose = {"float16": 5e-3, "bfloat16": 4e-2}.get(t, 2e-5)
        case(op, t, data(op, t, (1, 5, 3, 2), t), i32(3, 2), rtol=loose, atol=loose)
    case(op, "error/rank", data(op, "r", (5, 3, 2)), i32(3, 2), error=True)


def _scaled():
    op, grad = "ScaleAndTranslate", "ScaleAndTranslateGrad"
    x = data(op, "x", (1, 5, 4, 1))
    loose = {"rtol": 5e-5, "atol": 5e-5}
    kernels = ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic",
               "mitchellcubic")
    for kernel in kernels:
        for antialias in (True, False):
            for name, size, scale, move in (("larger", (7, 8), (1.4, 2.0), (0, 0)),
                                            ("smaller", (3, 2), (0.5, 0.4), (0, 0)),
                                            ("moved", (5, 6), (0.9, 1.2), (-1.3, 2.1))):
                name = "%s_%s%s" % (kernel, name, "" if antialias else "_sharp")
                attrs = {"kernel_type": kernel, "antialias": antialias}
                scale, move = array(scale, "float32"), array(move, "float32")
                y = case(op, name, x, i32(*size), scale, move, **loose, **attrs)[0]
                if kernel in ("lanczos3", "box", "keyscubic"):
                    case(grad, name, data(grad, name, y.shape), x, scale, move, **loose, **attrs)
    one, none = array([1.25, 0.75], "float32"), array([0, 0], "float32")
    for t in optable.kernel_types(op):
        case(op, t, data(op, t, (1, 4, 4, 1), t), i32(5, 3), one, none, **loose)
    case(op, "empty_batch", x[:0], i32(2, 2), one, none)
    case(op, "error/kernel", x, i32(2, 2), one, none, kernel_type="sinc", error=True)
    case(op, "error/scale", x, i32(2, 2), array([0, 1], "float32"), none, error=True)
    case(op, "error/scale_length", x, i32(2, 2), array([1], "float32"), none, error=True)
    case(op, "error/rank", x[0], i32(2, 2), one, none, error=True)


_BOXES = [[0, 0, 1, 1], [0.1, 0.15, 0.8, 0.7], [0.6, 0.9, 0.25, 0.2], [-0.5, 0.2, 0.5, 1.4]]


def _crops():
    op = "CropAndResize"
    x, boxes, index = data(op, "x", (2, 4, 5, 3)), array(_BOXES, "float32"), i32(1, 0, 1, 0)
    loose = {"rtol": 2e-5, "atol": 2e-5}
    for method in ("bilinear", "nearest"):
        for name, size in (("", (3, 4)), ("_one_pixel", (1, 1)), ("_one_row", (1, 3)),
                           ("_larger", (9, 8))):
            y = case(op, method + name, x, boxes, index, i32(*size), method=method, **loose)[0]
            dy = data("CropAndResizeGradImage", name, y.shape)
            case("CropAndResizeGradImage",
                 method + name,
                 dy,
                 boxes,
                 index,
                 i32(2, 4, 5, 3),
                 method=method,
                 T="float32",
                 **loose)
            if method == "bilinear":
                case("CropAndResizeGradBoxes", method + name, dy, x, boxes, index, **loose)
    case(op, "extrapolated", x, boxes, index, i32(4, 4), extrapolation_value=7.5, **loose)
    for t in optable.kernel_types(op):
        case(op, t, data(op, t, (2, 4, 5, 2), t), boxes, index, i32(2, 3), **loose)
    for t in optable.kernel_types("CropAndResizeGradImage"):
        case("CropAndResizeGradImage",
             t,
             data(op, t, (4, 2, 3, 1)),
             boxes,
             index,
             i32(2, 3, 3, 1),
             T=t,
             **(loose if t != "float16" else {
                 "rtol": 5e-3,
                 "atol": 5e-3
             }))
    for t in optable.kernel_types("CropAndResizeGradBoxes"):
        case("CropAndResizeGradBoxes", t, data(op, t, (4, 2, 3, 1)), data(op, t, (2, 3, 3, 1), t),
             boxes, index, **loose)
    case(op, "no_boxes", x, boxes[:0], index[:0], i32(2, 2))
    case(op, "error/index", x, boxes, i32(0, 1, 2, 0), i32(2, 2), error=True, fragments=["2"])
    case(op, "error/negative_index", x, boxes, i32(0, -1, 0, 0), i32(2, 2), error=True)
    case(op, "error/boxes", x, boxes[:, :3].copy(), index, i32(2, 2), error=True)
    case(op, "error/indices", x, boxes, index[:2], i32(2, 2), error=True)
    case(op, "error/size", x, boxes, index, i32(2, 0), error=True)
    case(op, "error/rank", x[0], boxes, index, i32(2, 2), error=True)


def _transforms():
    x = data("ImageProjectiveTransformV3", "x", (1, 5, 6, 1))
    transforms = {
        "same": [1, 0, 0, 0, 1, 0, 0, 0],
        "moved": [1, 0, 1.3, 0, 1, -2.2, 0, 0],
        "turned": [0.8, -0.6, 1.1, 0.6, 0.8, -1.7, 0, 0],
        "sheared": [1, 0.45, 0, 0.2, 1, 0.1, 0, 0],
        "perspective": [1.1, 0.1, 0.3, -0.2, 0.9, 0.4, 0.03, 0.04],
        "far": [2.3, 0, -9.1, 0, 3.1, 13.2, 0, 0],
    }
    loose = {"rtol": 5e-5, "atol": 5e-5}
    for op in ("ImageProjectiveTransformV2", "ImageProjectiveTransformV3"):
        fill = [np.float32(0.7)] if op.endswith("V3") else []
        for name, numbers in transforms.items():
            t = array([numbers], "float32")
            for interpolation in ("NEAREST", "BILINEAR"):
                for mode in ("CONSTANT", "REFLECT", "WRAP", "NEAREST"):
                    if op.endswith("V2") and (mode == "WRAP" or name not in ("turned", "far")):
                        continue
                    case(op,
                         "%s_%s_%s" % (name, interpolation, mode),
                         x,
                         t,
                         i32(5, 6),
                         *fill,
                         interpolation=interpolation,
                         fill_mode=mode,
                         **loose)
        one_each = array([transforms["moved"], transforms["turned"]], "float32")
        case(op, "one_each", data(op, "two", (2, 4, 5, 2)), one_each, i32(4, 7), *fill,
             interpolation="BILINEAR", **loose)
        for t in optable.kernel_types(op, "dtype"):
            narrow = {"float16": 5e-3, "bfloat16": 4e-2}.get(t, 5e-5)
            case(op,
                 t,
                 data(op, t, (1, 4, 4, 2), t, low=0, high=9),
                 array([transforms["turned"]], "float32"),
                 i32(4, 4),
                 *fill,
                 interpolation="BILINEAR",
                 rtol=narrow,
                 atol=narrow)
        one = array([transforms["same"]], "float32")
        plain = {"interpolation": "NEAREST"}
        case(op, "error/rank", x[0], one, i32(4, 4), *fill, error=True, **plain)
        case(op, "error/transforms", x, one[:, :7].copy(), i32(4, 4), *fill, error=True, **plain)
        case(op,
             "error/three_transforms",
             x,
             np.repeat(one, 3, 0),
             i32(4, 4),
             *fill,
             error=True,
             **plain)
        case(op, "error/size", x, one, i32(0, 4), *fill, error=True, **plain)


def _colors():
    def colors(op, name, shape, t="float32"):
        return values.ordinary(rng(op, name), shape, t, 0, 1)

    edges = [[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0],
             [0, 1, 1], [1, 0, 1], [0.2, 0.2, 0.7], [0.7, 0.2, 0.7]]
    for op in ("RGBToHSV", "HSVToRGB"):
        for t in optable.kernel_types(op):
            narrow = {"float16": 5e-3, "bfloat16": 4e-2}.get(t)
            loose = {"rtol": narrow, "atol": narrow} if narrow else {}
            case(op, t, colors(op, t, (2, 3, 4, 3), t), **loose)
            case(op, t + "/edges", array(edges, t), **loose)
        case(op, "vector", array([0.2, 0.6, 0.4], "float32"))
        case(op, "empty", np.zeros((0, 3), np.float32))
        case(op, "error/channels", np.zeros((2, 4), np.float32), error=True)
        case(op, "error/scalar", np.float32(1), error=True)
    loose = {"rtol": 2e-5, "atol": 2e-5}
    for op, factors in (("AdjustHue", (-1, -0.3, 0, 0.25, 0.5, 1)), ("AdjustSaturation",
                                                                      (0, 0.5, 1, 2.5)),
                        ("AdjustContrastv2", (-1, 0, 0.5, 1, 2))):
        x = colors(op, "x", (2, 3, 4, 3))
        for i, factor in enumerate(factors):
            case(op, "by_%d" % i, x, np.float32(factor), **loose)
        case(op, "one_image", x[0], np.float32(0.4), **loose)
        if op != "AdjustContrastv2":
            case(op, "edges", array([edges], "float32"), np.float32(0.4), **loose)
        case(op, "empty", x[:0], np.float32(0.4))
        case(op, "error/rank", x[0, 0], np.float32(0.4), error=True)
        case(op, "error/factor", x, array([0.4], "float32"), error=True)
        if op != "AdjustContrastv2":
            case(op, "error/channels", x[..., :2].copy(), np.float32(0.4), error=True)


def generate():
    _resizes()
    _scaled()
    _crops()
    _transforms()
    _colors()
