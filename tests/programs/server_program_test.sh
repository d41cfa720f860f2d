#!/usr/bin/env bash
# server_program_test.sh TANDEM_SERVER
set -uo pipefail

server=$1
unset TF_CONFIG TANDEM_DEVICES

fail() {
  echo "server_program_test: $*" >&2
  exit 1
}

# Starts the server in the background; its first line goes to $line, its number to $pid.
start() {
  exec {out}< <(exec "$server" "$@" 2>/dev/null & echo $!; wait $!; echo "code $?")
  read -r -t 60 pid <&"$out" || fail "no process"
  read -r -t 60 line <&"$out" || fail "the server said nothing"
}

# The code with which it ended.
ending() {
  local word code
  read -r -t 60 word code <&"$out" || fail "the server did not end"
  [[ $word == code ]] || fail "it said more: $word $code"
  echo "$code"
}

start
[[ $line == "serving /job:worker/task:0 at grpc://localhost:"* ]] || fail "said: $line"
port=${line##*:}
# A port that is taken is an error.
message=$("$server" --port="$port" 2>&1 >/dev/null) && fail "two servers on port $port"
grep -q "cannot listen.*the port is taken" <<<"$message" || fail "said: $message"
[[ $(wc -l <<<"$message") == 1 ]] || fail "somebody else said something: $message"
kill -TERM "$pid"
code=$(ending)
[[ $code == 0 ]] || fail "an idle server ended with $code"

export TF_CONFIG='{"cluster": {"trainer": ["localhost:0"]}, "task": {"type": "trainer", "index": 0}}'
start
[[ $line == "serving /job:trainer/task:0 at "* ]] || fail "said: $line"
kill -INT "$pid"
code=$(ending)
[[ $code == 0 ]] || fail "an idle server ended with $code"
unset TF_CONFIG

# Of two tasks it is the first one when nothing says which, and says so.
start --cluster='{"worker": ["localhost:0", "localhost:1"]}'
[[ $line == "serving /job:worker/task:0 at "*" (of 2 tasks of the job; nothing says which"* ]] ||
  fail "said: $line"
kill -TERM "$pid"
ending >/dev/null
start --cluster='{"worker": ["localhost:0", "localhost:1"]}' --task=0
[[ $line != *"nothing says which"* ]] || fail "said: $line"
kill -TERM "$pid"
ending >/dev/null

# The terminal goes away.
start
kill -HUP "$pid"
code=$(ending)
[[ $code == 0 ]] || fail "an idle server whose terminal went away ended with $code"

# Without standard streams, nothing that the server opens takes their numbers.
"$server" --port=0 <&- >&- 2>&- &
pid=$!
timeout 60 bash -c 'until [[ -e /proc/$0/fd/5 ]]; do :; done' "$pid" || fail "it opened nothing"
for number in 0 1 2; do
  [[ $(readlink "/proc/$pid/fd/$number") == /dev/null ]] ||
    fail "stream $number is $(readlink "/proc/$pid/fd/$number")"
done
kill -TERM "$pid"
wait "$pid" || fail "without standard streams it ended with $?"

expect() { # expect CODE MESSAGE ARGUMENT…
  local wanted=$1 part=$2
  shift 2
  local message
  message=$("$server" "$@" 2>&1 >/dev/null)
  local got=$?
  [[ $got == "$wanted" ]] || fail "$*: ended with $got: $message"
  grep -qF -- "$part" <<<"$message" || fail "$*: said: $message"
}
expect 2 'cluster.worker[0]' --cluster='{"worker": ["localhost"]}'
expect 1 '/there/is/none' --cluster=/there/is/none
expect 2 'no task 3' --cluster='{"worker": ["localhost:0"]}' --task=3
expect 2 'nonsense at all' --bind='nonsense at all'
expect 2 'no interface' --bind=192.0.2.1 --insecure
expect 1 '--insecure' --cluster='{"worker": ["192.0.2.1:0"]}'
expect 2 'TPU' --devices=TPU:1
expect 2 '70000' --port=70000
expect 2 'cannot be negative' --start_timeout=-1s
expect 2 "there is no flag --prot. Did you mean 'port'?" --prot=1
expect 2 'tandem_server: --port=x' --port=x
# Messages say where the configuration came from.
expect 2 'tandem_server: --cluster: ' --cluster='{"worker": ["localhost"]}'
file=$(mktemp)
echo '{"worker": ["localhost"]}' >"$file"
expect 2 "tandem_server: file '$file' (--cluster): " --cluster="$file"
rm "$file"
TF_CONFIG='{"worker": ["localhost"]}' expect 2 'tandem_server: TF_CONFIG: '
# Nobody would learn the port.
message=$("$server" --port=0 2>&1 >/dev/full) && fail "it serves though nobody learns where"
grep -q 'No space left' <<<"$message" || fail "a full disk: said: $message"

help=$("$server" --help) || fail "--help ended with $?"
grep -q 'tf.compat.v1.Session' <<<"$help" || fail "--help teaches nothing"
grep -q -- '--grace' <<<"$help" || fail "--help names no flags"
[[ $("$server" --version) == "tandem_server "[0-9]* ]] || fail "--version says no version"
echo "the server keeps to its promises"
