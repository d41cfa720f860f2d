#!/usr/bin/env bash
# tandem_test.sh TANDEM GRAPHS: what the program `tandem` prints, and the codes with which it ends.
set -uo pipefail

tandem=$1
graphs=$2
unset TANDEM_DEVICES TANDEM_PASSES
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT

fail() {
  echo "tandem_test: $*" >&2
  exit 1
}

# expect CODE TEXT ARGUMENT…: TEXT is a part of what is printed (to stderr, if CODE is not 0).
expect() {
  local wanted=$1 part=$2 code
  shift 2
  "$tandem" "$@" >"$files/out" 2>"$files/err"
  code=$?
  [[ $code == "$wanted" ]] || fail "$*: ended with $code: $(head -c 2000 "$files/err")"
  local where=$files/out
  [[ $wanted == 0 ]] || where=$files/err
  [[ -z $part ]] || grep -qF -- "$part" "$where" || fail "$*: said $(head -c 2000 "$where")"
  [[ $wanted != 0 || ! -s $files/err ]] || fail "$*: complained: $(head -c 2000 "$files/err")"
}

run() { # run CODE TEXT ARGUMENT…, with the graph that adds, counts and joins
  local code=$1 text=$2
  shift 2
  expect "$code" "$text" run "$graphs/feeds.pbtxt" "$@"
}

expect 0 'Commands:' --help
expect 0 'tandem 0.1.0' --version
expect 2 'Commands:'
expect 2 "Did you mean" rnu
for command in run show ops devices; do expect 0 "tandem $command" "$command" --help; done

# Feeds of every form.
run 0 'sum: float32[3] = 3 4 5' --feed x=2 --feed y='[1,2,3]' --fetch sum
run 0 'twice:0: int32[2] = 2 40' --feed n='[1, 20]' --fetch twice:0
run 0 'not: ' --feed b='[true,false]' --fetch not
run 0 'same: ' --feed text='"two words"' --fetch same
grep -qF 'two words' "$files/out" || fail "a string became $(cat "$files/out")"
run 0 '"bare"' --feed text=bare --fetch same
run 0 '"5"' --feed text=5 --fetch same
run 0 '"grün … 日本"' --feed text='grün … 日本' --fetch same
run 2 'that begins with " or [ must be' --feed text='[a]' --fetch same
run 0 'sum: float32[2] = nan inf' --feed x=0 --feed y='[nan, inf]' --fetch sum
run 0 'sum: float32[] = -inf' --feed x=0 --feed y=-inf --fetch sum
# What is printed can be fed again.
run 0 'sum: float32[3] = 0.33333334 16777216 1e-10' --feed x=0 \
  --feed y='[0.33333334, 16777216, 1e-10]' --fetch sum
run 0 'twice: int32[] = 2000000002' --feed n=1000000001 --fetch twice
run 0 '' --feed x=1 --feed y='[[1,2],[3,4]]' --save sum="$files/sum.npy"
[[ $(head -c 6 "$files/sum.npy" | tail -c 5) == NUMPY ]] || fail "no .npy file was written"
run 0 'sum: ' --feed x=1 --feed y=@"$files/sum.npy" --fetch sum
run 0 '' --feed x=1 --feed y=2 --target sum

# What does not fit.
run 2 'no value of type' --feed n=3000000000 --fetch twice
run 2 '2.7' --feed n=2.7 --fetch twice
run 2 'too large' --feed x=1e300 --feed y=1 --fetch sum
run 2 'is not JSON' --feed n='[1,' --fetch twice
run 2 'deep' --feed n="$(printf '[%.0s' {1..60000})1$(printf ']%.0s' {1..60000})" --fetch twice
run 2 'NAME=VALUE' --feed n --fetch twice
run 2 'seconds' --timeout=nan --feed n=1 --fetch twice
run 2 'seconds' --timeout=-1 --feed n=1 --fetch twice
run 2 'Did you mean' --fecth twice
run 2 'TPU' --devices=TPU:1 --feed n=1 --fetch twice
run 1 'Did you mean' --feed n=1 --fetch twicee
run 2 "placeholder 'x' must be fed" --fetch sum
expect 1 'no_such_file' run "$files/no_such_file" --fetch y

: >"$files/empty.pb"
expect 2 'the file is empty' show "$files/empty.pb"
expect 2 'the file is empty' run "$files/empty.pb" --fetch y

# The limit covers reading: nobody ever writes into these pipes.
mkfifo "$files/pipe"
exec {held}<>"$files/pipe"
expect 1 "reading the graph from '$files/pipe'" run "$files/pipe" --fetch=y --timeout=0.1
run 1 "reading --feed x=@$files/pipe" --timeout=0.1 --feed x=@"$files/pipe" --feed y=1 --fetch sum
run 0 'sum: ' --timeout=600 --feed x=1 --feed y=1 --fetch sum

# A trace is JSON with the node in it.
run 0 'sum: ' --feed x=1 --feed y=2 --fetch sum --trace="$files/trace.json"
python3 -c '
import json, sys
events = json.load(open(sys.argv[1]))
events = events["traceEvents"] if isinstance(events, dict) else events
assert any("sum" in json.dumps(event) for event in events), events
' "$files/trace.json" || fail "the trace is $(head -c 500 "$files/trace.json")"
# Of a run that failed, too.
run 2 'do not broadcast' --feed x='[1,2]' --feed y='[1,2,3]' --fetch sum --trace="$files/failed.json"
[[ -s $files/failed.json ]] || fail "there is no trace of the run that failed"
run 0 'sum: ' --feed x=1 --feed y=2 --fetch sum --passes=none --devices=CPU:2,SIM:1

expect 0 'MatMul' ops
expect 0 'has a gradient' ops MatMul
expect 1 'Did you mean' ops MatMull
expect 0 'SIM:0' devices --devices=CPU:2,SIM:1
[[ $(wc -l <"$files/out") == 3 ]] || fail "three devices are $(cat "$files/out")"
expect 2 'twice' devices --devices=CPU:1,CPU:2
expect 2 'CPU:2,SIM:1' devices SIM:1
expect 0 'well formed' show "$graphs/feeds.pbtxt"
grep -qF 'sum = AddV2(x:0, y:0)' "$files/out" || grep -qF 'sum = AddV2(x, y)' "$files/out" ||
  fail "the sum is not shown: $(cat "$files/out")"
expect 1 "function 'broken'" show "$graphs/broken_function.pbtxt"
echo "tandem does what its help says"
