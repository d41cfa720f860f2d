"""Runs one case in TensorFlow and records inputs and answers as protobuf text.

Every op runs by itself: a graph of placeholders and one node, no graph optimizer, one thread,
oneDNN off. Inputs come from generators seeded by op and case name, so that a new case leaves
the others as they are.
"""

import collections
import os
import re
import zlib

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from google.protobuf import text_format  # noqa: E402
from tensorflow.core.framework import attr_value_pb2  # noqa: E402
from tensorflow.core.framework import graph_pb2  # noqa: E402
from tensorflow.core.framework import node_def_pb2  # noqa: E402
from tensorflow.core.framework import tensor_pb2  # noqa: E402
from tensorflow.python.framework import op_def_registry  # noqa: E402

v1 = tf.compat.v1
v1.disable_eager_execution()

INVALID_ARGUMENT = 3


def dt(name):
    return tf.as_dtype(name)


def array(values, dtype):
    """A numpy array of a TensorFlow dtype given by name."""
    if dtype == "string":
        a = np.empty(np.shape(values), dtype=object)
        a[...] = np.array(values, dtype=object)
        return a
    return np.array(values).astype(dt(dtype).as_numpy_dtype)


def type_of(a):
    return "string" if a.dtype == object else dt(a.dtype).name


# How far an answer may be from TensorFlow's, where floats are computed with: a few units in the
# last place of each type.
RTOL = {"float64": 1e-12, "float32": 5e-6, "float16": 2e-3, "bfloat16": 2e-2,
        "complex64": 1e-5, "complex128": 1e-11}
ATOL = {"float64": 1e-13, "float32": 1e-6, "float16": 1e-3, "bfloat16": 1e-2,
        "complex64": 2e-6, "complex128": 1e-12}


# --- tensors as text ------------------------------------------------------------------------

_FIELD = {"float32": "float_val", "float64": "double_val", "int64": "int64_val",
          "bool": "bool_val", "string": "string_val", "uint32": "uint32_val",
          "uint64": "uint64_val"}


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


def _line(message):
    return text_format.MessageToString(message, as_one_line=True,
                                       use_short_repeated_primitives=True).strip()


def _half_comment(t):
    """Halves are written as bits; a comment gives the values."""
    if not t.half_val or len(t.half_val) > 64:
        return ""
    bits = np.array(list(t.half_val), dtype=np.uint16)
    values = bits.view(dt("float16" if t.dtype == dt("float16").as_datatype_enum
                          else "bfloat16").as_numpy_dtype)
    return "  # " + " ".join("%.4g" % float(v) for v in values)


def _graph_lines(graph, indent):
    lines = []
    for node in graph.node:
        lines.append("%snode { %s }" % (indent, _line(node)))
    if graph.library.function:
        lines.append(indent + "library {")
    for function in graph.library.function:
        lines.append("%s  function {" % indent)
        lines.append("%s    signature { %s }" % (indent, _line(function.signature)))
        for node in function.node_def:
            lines.append("%s    node_def { %s }" % (indent, _line(node)))
        rest = type(function)()
        rest.CopyFrom(function)
        rest.ClearField("signature")
        rest.ClearField("node_def")
        lines.append("%s    %s" % (indent, _line(rest)))
        lines.append("%s  }" % indent)
    for gradient in graph.library.gradient:
        lines.append("%s  gradient { %s }" % (indent, _line(gradient)))
    if graph.library.function:
        lines.append(indent + "}")
    lines.append("%sversions { producer: %d }" % (indent, graph.versions.producer))
    return lines


# --- running --------------------------------------------------------------------------------

def session_config():
    config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.use_per_session_threads = True
    return config


def _attr(attr_def, value):
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
        raise ValueError("%s takes %d inputs, not %d" % (op, len(definition.input_arg), len(inputs)))
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
        node.attr[name].CopyFrom(_attr(attr_defs[name], value))
    return node, flat


def short(message):
    """TensorFlow's message without the stack of the Python program that made the node."""
    text = re.sub(r"(?s)Graph execution error:|Detected at node.*?\nNode:[^\n]*\n|Original stack.*", "",
                  message)
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


# --- recording ------------------------------------------------------------------------------

_files = collections.OrderedDict()  # op -> list of (name, text)
problems = []
error_log = []  # what TensorFlow said where an error was expected, for review


def rng(op, name):
    return np.random.RandomState(zlib.crc32(("%s/%s" % (op, name)).encode()))


def _add(op, name, lines):
    if not re.fullmatch(r"[A-Za-z0-9_/]+", name):
        raise ValueError("case name %r" % name)
    cases = _files.setdefault(op, [])
    if any(n == name for n, _ in cases):
        problems.append("%s: two cases named %s" % (op, name))
        return
    text = "case {\n  name: \"%s\"\n%s\n}\n" % (name, "\n".join("  " + line for line in lines))
    cases.append((name, text))


