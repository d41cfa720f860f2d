"""Tensors and graphs as protobuf text: one message a line, one value for each element."""

import numpy as np
from google.protobuf import text_format
from tensorflow.core.framework import tensor_pb2

from .base import dt, type_of

_FIELD = {
    "float32": "float_val",
    "float64": "double_val",
    "int64": "int64_val",
    "bool": "bool_val",
    "string": "string_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val"
}


def tensor_proto(a):
    """`a` as a TensorProto with one typed value for each element."""
    a = np.asarray(a)
    name = type_of(a)
    t = tensor_pb2.TensorProto(dtype=dt(name).as_datatype_enum)
    t.tensor_shape.SetInParent()
    for size in a.shape:
        t.tensor_shape.dim.add(size=size)
    flat = a.reshape(-1)
    if name == "string":
        t.string_val.extend(v if isinstance(v, bytes) else v.encode() for v in flat)
    elif name in ("float16", "bfloat16"):
        t.half_val.extend(int(v) for v in flat.view(np.uint16))
    elif name == "complex64":
        t.scomplex_val.extend(flat.view(np.float32).tolist())
    elif name == "complex128":
        t.dcomplex_val.extend(flat.view(np.float64).tolist())
    else:
        getattr(t, _FIELD.get(name, "int_val")).extend(flat.tolist())
    return t


def one_line(message):
    return text_format.MessageToString(message,
                                       as_one_line=True,
                                       use_short_repeated_primitives=True).strip()


def half_comment(t):
    """Halves are written as bits; a comment gives the values."""
    if not t.half_val or len(t.half_val) > 64:
        return ""
    bits = np.array(list(t.half_val), dtype=np.uint16)
    values = bits.view(
        dt("float16" if t.dtype == dt("float16").as_datatype_enum else "bfloat16").as_numpy_dtype)
    return "  # " + " ".join("%.4g" % float(v) for v in values)


def graph_lines(graph, indent):
    lines = []
    for node in graph.node:
        lines.append("%snode { %s }" % (indent, one_line(node)))
    if graph.library.function:
        lines.append(indent + "library {")
    for function in graph.library.function:
        lines.append("%s  function {" % indent)
        lines.append("%s    signature { %s }" % (indent, one_line(function.signature)))
        for node in function.node_def:
            lines.append("%s    node_def { %s }" % (indent, one_line(node)))
        rest = type(function)()
        rest.CopyFrom(function)
        rest.ClearField("signature")
        rest.ClearField("node_def")
        lines.append("%s    %s" % (indent, one_line(rest)))
        lines.append("%s  }" % indent)
    for gradient in graph.library.gradient:
        lines.append("%s  gradient { %s }" % (indent, one_line(gradient)))
    if graph.library.function:
        lines.append(indent + "}")
    lines.append("%sversions { producer: %d }" % (indent, graph.versions.producer))
    return lines


def quoted(text):
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"')
