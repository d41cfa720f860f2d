#!/usr/bin/env python3
"""Writes data/<Op>.textproto: what TensorFlow answers for every op of tier 1.

  tests/golden/setup_venv.sh
  ~/.cache/tandem/venv-tf/bin/python tests/golden/generate.py [FAMILY ...]

Without arguments all families are written and the list of ops is compared with
tests/op_table/ops.tsv. Two runs write the same bytes.
"""

import argparse
import glob
import importlib
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from generator import harness, optable  # noqa: E402

# One module for each family of ops, in generator/.
FAMILIES = [
    "unary", "binary", "reduction", "array", "indexing", "convolution", "nn", "state", "optimizer",
    "random_ops", "control_flow", "functions", "lists_queues", "stacks_arrays",
    "einsum", "special", "image", "volume", "spaces", "transforms",
    "strings", "lookup", "counting", "sparse"
]


def check_text(data):
    """Parses every file with protoc, if there is one."""
    if not shutil.which("protoc"):
        return
    root = os.path.join(HERE, "..", "..")
    command = [
        "protoc", "-I", root, "--encode=tandem.testing.GoldenFile", "tests/golden/golden.proto"
    ]
    for path in sorted(glob.glob(os.path.join(data, "*.textproto"))):
        with open(path, "rb") as f:
            done = subprocess.run(command, stdin=f, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, check=False, cwd=root)
        if done.returncode:
            harness.problems.append("%s: %s" % (path, done.stderr.decode().strip()[:500]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", choices=[[]] + FAMILIES, metavar="FAMILY")
    parser.add_argument("--errors", help="a file for TensorFlow's messages of all error cases")
    args = parser.parse_args()
    data = os.path.join(HERE, "data")
    os.makedirs(data, exist_ok=True)
    for family in args.families or FAMILIES:
        start = time.time()
        importlib.import_module("generator." + family).generate()
        print("%-14s %5.1f s" % (family, time.time() - start), flush=True)
    counts = harness.write(data)
    check_text(data)
    print("%d cases of %d ops" % (sum(counts.values()), len(counts)))
    if not args.families:
        missing = [op for op in optable.TIER1 if op not in counts]
        if missing:
            harness.problems.append("no case for: " + " ".join(missing))
    if args.errors:
        with open(args.errors, "w", encoding="utf-8") as f:
            f.write("\n".join(harness.error_log) + "\n")
    for problem in harness.problems:
        print("PROBLEM", problem)
    return 1 if harness.problems else 0


if __name__ == "__main__":
    sys.exit(main())
