#!/usr/bin/env bash
# full_disk_test.sh DEMO TANDEM GRAPH: a disk that is full is an error with a message and a code, not a
# success, and not a crash. /dev/full refuses every write.
set -uo pipefail

demo=$1
tandem=$2
graph=$3

expect_failure() {
  local code=$1 message=$2
  if ((code == 0 || code > 125)); then
    echo "the program ended with $code" >&2
    exit 1
  fi
  if ! grep -q "No space left" <<<"$message"; then
    echo "the message does not say what is wrong: $message" >&2
    exit 1
  fi
}

message=$("$demo" --model=mlp --epochs=1 --batch_size=6000 --data=tools/datasets/mnist 2>&1 >/dev/full)
expect_failure $? "$message"

message=$("$tandem" run "$graph" --fetch=y --trace=/dev/full 2>&1 >/dev/null)
expect_failure $? "$message"

message=$("$tandem" ops 2>&1 >/dev/full)
expect_failure $? "$message"
echo "a full disk is reported"
