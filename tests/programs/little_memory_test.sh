#!/usr/bin/env bash
# little_memory_test.sh TANDEM GRAPH: with room for the values of a Softmax of 60 million numbers
# (0.24 GB each), and not for what it computes between them, the step fails and says where.
set -uo pipefail

tandem=$1
graph=$2

message=$(
  ulimit -v 600000
  TANDEM_NUM_THREADS=1 "$tandem" run "$graph" --target=y 2>&1 >/dev/null
)
code=$?
if ((code != 1)); then
  echo "the program ended with $code: $message" >&2
  exit 1
fi
if ! grep -q "no memory .*{{node y}}" <<<"$message"; then
  echo "the message does not say what is wrong: $message" >&2
  exit 1
fi
echo "the step failed, the program did not crash"
