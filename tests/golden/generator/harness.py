"""Records cases: the op, its inputs and what TensorFlow answered, as protobuf text.

Inputs come from generators seeded by op and case name, so that a new case leaves the others as
they are.
"""

import collections
import os
import re
import zlib

import numpy as np

from .base import tf, type_of
from .running import INVALID_ARGUMENT, Failed, node_def, rejected_by_shapes, run_node
from .text import half_comment, one_line, quoted, tensor_proto

# How far an answer may be from TensorFlow's, where floats are computed with: a few units in the
# last place of each type.
RTOL = {
    "float64": 1e-12,
    "float32": 5e-6,
    "float16": 2e-3,
    "bfloat16": 2e-2,
    "complex64": 1e-5,
    "complex128": 1e-11
}
ATOL = {
    "float64": 1e-13,
    "float32": 1e-6,
    "float16": 1e-3,
    "bfloat16": 1e-2,
    "complex64": 2e-6,
    "complex128": 1e-12
}

_files = collections.OrderedDict()  # op -> list of (name, text)
problems = []
error_log = []  # what TensorFlow said where an error was expected, for review


def rng(op, name):
    return np.random.RandomState(zlib.crc32(("%s/%s" % (op, name)).encode()))


def add_case(op, name, lines):
    if not re.fullmatch(r"[A-Za-z0-9_/]+", name):
        raise ValueError("case name %r" % name)
    cases = _files.setdefault(op, [])
    if any(n == name for n, _ in cases):
        problems.append("%s: two cases named %s" % (op, name))
        return
    text = "case {\n  name: \"%s\"\n%s\n}\n" % (name, "\n".join("  " + line for line in lines))
    cases.append((name, text))


def _number(x):
    return repr(float(x))


def default_tolerance(tensors):
    types = [type_of(t) for t in tensors]
    return (max([RTOL.get(t, 0) for t in types],
                default=0), max([ATOL.get(t, 0) for t in types], default=0))


def case(op,
         name,
         *inputs,
         error=False,
         exact=False,
         rtol=None,
         atol=None,
         note="",
         fragments=(),
         unchecked=(),
         **attrs):
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
            wrong = any(text in str(e) for text in ("No OpKernel was registered",
                                                    "not in the list of allowed values"))
            if not error or (wrong and error != "type"):
                problems.append("%s %s: %s" % (op, name, e))
                return None
            if code == 13:  # its word for what the caller did wrong
                code = INVALID_ARGUMENT
                note = (note + "; " if note else "") + "TensorFlow says Internal (13)"
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


def computed(op,
             name,
             inputs,
             outputs,
             note,
             exact=False,
             rtol=None,
             atol=None,
             unchecked=(),
             **attrs):
    """Records a case whose outputs were worked out from another run of TensorFlow."""
    node, flat = node_def(op, inputs, attrs)
    _record(op, name, node, flat, outputs, 0, False, (), note, exact, rtol, atol, unchecked)


def refused(op, name, inputs, note, fragments=(), **attrs):
    """Records an InvalidArgument without asking TensorFlow, which aborts the process there."""
    node, flat = node_def(op, inputs, attrs)
    _record(op, name, node, flat, None, INVALID_ARGUMENT, False, fragments, note, True, None, None,
            ())


def _record(op, name, node, flat, outputs, code, shapes, fragments, note, exact, rtol, atol,
            unchecked):
    lines = []
    if note:
        lines.append("note: " + quoted(note))
    lines.append("node { %s }" % one_line(node))
    for a in flat:
        t = tensor_proto(a)
        lines.append("input { %s }%s" % (one_line(t), half_comment(t)))
    if code:
        lines.append("error_code: %d" % code)
        if shapes:
            lines.append("rejected_by_shapes: true")
        lines.extend("error_fragment: " + quoted(f) for f in fragments)
    else:
        for i, a in enumerate(outputs):
            # What is not checked may be anything, even memory that nobody wrote.
            t = tensor_proto(np.zeros_like(a) if i in unchecked else a)
            lines.append("output { %s }%s" % (one_line(t), half_comment(t)))
        lines.extend(tolerance_lines(outputs, flat + outputs, exact, rtol, atol))
        if unchecked:
            lines.append("unchecked_output: [%s]" % ", ".join(map(str, unchecked)))
    add_case(op, name, lines)


def tolerance_lines(outputs, tensors, exact, rtol, atol):
    if exact or not any(type_of(o) in RTOL for o in outputs):
        return []
    r, a = default_tolerance(tensors)
    r = r if rtol is None else rtol
    a = a if atol is None else atol
    return (["rtol: " + _number(r)] if r else []) + (["atol: " + _number(a)] if a else [])


def write(directory):
    """Writes one file for each op that has cases; returns {op: number of cases}."""
    for op, cases in _files.items():
        with open(os.path.join(directory, op + ".textproto"), "w", encoding="utf-8") as f:
            f.write("# proto-file: tests/golden/golden.proto\n"
                    "# proto-message: tandem.testing.GoldenFile\n"
                    "# Written by tests/golden/generate.py with TensorFlow %s.\n\n" %
                    tf.__version__)
            f.write("\n".join(text for _, text in cases))
    return {op: len(cases) for op, cases in _files.items()}
