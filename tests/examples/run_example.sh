#!/usr/bin/env bash
# run_example.sh PROGRAM PATTERN… [-- ARGUMENT…]: runs PROGRAM with the arguments; it must end with 0 and
# print a line that matches each pattern (grep -E).
set -euo pipefail

program=$1
shift
patterns=()
while (($# > 0)); do
  if [[ $1 == -- ]]; then
    shift
    break
  fi
  patterns+=("$1")
  shift
done

output=$("$program" "$@")
printf '%s\n' "$output"
for pattern in "${patterns[@]}"; do
  if ! grep -qE -- "$pattern" <<<"$output"; then
    echo "no line matches '$pattern'" >&2
    exit 1
  fi
done
