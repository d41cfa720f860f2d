"""Records programs: a graph, and steps that run on it in one session."""

import re

import numpy as np
from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2

from . import harness
from .base import array, tf, v1
from .harness import add_case, tolerance_lines
from .running import session_config, short
from .text import graph_lines, half_comment, one_line, quoted, tensor_proto


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
            lines.append('feed { name: "%s" tensor { %s } }' % (t.name, one_line(tensor_proto(a))))
            self._feeds.append(a)
        lines.extend('fetch: "%s"' % t.name for t in fetch)
        lines.extend('target: "%s"' % o.name for o in target)
        try:
            values = self.session.run([fetch, target], feed)[0]
            if error:
                harness.problems.append("%s %s: a step did not fail: %s" %
                                        (self.op, self.name, values))
            outputs = [
                np.asarray(v) if not isinstance(v, bytes) else array(v, "string") for v in values
            ]
        except tf.errors.OpError as e:
            if not error:
                harness.problems.append("%s %s: code %d %s" %
                                        (self.op, self.name, e.error_code, short(e.message)))
            code = e.error_code
            if code == 13:  # not a bug of ours: the variable is missing
                code = 9
                note += "; TensorFlow says Internal (13)"
            lines.append("error_code: %d" % code)
            harness.error_log.append("%s %s: code %d %s" %
                                     (self.op, self.name, e.error_code, short(e.message)))
        for i, a in enumerate(outputs):
            t = tensor_proto(np.zeros_like(a) if i in unchecked else a)
            lines.append("output { %s }%s" % (one_line(t), half_comment(t)))
        if unchecked:
            lines.append("unchecked_output: [%s]" % ", ".join(map(str, unchecked)))
        if note:
            lines.insert(0, "note: " + quoted(note))
        self._outputs.extend(outputs)
        self._steps.append(lines)
        return outputs

    def record(self):
        definition = self.graph.as_graph_def()
        _clean(definition)
        definition = _renamed(definition)
        lines = ["note: " + quoted(self.note)] if self.note else []
        lines.append("graph {")
        lines.extend(graph_lines(definition, "  "))
        lines.append("}")
        for step in self._steps:
            lines.append("step {")
            lines.extend("  " + line for line in step)
            lines.append("}")
        lines.extend(
            tolerance_lines(self._outputs, self._outputs + self._feeds, self.exact, self.rtol,
                            self.atol))
        if self.session:
            self.session.close()
        add_case(self.op, self.name, ["\n  ".join("\n".join(lines).split("\n"))])
