#!/usr/bin/env bash
# faults_test.sh TANDEM TOY_TRAINER [ROUNDS]
# Workers of a job are killed and stopped, fixed ones and then ROUNDS at random (SEED chooses). After
# each the job goes on, with everybody, and its steps never go back. Prints how long that took.
set -uo pipefail

tandem=$1
trainer=$2
rounds=${3:-0}
RANDOM=${SEED:-1}
folder=$(mktemp -d "${TEST_TMPDIR:-/tmp}/faults.XXXXXX")
log=$folder/log
unset TF_CONFIG TANDEM_DEVICES TANDEM_RENDEZVOUS TANDEM_WORKERS RANK WORLD_SIZE

fail() {
  echo "faults_test: $*; the log's end:" >&2
  tail -n 60 "$log" >&2
  kill -KILL "$launch" 2>/dev/null
  exit 1
}

# All that a test waits for has this deadline, in seconds.
readonly patience=60

# until_true WHAT COMMAND...: waits until the command succeeds.
until_true() {
  local what=$1 end=$((SECONDS + patience))
  shift
  until "$@"; do
    ((SECONDS < end)) || fail "$what did not happen"
    sleep 0.05
  done
}

step() { local text; text=$(cat "$folder/step" 2>/dev/null); echo "${text:-0}"; }
step_is_after() { (($(step) > $1)); }
pid_of() { sed -n "s/^started $1 pid \([0-9]*\) .*/\1/p" "$log" | tail -n 1; }
# The newest generation in which all three are: its number. Empty: there is none after $1.
complete_after() {
  local generation
  for generation in $(sed -n 's/.*\] generation \([0-9]*\) rank [0-9]* of 3 .*/\1/p' "$log" |
    sort -n | uniq -c | awk '$1 == 3 { print $2 }'); do
    ((generation > $1)) && { echo "$generation"; return 0; }
  done
  return 1
}
newest() { sed -n 's/.*\] generation \([0-9]*\) rank .*/\1/p' "$log" | sort -n | tail -n 1; }
chief() {
  sed -n "s/^\[\(worker:[0-9]\)\] generation $1 rank 0 .*/\1/p" "$log" | tail -n 1
}
now_ms() { date +%s%3N; }

"$tandem" launch --workers=2:3 --max_restarts=1000 -- "$trainer" 1000000000 "$folder" \
  >"$log" 2>&1 &
launch=$!
until_true 'a group of three' complete_after 0 >/dev/null
until_true 'a step' step_is_after 0

times=()
# recover GENERATION STEP BEGIN: waits until steps go on and all are there in a later generation.
recover() {
  until_true 'the next step' step_is_after "$2"
  times+=($(($(now_ms) - $3)))
  until_true "a group of three after generation $1" complete_after "$1" >/dev/null
  step_is_after "$(($2 - 1))" || fail "steps went back from $2 to $(step)"
}

fault() {
  local kind=$1 worker=$2 generation pid before begin
  generation=$(newest)
  [[ $worker != chief ]] || worker=$(chief "$generation")
  [[ $worker != other ]] || { worker=$(chief "$generation") && worker=worker:$(((${worker#worker:} + 1) % 3)); }
  pid=$(pid_of "$worker")
  before=$(step)
  begin=$(now_ms)
  case $kind in
    kill)
      kill -KILL "$pid" || fail "$worker ($pid) is not there"
      recover "$generation" "$before" "$begin"
      grep -q "^$worker (pid $pid) was ended by SIGKILL" "$log" || fail "the kill did not fire"
      ;;
    stop)
      kill -STOP "$pid" || fail "$worker ($pid) is not there"
      # The others go on without it, which shows that the fault fired.
      until_true 'a group of two' grep -q "generation $((generation + 1)) rank 0 of 2" "$log"
      until_true 'the next step' step_is_after "$((before + 1))"
      times+=($(($(now_ms) - begin)))
      kill -CONT "$pid"
      until_true "$worker's return" complete_after "$generation" >/dev/null
      [[ $(pid_of "$worker") == "$pid" ]] || fail "$worker was started again"
      ;;
    blink)
      # Too short for anybody to mind.
      kill -STOP "$pid" || fail "$worker ($pid) is not there"
      sleep 0.5
      kill -CONT "$pid"
      until_true 'the next step' step_is_after "$((before + 1))"
      ;;
  esac
  echo "$kind $worker in generation $generation at step $before: ${times[-1]:-0} ms"
}

fault kill other
fault kill chief
fault blink chief
fault stop other
fault stop chief
kinds=(kill stop blink)
for ((round = 0; round < rounds; ++round)); do
  fault "${kinds[RANDOM % 3]}" "worker:$((RANDOM % 3))"
done

before=$(step)
kill -TERM "$launch"
wait "$launch"
code=$?
[[ $code == 143 ]] || fail "code $code"
(($(step) >= before)) || fail "steps went back at the end"
mapfile -t sorted < <(printf '%s\n' "${times[@]}" | sort -n)
echo "recovery: median ${sorted[${#sorted[@]} / 2]} ms, worst ${sorted[-1]} ms, ${#sorted[@]} faults"
