#!/usr/bin/env bash
# run_with_servers.sh PROGRAM PATTERN… [-- ARGUMENT…]: runs PROGRAM as a job of two parameter servers, two
# workers and a chief. All end with 0, and the chief prints a line that matches each pattern (grep -E);
# the others print nothing to stdout.
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

# An address of this test's own.
host=127.$((16 + RANDOM % 200)).$((RANDOM % 256)).$((1 + RANDOM % 254))
cluster="{\"chief\": [\"$host:20000\"], \"ps\": [\"$host:20001\", \"$host:20002\"],
          \"worker\": [\"$host:20003\", \"$host:20004\"]}"
config() { printf '{"cluster": %s, "task": {"type": "%s", "index": %d}}' "$cluster" "$1" "$2"; }
folder=$(mktemp -d "${TEST_TMPDIR:-/tmp}/servers.XXXXXX")
pids=()
trap '((${#pids[@]} == 0)) || kill -KILL "${pids[@]}" 2>/dev/null; rm -rf "$folder"' EXIT
unset TANDEM_STRATEGY TANDEM_RENDEZVOUS TANDEM_WORKERS

for task in ps:0 ps:1 worker:0 worker:1; do
  TF_CONFIG=$(config "${task%:*}" "${task#*:}") "$program" "$@" >"$folder/$task" 2>"$folder/$task.err" &
  pids+=($!)
done
output=$(TF_CONFIG=$(config chief 0) timeout 200 "$program" "$@") || {
  echo "the chief ended with $?; a server: $(cat "$folder"/*.err)" >&2
  exit 1
}
printf '%s\n' "$output"
for pattern in "${patterns[@]}"; do
  if ! grep -qE -- "$pattern" <<<"$output"; then
    echo "no line matches '$pattern'" >&2
    exit 1
  fi
done
for pid in "${pids[@]}"; do
  timeout 60 tail --pid="$pid" -f /dev/null || { echo "process $pid does not end" >&2; exit 1; }
  wait "$pid" || { echo "process $pid ended with $?: $(cat "$folder"/*.err)" >&2; exit 1; }
done
pids=()
if [[ -n $(cat "$folder"/ps:? "$folder"/worker:?) ]]; then
  echo "a server or worker printed: $(cat "$folder"/ps:? "$folder"/worker:?)" >&2
  exit 1
fi
