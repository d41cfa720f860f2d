"""The op table (tests/op_table/ops.tsv): which ops are due and on which types they run."""

import collections
import os
import re

_PATH = os.path.join(os.path.dirname(__file__), "..", "..", "op_table", "ops.tsv")

FLOATS = ["float32", "float64", "float16", "bfloat16"]
COMPLEX = ["complex64", "complex128"]
SIGNED = ["int32", "int64", "int8", "int16"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTS = SIGNED + UNSIGNED
NUMBERS = FLOATS + COMPLEX + INTS
ALL = NUMBERS + ["bool", "string"]

Row = collections.namedtuple("Row", "tier op inputs outputs attrs kernels gradient stateful")


def _read():
    rows = {}
    with open(_PATH, encoding="utf-8") as f:
        next(f)
        for line in f:
            row = Row(*line.rstrip("\n").split("\t"))
            rows[row.op] = row
    return rows


ROWS = _read()
TIER1 = [op for op, row in ROWS.items() if row.tier == "1"]


def _in_order(names):
    return [t for t in ALL if t in names]


def kernel_types(op, attr="T"):
    """The types of `attr` for which TensorFlow has a CPU kernel, floats first.

    For a kernel without a constraint on it: the types that the op definition allows.
    """
    row = ROWS[op]
    allowed = re.search(r"(?:^|; )%s:type\{([^}]*)\}" % attr, row.attrs)
    allowed = _in_order(allowed.group(1).split(",")) if allowed else list(ALL)
    kernels = re.search(r"(?:^|; )%s∈([^;]*)" % attr, row.kernels)
    if not kernels:
        return allowed
    return [t for t in allowed if t in kernels.group(1).split(",")]
