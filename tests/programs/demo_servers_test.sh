#!/usr/bin/env bash
# demo_servers_test.sh DEMO SMALL_MNIST: the demo with parameter servers, on a few images: it trains in each mode,
# starts again who is killed, and leaves nobody behind.
set -uo pipefail

demo=$1
images=$2
data=$(mktemp -d "${TEST_TMPDIR:-/tmp}/demo.XXXXXX")
trap 'rm -rf "$data"' EXIT
unset TF_CONFIG TANDEM_DEVICES TANDEM_RENDEZVOUS TANDEM_WORKERS TANDEM_RESTART_COUNT RANK WORLD_SIZE

fail() {
  echo "demo_servers_test: $*" >&2
  [[ -z ${pid:-} ]] || kill -KILL "$pid" 2>/dev/null
  exit 1
}

python3 "$images" "$data" || fail "the images could not be written"
common=(--data="$data" --batch_size=32 --model=mlp --strategy=parameter_server)

# start ARGUMENT…: in the background; $pid is its process, it writes into $data/out and $data/err.
start() {
  env --default-signal=INT,HUP "$demo" "${common[@]}" "$@" >"$data/out" 2>"$data/err" &
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
  for child in $(sed -n 's/^started [a-z]*:[0-9]* pid \([0-9]*\) .*/\1/p' "$data/out"); do
    [[ ! -d /proc/$child ]] || fail "process $child lives on"
  done
  pid=
}
pid_of() { sed -n "s/^started $1 pid \([0-9]*\) .*/\1/p" "$data/out" | tail -n 1; }

# Each mode trains and says what it is.
for mode in async bounded sync; do
  start --mode=$mode --epochs=3 --workers=2 --servers=2
  ends_with 0
  for task in ps:0 ps:1 worker:0 worker:1 chief:0; do
    [[ $(grep -c "^started $task pid [0-9]* port [0-9]*$" "$data/out") == 1 ]] || fail "said: $(said)"
  done
  grep -q "^training mlp on 128 images, 3 epochs of 4 steps; strategy parameter_server, 2 workers, 2 servers, $mode" \
    "$data/out" || fail "said: $(said)"
  [[ $(grep -c '^test accuracy [0-9.]* %' "$data/out") == 1 ]] || fail "said: $(said)"
  [[ $(grep -c '^epoch [123]/3 ' "$data/out") == 3 ]] || fail "said: $(said)"
done
start --mode=sync --backup_workers=1 --epochs=2 --workers=3 --servers=1
ends_with 0

# A worker that is killed, a server and the chief come back, and the training goes on.
start --mode=sync --replication=synchronous --epochs=400 --checkpoint_dir="$data/killed" --checkpoint_every=1h
epoch=5
for victim in worker:1 ps:0 ps:1 chief:0; do
  wait_for "^epoch $epoch/400"
  before=$(pid_of "$victim")
  kill -KILL "$before" || fail "$victim is not there; said: $(said)"
  wait_for "^$victim \(pid $before\) was ended by SIGKILL .*starting it again"
  wait_for "^started $victim pid .*"
  epoch=$((epoch + 60))
done
ends_with 0
grep -q '^test accuracy' "$data/out" || fail "said: $(said)"

# Ctrl-C and SIGTERM end it after a step, which is saved, and it is resumed.
for signal in INT:130 TERM:143; do
  run="$data/run-${signal%:*}"
  start --epochs=1000000 --checkpoint_dir="$run" --checkpoint_every=1h
  wait_for '^epoch 3/'
  kill -"${signal%:*}" "$pid"
  ends_with "${signal#*:}"
  said | grep -q "training was stopped after step" || fail "said: $(said)"
  compgen -G "$run/*.index" >/dev/null || fail "nothing was saved: $(ls "$run"); said: $(said)"
done
start --epochs=5 --checkpoint_dir="$run" --resume
ends_with 0

# Told to the chief alone it ends the job just so.
for signal in INT:130 TERM:143; do
  start --epochs=1000000
  wait_for '^epoch 3/'
  kill -"${signal%:*}" "$(pid_of chief:0)"
  ends_with "${signal#*:}"
  said | grep -q "training was stopped after step" || fail "said: $(said)"
  [[ $(said | grep -c '^started chief:0 ') == 1 ]] || fail "it was started again; said: $(said)"
done

# What is wrong is said once, before anything is started.
refuses() { # refuses TEXT ARGUMENT…
  local part=$1 message
  shift
  message=$("$demo" "${common[@]}" "$@" 2>&1) && fail "$*: was taken"
  [[ $(grep -cF -- "$part" <<<"$message") == 1 ]] || fail "$*: said: $message"
  ! grep -q '^started' <<<"$message" || fail "$*: began before it refused"
}
refuses "--workers=2:4" --workers=2:4
refuses "--servers=0" --servers=0
refuses "--mode=some" --mode=some
refuses "--backup_workers=1" --backup_workers=1
refuses "--backup_workers=2" --backup_workers=2 --mode=sync
refuses "it takes two servers" --replication=synchronous --servers=1
refuses "--replicas and --deterministic" --deterministic
refuses "has no servers" --strategy=mirrored --servers=2
refuses "$data/none" --data="$data/none"
echo "parameter servers train in all modes"
