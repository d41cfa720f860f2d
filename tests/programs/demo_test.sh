#!/usr/bin/env bash
# demo_test.sh DEMO SMALL_MNIST: each model and each strategy trains one epoch, on a few images.
set -uo pipefail

demo=$1
images=$2
unset TF_CONFIG RANK WORLD_SIZE
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT

fail() {
  echo "demo_test: $*" >&2
  exit 1
}

python3 "$images" "$data" || fail "the images could not be written"

trains() {
  local output
  output=$("$demo" --data="$data" --epochs=1 --batch_size=32 "$@" 2>&1) ||
    fail "$*: ended with $?: $output"
  grep -qi "accuracy" <<<"$output" || fail "$*: says nothing of accuracy: $output"
  ! grep -qiw "nan" <<<"$output" || fail "$*: $output"
}

for model in cnn lenet mlp; do trains --model="$model"; done
for strategy in mirrored central_storage one_device; do trains --model=mlp --strategy="$strategy"; done
trains --model=mlp --deterministic --replicas=4

# The first thing that it says, also into a pipe, is what it does.
first=$("$demo" --data="$data" --epochs=1 --batch_size=32 --model=mlp --strategy=central_storage \
  --replicas=3 2>&1 | head -n 1)
[[ $first == "training mlp on 128 images, 1 epoch of 4 steps; strategy central_storage, 3 replicas" ]] ||
  fail "began with: $first"

# A signal before the training begins: here, while the demo waits for a file that nobody writes.
mkdir "$data/slow"
mkfifo "$data/slow/train-images-idx3-ubyte"
exec {held}<>"$data/slow/train-images-idx3-ubyte"
"$demo" --data="$data/slow" >/dev/null 2>"$data/err" {held}>&- &
pid=$!
timeout 60 bash -c 'until readlink /proc/$0/fd/* | grep -q slow; do :; done' "$pid" ||
  fail "the demo does not read: $(cat "$data/err")"
kill -TERM "$pid"
wait "$pid"
code=$?
[[ $code == 143 ]] || fail "SIGTERM in the first moments: ended with $code"
grep -q "SIGTERM: ended before the training began" "$data/err" || fail "said: $(cat "$data/err")"

refuses() { # refuses TEXT ARGUMENT…
  local part=$1 message
  shift
  message=$("$demo" --data="$data" "$@" 2>&1 >/dev/null) && fail "$*: was taken"
  grep -qF -- "$part" <<<"$message" || fail "$*: said: $message"
}
refuses "multi_worker_mirrored, parameter_server, central_storage or one_device" --strategy=parallel
refuses "cnn" --model=resnet
refuses "at least 1" --epochs=0
refuses "at least 1" --replicas=0
refuses "one_device has one" --strategy=one_device --replicas=4
refuses "mirrored trains in one process; multi_worker_mirrored and parameter_server do in several" --workers=2
refuses "there is no flag --epoch. Did you mean 'epochs'" --epoch=1
refuses "$data/none" --data="$data/none"

[[ $("$demo" --version) == "demo "[0-9]* ]] || fail "--version says no version"
run="$data/run"
trains --model=mlp --checkpoint_dir="$run" --checkpoint_every_steps=2 --log_dir="$data/log"
[[ -f "$run/checkpoint" && -f "$run/ckpt-4.index" ]] || fail "there is no checkpoint: $(ls "$run")"
compgen -G "$data/log/train/*tfevents*" >/dev/null || fail "there is no log: $(ls -R "$data/log")"
refuses "add --resume" --model=mlp --checkpoint_dir="$run"
refuses "'dense/kernel'" --model=lenet --checkpoint_dir="$run" --resume --epochs=1
trains --model=mlp --checkpoint_dir="$run" --resume
trains --model=mlp --checkpoint_dir="$data/new" --resume

# What is wrong with the flags is said before anything else.
refuses_at_once() {
  refuses "$@"
  shift
  [[ -z $("$demo" --data="$data" "$@" 2>/dev/null) ]] || fail "$*: began before it refused"
}
refuses_at_once "--checkpoint_dir=DIR" --resume
for flag in checkpoint_dir log_dir export; do refuses "--$flag= is empty" "--$flag="; done
refuses_at_once "above 0" --checkpoint_dir="$data/newer" --checkpoint_every=0s

first=$("$demo" --data="$data" --epochs=1 --batch_size=128 --model=mlp --strategy=one_device 2>&1 |
  head -n 1)
[[ $first == *", 1 epoch of 1 step; strategy one_device, 1 replica" ]] || fail "began with: $first"

# A training that is stopped says so, and then how it goes on. Nobody else trains into its folder.
stopped="$data/stopped"
env --default-signal=HUP "$demo" --data="$data" --batch_size=32 --model=mlp --epochs=1000000 \
  --checkpoint_dir="$stopped" >/dev/null 2>"$data/err" &
pid=$!
timeout 60 bash -c 'until [[ -f $0/checkpoint ]]; do :; done' "$stopped" ||
  fail "no checkpoint is written: $(cat "$data/err")"
refuses "(pid $pid" --model=mlp --checkpoint_dir="$stopped" --resume
kill -HUP "$pid"
wait "$pid"
code=$?
[[ $code == 129 ]] || fail "SIGHUP: ended with $code: $(cat "$data/err")"
end=$(tail -n 2 "$data/err")
[[ $end == *SIGHUP*"'$stopped/ckpt-"*"has its state"*$'\n'"demo: the same command with --resume "* ]] ||
  fail "ended with: $end"

trains --model=mlp --export="$data/served"
trains --model=mlp --export="$data/served" # It is replaced.
[[ -s "$data/served/saved_model.pb" && -s "$data/served/variables/variables.index" ]] ||
  fail "there is no model: $(ls -R "$data/served")"
refuses "--batch_size=0: it must be at least 1" --batch_size=0
refuses "--learning_rate=nan: it must be" --learning_rate=nan
refuses "--learning_rate=-1: it must be" --learning_rate=-1
refuses "--data=: it must name" --data=
refuses "something else than a SavedModel" --export="$data"
refuses "one folder" --export="$data/served" --log_dir="$data/served/log"
[[ ! -e "$data/served/log" && -s "$data/served/saved_model.pb" ]] || fail "the model was touched"
refuses "name a folder" --export=.

help=$("$demo" --help) || fail "--help ended with $?"
for flag in model strategy workers replicas epochs batch_size learning_rate seed deterministic data \
  checkpoint_dir resume checkpoint_every checkpoint_every_steps log_dir export; do
  grep -q -- "--$flag " <<<"$help" || fail "--help does not name --$flag"
done
echo "every model and every strategy trains"
