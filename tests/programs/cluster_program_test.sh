#!/usr/bin/env bash
# cluster_program_test.sh TANDEM TANDEM_SERVER TWO_JOBS_GRAPH
# A cluster of real processes: started, used, killed, ended.
set -uo pipefail

tandem=$1
server=$2
graph=$3
unset TF_CONFIG TANDEM_DEVICES

fail() {
  echo "cluster_program_test: $*" >&2
  exit 1
}

# Starts worker:2,ps:1 in the background; $pid_of and $port_of know its tasks, $local the starter.
declare -A pid_of port_of
start() {
  exec {out}< <(exec "$tandem" local --jobs=worker:2,ps:1 --server="$server" 2>&1 & echo $!; wait $!; echo "code $?")
  read -r -t 60 local <&"$out" || fail "no process"
  local word task pid port
  for _ in 1 2 3; do
    read -r -t 60 word task _ pid _ port <&"$out" || fail "it started nothing"
    [[ $word == started ]] || fail "said: $word $task $pid $port"
    pid_of[$task]=$pid
    port_of[$task]=$port
  done
  for task in worker:0 worker:1 ps:0; do
    timeout 60 bash -c 'until "$0" ping "grpc://127.0.0.1:$1" >/dev/null 2>&1; do :; done' \
      "$tandem" "${port_of[$task]}" || fail "$task does not answer"
  done
  target=grpc://127.0.0.1:${port_of[worker:0]}
}

# Reads what the starter says to its end; its code goes to $code, the lines before to $said.
finish() {
  said=
  local line
  while read -r -t 60 line <&"$out"; do
    if [[ $line == "code "* ]]; then
      code=${line#code }
      return
    fi
    said+=$line$'\n'
  done
  fail "it did not end; said: $said"
}

all_gone() {
  for task in worker:0 worker:1 ps:0; do
    kill -0 "${pid_of[$task]}" 2>/dev/null && fail "$task lives on"
  done
}

start
"$tandem" ping "$target" | grep -q "/job:worker/replica:0/task:0, 1 device" || fail "ping"
[[ $("$tandem" devices --target="$target" | grep -c "/device:CPU:0") == 3 ]] || fail "devices"
result=$("$tandem" run "$graph" --target="$target" --feed x=4 --fetch negative) ||
  fail "the graph does not run"
grep -q -- "-4" <<<"$result" || fail "said: $result"
result=$("$tandem" submit "$graph" --target="$target" --init=start --step=next --steps=20 \
  --fetch=counted) || fail "submit"
grep -q "20 steps in .*counted: .*= 21" <<<"$result" || fail "said: $result"
message=$("$tandem" submit "$graph" --target="$target" --step=next --filter=/job:nosuch 2>&1) &&
  fail "a filter that fits no task was taken"
grep -q "'/job:nosuch' fits none of .*/job:ps/.*, /job:worker/.*/task:1" <<<"$message" ||
  fail "said: $message"
"$tandem" reset "$target" || fail "reset"

# A step that waits for a task that is stopped, or killed, ends, and the task is named.
for signal in STOP KILL; do
  exec {run_out}< <("$tandem" run "$graph" --target="$target" --fetch waits --timeout=100 2>&1
    echo "ended $?")
  "$tandem" run "$graph" --target="$target" --fetch begun --timeout=60 >/dev/null ||
    fail "the step does not begin"
  kill -"$signal" "${pid_of[ps:0]}"
  answer=$(timeout 60 cat <&"$run_out")
  grep -q "ended 1" <<<"$answer" || fail "$signal: the step did not end: $answer"
  grep -q "/job:ps/replica:0/task:0" <<<"$answer" || fail "$signal: no task is named: $answer"
  [[ $signal == KILL ]] || kill -CONT "${pid_of[ps:0]}"
done
# And the starter ends the rest.
finish
[[ $code == 1 ]] || fail "it ended with $code: $said"
grep -q "ps:0 .*SIGKILL" <<<"$said" || fail "said: $said"
all_gone

# Told to end, it ends all.
start
kill -TERM "$local"
finish
[[ $code == 0 ]] || fail "it ended with $code: $said"
all_gone

# Copies of a command know their places, and their lines are told apart.
output=$("$tandem" local --jobs=worker:2 -- sh -c 'echo "my place: $TF_CONFIG"') ||
  fail "the command failed"
grep -q '^\[worker:1\] my place: .*"index":1' <<<"$output" || fail "said: $output"
output=$("$tandem" local --jobs=worker:2,ps:1 -- sh -c \
  'case $TF_CONFIG in *ps\"}*) sleep 600;; *) exit 3;; esac' 2>&1)
[[ $? == 1 ]] || fail "a failed command went unnoticed"
grep -q "worker:. (pid .*) ended with code 3" <<<"$output" || fail "said: $output"

expect() { # expect CODE MESSAGE ARGUMENT…
  local wanted=$1 part=$2
  shift 2
  local message
  message=$("$tandem" "$@" 2>&1 >/dev/null)
  local got=$?
  [[ $got == "$wanted" ]] || fail "$*: ended with $got: $message"
  grep -qF -- "$part" <<<"$message" || fail "$*: said: $message"
}
expect 2 'wants --jobs' local
expect 2 "'worker:x'" local --jobs=worker:x
expect 2 'is there twice' local --jobs=worker,worker
expect 1 'cannot be started' local --jobs=worker -- /there/is/none
expect 1 'failed to connect' ping grpc://127.0.0.1:1
expect 2 'grpc://host:port' ping nothing
# A server that is not there is said at once, and not waited for.
for command in "run $graph --fetch=begun" "submit $graph --step=next"; do
  # shellcheck disable=SC2086
  expect 1 'failed to connect' $command --target=grpc://127.0.0.1:1
  # shellcheck disable=SC2086
  expect 1 'grpc://no-such-host.invalid:1' $command --target=grpc://no-such-host.invalid:1
done
# Nor is one that never answers: this one takes the connection, and is silent.
exec {silent_out}< <(exec python3 -u -c '
import signal, socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1])
signal.pause()' & echo $!; wait)
read -r -t 60 silent <&"$silent_out" || fail "no process"
read -r -t 60 silent_port <&"$silent_out" || fail "it does not listen"
for command in "run $graph --fetch=begun" "submit $graph --step=next"; do
  # shellcheck disable=SC2086
  expect 1 "grpc://127.0.0.1:$silent_port: " $command --timeout=0.5 \
    --target=grpc://127.0.0.1:"$silent_port"
done
kill "$silent"
expect 2 'wants --target' submit "$graph" --step=next
echo "clusters of processes work"
