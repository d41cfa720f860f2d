"""Runs one node in TensorFlow: a graph of placeholders and the node, nothing optimized."""

import collections
import re

import numpy as np
from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.framework import graph_pb2
from tensorflow.core.framework import node_def_pb2
from tensorflow.python.framework import op_def_registry

from .base import dt, tf, type_of, v1
from .text import tensor_proto

INVALID_ARGUMENT = 3


def session_config():
    config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.use_per_session_threads = True
    return config


def attr_value(attr_def, value):
    a = attr_value_pb2.AttrValue()
    kind = attr_def.type
    if kind == "type":
        a.type = dt(value).as_datatype_enum
    elif kind == "int":
        a.i = value
    elif kind == "float":
        a.f = value
    elif kind == "bool":
        a.b = value
    elif kind == "string":
        a.s = value.encode() if isinstance(value, str) else value
    elif kind == "shape":
        a.shape.CopyFrom(tf.TensorShape(value).as_proto())
    elif kind == "tensor":
        a.tensor.CopyFrom(tensor_proto(value))
    elif kind == "list(int)":
        a.list.SetInParent()
        a.list.i.extend(value)
    elif kind == "list(float)":
        a.list.SetInParent()
        a.list.f.extend(value)
    elif kind == "list(type)":
        a.list.SetInParent()
        a.list.type.extend(dt(v).as_datatype_enum for v in value)
    elif kind == "list(shape)":
        a.list.SetInParent()
        a.list.shape.extend(tf.TensorShape(v).as_proto() for v in value)
    elif kind == "list(string)":
        a.list.SetInParent()
        a.list.s.extend(v.encode() for v in value)
    else:
        raise ValueError("attribute kind %s" % kind)
    return a


def node_def(op, inputs, attrs):
    """The NodeDef, with the type and number attributes that follow from the inputs."""
    definition = op_def_registry.get(op)
    attr_defs = {a.name: a for a in definition.attr}
    values = dict(attrs)
    flat = []
    if len(inputs) != len(definition.input_arg):
        raise ValueError("%s takes %d inputs, not %d" %
                         (op, len(definition.input_arg), len(inputs)))
    for arg, given in zip(definition.input_arg, inputs):
        if arg.type_list_attr:
            values.setdefault(arg.type_list_attr, [type_of(a) for a in given])
            flat.extend(given)
        elif arg.number_attr:
            values.setdefault(arg.number_attr, len(given))
            if arg.type_attr and given:
                values.setdefault(arg.type_attr, type_of(given[0]))
            flat.extend(given)
        else:
            if arg.type_attr:
                values.setdefault(arg.type_attr, type_of(given))
            flat.append(given)
    node = node_def_pb2.NodeDef(name="op", op=op)
    for name, value in values.items():
        if name not in attr_defs:
            raise ValueError("%s has no attribute %s" % (op, name))
        node.attr[name].CopyFrom(attr_value(attr_defs[name], value))
    return node, flat


def short(message):
    """TensorFlow's message without the stack of the Python program that made the node."""
    text = re.sub(r"(?s)Graph execution error:|Detected at node.*?\nNode:[^\n]*\n|Original stack.*",
                  "", message)
    return " ".join(text.split())[:250]


class Failed(Exception):
    """TensorFlow answered with an error."""

    def __init__(self, code, message):
        super().__init__("code %d: %s" % (code, short(message)))
        self.code = code


_session_cache = collections.OrderedDict()


def _session(node, flat):
    key = node.SerializeToString(deterministic=True) + repr([type_of(a) for a in flat]).encode()
    if key not in _session_cache:
        graph = tf.Graph()
        definition = graph_pb2.GraphDef()
        definition.versions.producer = 1986
        target = node_def_pb2.NodeDef()
        target.CopyFrom(node)
        for i, a in enumerate(flat):
            p = definition.node.add(name="in%d" % i, op="Placeholder")
            p.attr["dtype"].type = dt(type_of(a)).as_datatype_enum
            target.input.append("in%d" % i)
        definition.node.add().CopyFrom(target)
        with graph.as_default():
            try:
                tf.graph_util.import_graph_def(definition, name="")
            except ValueError as e:
                raise Failed(INVALID_ARGUMENT, str(e)) from e
        _session_cache[key] = (graph, v1.Session(graph=graph, config=session_config()))
        if len(_session_cache) > 20:
            _session_cache.popitem(last=False)[1][1].close()
    return _session_cache[key]


def run_node(node, flat):
    """The op's outputs, or Failed."""
    graph, session = _session(node, flat)
    op = graph.get_operation_by_name("op")
    feeds = {graph.get_tensor_by_name("in%d:0" % i): a for i, a in enumerate(flat)}
    try:
        if not op.outputs:
            session.run(op, feeds)
            return []
        return [np.asarray(o) for o in session.run(list(op.outputs), feeds)]
    except tf.errors.OpError as e:
        raise Failed(e.error_code, e.message) from e


def rejected_by_shapes(node, flat):
    """Whether shape inference, given constant inputs, already fails."""
    graph = tf.Graph()
    definition = graph_pb2.GraphDef()
    definition.versions.producer = 1986
    target = node_def_pb2.NodeDef()
    target.CopyFrom(node)
    for i, a in enumerate(flat):
        c = definition.node.add(name="in%d" % i, op="Const")
        c.attr["dtype"].type = dt(type_of(a)).as_datatype_enum
        c.attr["value"].tensor.CopyFrom(tensor_proto(a))
        target.input.append("in%d" % i)
    definition.node.add().CopyFrom(target)
    with graph.as_default():
        try:
            tf.graph_util.import_graph_def(definition, name="")
        except ValueError:
            return True
    return False
