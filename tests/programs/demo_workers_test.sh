#!/usr/bin/env bash
# demo_workers_test.sh DEMO SMALL_MNIST: the demo in several processes, on a few images: it trains,
# starts again who is killed, is interrupted and resumed.
set -uo pipefail

demo=$1
images=$2
data=$(mktemp -d "${TEST_TMPDIR:-/tmp}/demo.XXXXXX")
trap 'rm -rf "$data"' EXIT
unset TF_CONFIG TANDEM_DEVICES TANDEM_RENDEZVOUS TANDEM_WORKERS TANDEM_RESTART_COUNT RANK WORLD_SIZE

fail() {
  echo "demo_workers_test, line ${BASH_LINENO[*]}: $*" >&2
  ls -l "$data" >&2
  [[ -z ${pid:-} ]] || kill -KILL "$pid" 2>/dev/null
  exit 1
}

python3 "$images" "$data" || fail "the images could not be written"
workers=(--data="$data" --batch_size=32 --model=mlp --strategy=multi_worker_mirrored)

# start ARGUMENT…: in the background; $pid is its process, it writes into $data/out and $data/err.
start() {
  env --default-signal=INT,HUP "$demo" "${workers[@]}" "$@" >"$data/out" 2>"$data/err" &
  pid=$!
}
said() { cat "$data/out" "$data/err"; }
# wait_for PATTERN: until the demo has written such a line.
wait_for() {
  local end=$((SECONDS + 120))
  until said | grep -qE -- "$1"; do
    ((SECONDS < end)) || fail "'$1' did not come; said: $(said)"
    kill -0 "$pid" 2>/dev/null || { said | grep -qE -- "$1" && return; fail "it ended before '$1'; said: $(said)"; }
    sleep 0.02
  done
}
# ends_with CODE
ends_with() {
  local code
  timeout 120 tail --pid="$pid" -f /dev/null || fail "it does not end; said: $(said)"
  wait "$pid"
  code=$?
  [[ $code == "$1" ]] || fail "ended with $code and not $1; said: $(said)"
  # Nobody is left of those that it has started.
  for worker in $(sed -n 's/^started worker:[0-9]* pid \([0-9]*\) .*/\1/p' "$data/out"); do
    [[ ! -d /proc/$worker ]] || fail "worker $worker lives on"
  done
  pid=
}
pid_of() { sed -n "s/^started worker:$1 pid \([0-9]*\) .*/\1/p" "$data/out" | tail -n 1; }
accuracy() { grep -o '^test accuracy.*' "$data/out"; }

# In deterministic mode it ends as one process does; it says where its workers are, and then what
# one process says.
"$demo" --data="$data" --batch_size=32 --model=mlp --deterministic --epochs=3 >"$data/one" ||
  fail "one process ended with $?"
start --deterministic --epochs=3 --workers=3
ends_with 0
[[ $(accuracy) == "$(grep '^test accuracy' "$data/one")" ]] ||
  fail "one process: $(cat "$data/one"); several: $(said)"
[[ $(grep -c '^started worker:[012] pid [0-9]* port [0-9]*$' "$data/out") == 3 ]] || fail "said: $(said)"
[[ $(grep -c '^epoch [123]/3 ' "$data/out") == 3 ]] || fail "said: $(said)"
[[ $(grep -c '^time .* s, peak memory .* MB' "$data/out") == 1 ]] || fail "said: $(said)"
grep -q '^training mlp on 128 images, 3 epochs of 4 steps; strategy multi_worker_mirrored, 3 workers' \
  "$data/out" || fail "said: $(said)"

# A worker that is killed, and a chief, come back.
start --deterministic --epochs=300 --log_dir="$data/log" --export="$data/served"
for victim in 1 0; do
  wait_for "^epoch $((200 - 150 * victim))/300"
  before=$(pid_of "$victim")
  kill -KILL "$before" || fail "worker $victim is not there; said: $(said)"
  wait_for "^worker:$victim \(pid $before\) was ended by SIGKILL .*starting it again"
done
ends_with 0
killed=$(accuracy)
[[ $(grep -c '^started worker:' "$data/out") == 4 ]] || fail "said: $(said)"
[[ -s "$data/served/saved_model.pb" ]] || fail "there is no model: $(ls -R "$data/served")"
compgen -G "$data/log/train/*tfevents*" >/dev/null || fail "there is no log: $(ls -R "$data/log")"
# Each epoch is told, but for one that the chief died with before it could.
(($(grep -o '^epoch [0-9]*' "$data/out" | sort -u | wc -l) >= 299)) || fail "said: $(said)"
"$demo" --data="$data" --batch_size=32 --model=mlp --deterministic --epochs=300 >"$data/one" ||
  fail "one process ended with $?"
[[ $killed == "$(grep '^test accuracy' "$data/one")" ]] || fail "one: $(cat "$data/one"); several: $killed"

# Ctrl-C and SIGTERM end all after one step, which is saved; the others of them resume.
for signal in INT:130 TERM:143 HUP:129; do
  run="$data/run-${signal%:*}"
  start --epochs=1000000 --checkpoint_dir="$run" --checkpoint_every=1h
  wait_for '^epoch 3/'
  kill -"${signal%:*}" "$pid"
  ends_with "${signal#*:}"
  grep -q '^demo: the same command with --resume goes on there' "$data/err" || fail "said: $(said)"
  said | grep -q "training was stopped after step" || fail "said: $(said)"
done
# On a terminal one line is kept up to date, by one of them, and Ctrl-C ends all of them.
timeout 120 python3 - "$demo" "${workers[@]}" --epochs=1000000 <<'END' || fail "on a terminal: $?"
import os, pty, re, sys

child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
said, asked = b"", False
try:
    while True:
        said += os.read(terminal, 65536)
        if not asked and b"\r\x1b[Kepoch 3/1000000 [" in said:
            os.write(terminal, b"\x03")
            asked = True
except OSError:
    pass  # Nobody has the terminal any more.
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
alive = [pid for pid in re.findall(rb"started worker:. pid (\d+) ", said) if os.path.exists(b"/proc/" + pid)]
if code != 130 or alive or said.count(b"training was stopped after step") != 1:
    sys.exit(f"code {code}, {alive} live on, said: {said.decode()}")
END
start --epochs=1 --checkpoint_dir="$run" --resume --workers=1:2
ends_with 0
accuracy >/dev/null || fail "said: $(said)"

# What is wrong is said once, before anything is started.
refuses() { # refuses TEXT ARGUMENT…
  local part=$1 message
  shift
  message=$("$demo" "${workers[@]}" "$@" 2>&1) && fail "$*: was taken"
  [[ $(grep -cF -- "$part" <<<"$message") == 1 ]] || fail "$*: said: $message"
  ! grep -q '^started' <<<"$message" || fail "$*: began before it refused"
}
refuses "'none' is no number of workers" --workers=none
refuses "at least 1" --replicas=0
refuses "$data/none" --data="$data/none"
refuses "add --resume" --checkpoint_dir="$run"
refuses "above 0" --checkpoint_dir="$data/newer" --checkpoint_every=0s
# What only a worker finds is said by all of them, and none is started again.
start --model=lenet --checkpoint_dir="$run" --resume --epochs=2
ends_with 2
[[ $(grep -c '^started worker:' "$data/out") == 2 ]] || fail "said: $(said)"
grep -q "^demo: the first to fail: worker:[01] .*code 2" "$data/err" || fail "said: $(said)"
echo "several processes train as one"