def _quoted(text):
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"')


def _number(x):
    return repr(float(x))


def default_tolerance(tensors):
    types = [type_of(t) for t in tensors]
    return (max([RTOL.get(t, 0) for t in types], default=0),
            max([ATOL.get(t, 0) for t in types], default=0))


def case(op, name, *inputs, error=False, exact=False, rtol=None, atol=None, note="",
         fragments=(), unchecked=(), **attrs):
    """Runs `op` and records the case; returns the outputs.

    inputs     one array for each argument, a list of arrays for a list argument
    error      an error is expected; "type": that there is no kernel for the type
    exact      no tolerance even for floats
    rtol, atol the tolerance; else that of the least exact float type among inputs and outputs
    attrs      attributes other than those which follow from the inputs
    """
    try:
        node, flat = node_def(op, inputs, attrs)
        outputs, code = None, 0
        try:
            outputs = run_node(node, flat)
        except Failed as e:
            code = e.code
            error_log.append("%s %s: %s" % (op, name, e))
            wrong = any(text in str(e) for text in
                        ("No OpKernel was registered", "not in the list of allowed values"))
            if not error or (wrong and error != "type"):
                problems.append("%s %s: %s" % (op, name, e))
                return None
        shapes = error and rejected_by_shapes(node, flat)
        if error and not code:
            if not shapes:
                problems.append("%s %s: no error, but %s" % (op, name, outputs))
                return None
            code = INVALID_ARGUMENT
            outputs = None
    except ValueError as e:
        problems.append("%s %s: %s" % (op, name, e))
        return None
    _record(op, name, node, flat, outputs, code, shapes, fragments, note, exact, rtol, atol,
            unchecked)
    return outputs


def computed(op, name, inputs, outputs, note, exact=False, rtol=None, atol=None, **attrs):
    """Records a case whose outputs were worked out from another run of TensorFlow."""
    node, flat = node_def(op, inputs, attrs)
    _record(op, name, node, flat, outputs, 0, False, (), note, exact, rtol, atol, ())


def refused(op, name, inputs, note, fragments=(), **attrs):
    """Records an InvalidArgument without asking TensorFlow, which aborts the process there."""
    node, flat = node_def(op, inputs, attrs)
    _record(op, name, node, flat, None, INVALID_ARGUMENT, False, fragments, note, True, None, None,
            ())


def _record(op, name, node, flat, outputs, code, shapes, fragments, note, exact, rtol, atol,
            unchecked):
    lines = []
    if note:
        lines.append("note: " + _quoted(note))
    lines.append("node { %s }" % _line(node))
    for a in flat:
        t = tensor_proto(a)
        lines.append("input { %s }%s" % (_line(t), _half_comment(t)))
    if code:
        lines.append("error_code: %d" % code)
        if shapes:
            lines.append("rejected_by_shapes: true")
        lines.extend("error_fragment: " + _quoted(f) for f in fragments)
    else:
        for a in outputs:
            t = tensor_proto(a)
            lines.append("output { %s }%s" % (_line(t), _half_comment(t)))
        lines.extend(_tolerance_lines(outputs, flat + outputs, exact, rtol, atol))
        if unchecked:
            lines.append("unchecked_output: [%s]" % ", ".join(map(str, unchecked)))
    _add(op, name, lines)


def _tolerance_lines(outputs, tensors, exact, rtol, atol):
    if exact or not any(type_of(o) in RTOL for o in outputs):
        return []
    r, a = default_tolerance(tensors)
    r = r if rtol is None else rtol
    a = a if atol is None else atol
    return (["rtol: " + _number(r)] if r else []) + (["atol: " + _number(a)] if a else [])


# --- programs -------------------------------------------------------------------------------

def _clean(graph):
    """Drops what only the Python client puts in: debug information and full types."""
    def clean_node(node):
        node.ClearField("experimental_type")
        node.ClearField("experimental_debug_info")
        for key in list(node.attr):
            if key in ("_output_shapes", "_has_manual_control_dependencies", "_gradient_op_type"):
                del node.attr[key]
    for node in graph.node:
        clean_node(node)
    for function in graph.library.function:
        for node in function.node_def:
            clean_node(node)
        for arg in list(function.signature.input_arg) + list(function.signature.output_arg):
            arg.ClearField("experimental_full_type")
            arg.ClearField("handle_data")
        for attrs in function.arg_attr.values():
            if "_output_shapes" in attrs.attr:
                del attrs.attr["_output_shapes"]


