#!/usr/bin/env bash
# server_start_test.sh TANDEM TANDEM_SERVER
# A server serves before it has made anything that it may not need.
set -uo pipefail

tandem=$1
server=$2
unset TF_CONFIG TANDEM_DEVICES

fail() {
  echo "server_start_test: $*" >&2
  exit 1
}

# What the limit leaves free is taken by the libraries' own start.
most_kilobytes=40960

exec {out}< <(exec "$server" 2>/dev/null & echo $!; wait $!)
read -r -t 60 pid <&"$out" || fail "no process"
trap 'kill -KILL "$pid" 2>/dev/null' EXIT
read -r -t 60 line <&"$out" || fail "the server said nothing"
[[ $line == "serving /job:worker/task:0 at grpc://localhost:"* ]] || fail "said: $line"
port=${line##*:}

field() { # field NAME: of the process's status
  sed -n "s/^$1:[[:space:]]*\([0-9]*\).*/\1/p" "/proc/$pid/status"
}

"$tandem" ping "grpc://127.0.0.1:$port" >/dev/null || fail "it does not answer"
kilobytes=$(field VmRSS)
[[ $kilobytes -lt $most_kilobytes ]] || fail "it takes $kilobytes KiB before its first graph"
# Threads that compute are started by steps.
names=$(cat /proc/"$pid"/task/*/comm)
grep -q '^tandem-exec' <<<"$names" && fail "it has threads for steps: $names"
kill -TERM "$pid"
read -r -t 60 line <&"$out" && fail "it said more: $line"
echo "the server starts with $kilobytes KiB"