def _renamed(graph):
    """Gives functions names that do not depend on how many were made before in this process."""
    def serial(function):
        number = re.search(r"_(\d+)$", function.signature.name)
        return (int(number.group(1)) if number else 0, function.signature.name)
    functions = sorted(graph.library.function, key=serial)
    graph.library.ClearField("function")
    graph.library.function.extend(functions)
    names = {}
    for function in graph.library.function:
        old = function.signature.name
        base = re.sub(r"_\d+", "", old.removeprefix("__inference_"))
        if re.search(r"_\d+", old):
            names[old] = "%s_f%d" % (base, len(names))
    if not names:
        return graph
    text = re.sub(r"_\d+___redundant", "___redundant", text_format.MessageToString(graph))
    pattern = re.compile('"(%s)"' % "|".join(re.escape(n) for n in names))
    return text_format.Parse(pattern.sub(lambda m: '"%s"' % names[m.group(1)], text),
                             graph_pb2.GraphDef())


class Program:
    """A graph and the steps that run on it. Build with `with program:`, then call step()."""

    def __init__(self, op, name, *, exact=False, rtol=None, atol=None, note=""):
        self.op, self.name, self.note = op, name, note
        self.exact, self.rtol, self.atol = exact, rtol, atol
        self.graph = tf.Graph()
        self.session = None
        self._steps, self._outputs, self._feeds = [], [], []

    def __enter__(self):
        self._scope = self.graph.as_default()
        self._scope.__enter__()
        return self

    def __exit__(self, *exc):
        self._scope.__exit__(*exc)

    def step(self, fetch=(), feed=None, target=(), error=False, unchecked=(), note=""):
        """Runs one step; returns the fetched values."""
        if self.session is None:
            self.session = v1.Session(graph=self.graph, config=session_config())
        fetch = [fetch] if not isinstance(fetch, (list, tuple)) else list(fetch)
        target = [target] if not isinstance(target, (list, tuple)) else list(target)
        feed = dict(feed or {})
        lines, outputs = [], []
        for t, a in feed.items():
            a = a if isinstance(a, np.ndarray) else array(a, t.dtype.base_dtype.name)
            feed[t] = a
            lines.append('feed { name: "%s" tensor { %s } }' % (t.name, _line(tensor_proto(a))))
            self._feeds.append(a)
        lines.extend('fetch: "%s"' % t.name for t in fetch)
        lines.extend('target: "%s"' % o.name for o in target)
        try:
            values = self.session.run([fetch, target], feed)[0]
            if error:
                problems.append("%s %s: a step did not fail: %s" % (self.op, self.name, values))
            outputs = [np.asarray(v) if not isinstance(v, bytes) else array(v, "string")
                       for v in values]
        except tf.errors.OpError as e:
            if not error:
                problems.append("%s %s: code %d %s" % (self.op, self.name, e.error_code, short(e.message)))
            code = e.error_code
            if code == 13:  # not a bug of ours: the variable is missing
                code = 9
                note += "; TensorFlow says Internal (13)"
            lines.append("error_code: %d" % code)
            error_log.append("%s %s: code %d %s" % (self.op, self.name, e.error_code,
                                                    short(e.message)))
        for a in outputs:
            t = tensor_proto(a)
            lines.append("output { %s }%s" % (_line(t), _half_comment(t)))
        if unchecked:
            lines.append("unchecked_output: [%s]" % ", ".join(map(str, unchecked)))
        if note:
            lines.insert(0, "note: " + _quoted(note))
        self._outputs.extend(outputs)
        self._steps.append(lines)
        return outputs

    def record(self):
        definition = self.graph.as_graph_def()
        _clean(definition)
        definition = _renamed(definition)
        lines = ["note: " + _quoted(self.note)] if self.note else []
        lines.append("graph {")
        lines.extend(_graph_lines(definition, "  "))
        lines.append("}")
        for step in self._steps:
            lines.append("step {")
            lines.extend("  " + line for line in step)
            lines.append("}")
        lines.extend(_tolerance_lines(self._outputs, self._outputs + self._feeds, self.exact,
                                      self.rtol, self.atol))
        if self.session:
            self.session.close()
        _add(self.op, self.name, ["\n  ".join("\n".join(lines).split("\n"))])


def write(directory):
    """Writes one file for each op that has cases; returns {op: number of cases}."""
    for op, cases in _files.items():
        with open(os.path.join(directory, op + ".textproto"), "w", encoding="utf-8") as f:
            f.write("# proto-file: tests/golden/golden.proto\n"
                    "# proto-message: tandem.testing.GoldenFile\n"
                    "# Written by tests/golden/generate.py with TensorFlow %s.\n\n" % tf.__version__)
            f.write("\n".join(text for _, text in cases))
    return {op: len(cases) for op, cases in _files.items()}
