#!/usr/bin/env bash
# launch_test.sh TANDEM TOY_TRAINER
# tandem launch with real processes: started, killed, started again, told to end.
set -uo pipefail

tandem=$1
trainer=$2
folder=$(mktemp -d "${TEST_TMPDIR:-/tmp}/launch.XXXXXX")
unset TF_CONFIG TANDEM_DEVICES TANDEM_RENDEZVOUS TANDEM_WORKERS TANDEM_NUM_THREADS RANK WORLD_SIZE

fail() {
  echo "launch_test: $*" >&2
  exit 1
}

# Starts tandem launch in the background; $launch is its process, $out what it writes.
start() {
  exec {out}< <(exec "$tandem" launch "$@" 2>&1 & echo $!; wait $!; echo "code $?")
  read -r -t 60 launch <&"$out" || fail "no process"
  said=
}

# Reads until a line fits the pattern; all lines are added to $said.
wait_for() {
  local line
  while read -r -t 120 line <&"$out"; do
    said+=$line$'\n'
    if [[ $line == code\ * ]]; then
      code=${line#code }
      [[ $1 == code ]] && return
      fail "it ended before '$1'; said: $said"
    fi
    [[ $1 != code && $line =~ $1 ]] && return
  done
  fail "'$1' did not come; said: $said"
}

# Waits until the process is no more; who is dead already, and only not waited for, is none.
gone() {
  timeout 30 bash -c 'while state=$(sed "s/.*) //" "/proc/$0/stat" 2>/dev/null) &&
    [[ ${state:0:1} != Z ]]; do :; done' "$1"
}

pid_of() { sed -n "s/^started $1 pid \([0-9]*\) .*/\1/p" <<<"$said" | tail -n 1; }

# Where each finds itself.
start --workers=2:3 -- bash -c 'echo "$TANDEM_WORKERS $TANDEM_RESTART_COUNT $TF_CONFIG $TANDEM_RENDEZVOUS"'
wait_for code
[[ $code == 0 ]] || fail "code $code: $said"
[[ $(grep -c '^started worker:[012] pid [0-9]* port [0-9]*$' <<<"$said") == 3 ]] || fail "said: $said"
grep -q '^\[worker:2\] 2:3 0 .*"index":2,"type":"worker".* 127.0.0.1:[0-9]*$' <<<"$said" ||
  fail "said: $said"

# One that fails is started again.
start --workers=2 -- bash -c 'echo "count $TANDEM_RESTART_COUNT threads $TANDEM_NUM_THREADS"
  [[ $TF_CONFIG == *\"index\":1* ]] || sleep 3
  [[ $TF_CONFIG != *\"index\":1* || $TANDEM_RESTART_COUNT == 1 ]]'
wait_for code
[[ $code == 0 ]] || fail "code $code: $said"
grep -q '^worker:1 (pid [0-9]*) ended with code 1 .*starting it again in 1s (1 of 3)$' <<<"$said" ||
  fail "said: $said"
threads=$(sed -n 's/^\[worker:1\] count 1 threads \([1-9][0-9]*\)$/\1/p' <<<"$said")
[[ -n $threads ]] && ((threads == 1 || 2 * threads <= $(nproc --all))) || fail "said: $said"

# Not when the first one has ended with 0: then the work is done, and what fails is an error.
start --workers=2 -- bash -c '[[ $TF_CONFIG != *\"index\":1* ]] || { sleep 2; exit 7; }'
wait_for code
[[ $code == 1 ]] || fail "code $code: $said"
grep -q '^worker:1 .* ended with code 7 .*not started again, since others have ended' <<<"$said" ||
  fail "said: $said"
[[ $(grep -c '^started worker:1' <<<"$said") == 1 ]] || fail "said: $said"

# Who ignores SIGHUP, under nohup, goes on.
trap '' HUP
start --workers=1 -- bash -c 'echo here; sleep 1; echo there'
wait_for 'here'
kill -HUP "$launch"
wait_for code
trap - HUP
[[ $code == 0 && $said == *there* ]] || fail "code $code: $said"

# One that fails for good ends the job; the last words are about it.
start --workers=2 --max_restarts=0 -- bash -c 'echo "this is the cause"
  [[ $TF_CONFIG == *\"index\":1* ]] && exit 3; sleep 1000'
wait_for code
[[ $code == 1 ]] || fail "code $code: $said"
tail -n 3 <<<"${said%$'\n'}" | tr '\n' ' ' |
  grep -q 'the first to fail: worker:1 (pid [0-9]*) ended with code 3 .* \[worker:1\] this is the cause code 1' ||
  fail "said: $said"

# Told to end: all are, with what they have started.
start --workers=2 -- bash -c 'trap "exit 143" TERM; sleep 1000 & echo "child $!"; wait'
wait_for 'child'
wait_for 'child'
kill -TERM "$launch"
wait_for code
[[ $code == 143 ]] || fail "code $code: $said"
for pid in $(sed -n 's/.*child //p' <<<"$said") "$(pid_of worker:0)" "$(pid_of worker:1)"; do
  gone "$pid" || fail "$pid lives on"
done

# A job goes on when its chief is killed, and the worker comes back: when the others have gone on.
mkfifo "$folder.back"
start --workers=2:3 -- bash -c '[[ $TANDEM_RESTART_COUNT == 0 ]] || read -r <"$1.back"
  exec "$0" 1500 "$1"' "$trainer" "$folder"
wait_for '\] generation [0-9]+ rank 0 of 3'
chief=$(sed -n 's/^\[\(worker:[0-9]\)\] generation [0-9]* rank 0 of 3.*/\1/p' <<<"$said" | tail -n 1)
wait_for '\] step '
kill -KILL "$(pid_of "$chief")"
wait_for "^$chief .* was ended by SIGKILL"
wait_for '\] generation [0-9]+ rank 0 of 2'
timeout 60 bash -c 'echo >"$0.back"' "$folder" || fail "nobody was started again; said: $said"
wait_for '\] generation [0-9]+ rank [0-9] of 3'
wait_for code
[[ $code == 0 ]] || fail "code $code: $said"
[[ $(grep -c '\] done$' <<<"$said") == 3 ]] || fail "said: $said"
[[ $(<"$folder/step") == 1500 ]] || fail "the last step: $(<"$folder/step")"
# The chief of each generation says each tenth step once; none is repeated but the one that ran.
steps=$(sed -n "s/^\[$chief\] step //p" <<<"$said")
[[ $(sort -n <<<"$steps") == "$steps" ]] || fail "steps go back: $steps"

# Several machines, here addresses of this one, meet at a rendezvous.
rm -rf "${folder:?}"/* "$folder/.membership"
network=127.$((16 + RANDOM % 200)).$((RANDOM % 250))
common=(--workers=2 --per_host=1 --rendezvous="$network.1:29400")
"$tandem" launch "${common[@]}" --host="$network.2" --host_index=1 -- "$trainer" 60 "$folder" \
  >"$folder/second" 2>&1 &
second=$!
start "${common[@]}" --host="$network.1" --host_index=0 -- "$trainer" 60 "$folder"
wait_for code
[[ $code == 0 ]] || fail "code $code: $said"
wait "$second" || fail "the second: $(<"$folder/second")"
grep -q '^started worker:1 pid' "$folder/second" || fail "the second: $(<"$folder/second")"
grep -q '\] generation [0-9]* rank [01] of 2 from step' <<<"$said" || fail "said: $said"

# SIGTERM on all: one step, and 143. (What is in .membership does not keep a job from beginning anew.)
rm -rf "${folder:?}"/*
start --workers=2 --http_port=0 -- "$trainer" 1000000 "$folder"
wait_for '\] step '
port=$(sed -n 's#^status page http://127.0.0.1:\([0-9]*\)/.*#\1#p' <<<"$said")
# get PATH: what the status page answers.
get() {
  exec 3<>"/dev/tcp/127.0.0.1/$port" || fail "the status page does not listen on $port"
  printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&3
  cat <&3
  exec 3<&-
}
page=$(get /)
grep -q 'generation [0-9]*: 2 of 2 to 2 workers, working, step' <<<"$page" || fail "page: $page"
metrics=$(get /metrics)
grep -q '^tandem_job_committed_step [1-9]' <<<"$metrics" || fail "metrics: $metrics"
members=$("$tandem" members "127.0.0.1:$(sed -n 's/^started worker:1 .* port //p' <<<"$said")") ||
  fail "tandem members: $members"
grep -q '^generation [0-9]*: 2 of 2 to 2 workers, working, step' <<<"$members" || fail "$members"
grep -q '^ *1  worker:[01] ' <<<"$members" || fail "$members"
kill -TERM "$launch"
wait_for code
[[ $code == 143 ]] || fail "code $code: $said"
saved=$(sed -n 's/.*\] saved step //p' <<<"$said" | sort -u)
[[ $(wc -l <<<"$saved") == 1 && -n $saved ]] || fail "saved steps: $saved; said: $said"
[[ $(grep -c '\] saved step' <<<"$said") == 2 ]] || fail "said: $said"

# With parameter servers: each finds the whole cluster and who it is, one that fails is started again,
# and the job ends with the chief. (The demo runs real ones.)
rm -rf "${folder:?}"/*
start --servers=2 --workers=2 --http_port=8099 -- bash -c '
  type=$(sed "s/.*\"type\":\"\([a-z]*\)\".*/\1/" <<<"$TF_CONFIG")
  addresses=$(grep -o "127[.]0[.]0[.]1:[0-9]*" <<<"$TF_CONFIG" | sort -u | wc -l)
  echo "I am $type of $addresses restart $TANDEM_RESTART_COUNT page ${TANDEM_STATUS_PORT:-none}"
  if [[ $type == chief ]]; then
    until [[ -e $0/again ]]; do sleep 0.05; done
    touch "$0/done"
  elif [[ $TF_CONFIG == *\"index\":1,\"type\":\"ps\"* ]]; then
    [[ $TANDEM_RESTART_COUNT == 0 ]] && exit 9
    touch "$0/again"
  fi
  until [[ -e $0/done ]]; do sleep 0.05; done' "$folder"
wait_for code
[[ $code == 0 ]] || fail "code $code: $said"
for line in '^started ps:1 pid [0-9]* port [0-9]*$' '^\[chief:0\] I am chief of 5 restart 0 page 8099$' \
  '^\[worker:1\] I am worker of 5 restart 0 page none$' '^\[ps:1\] I am ps of 5 restart 1 page none$'; do
  grep -q "$line" <<<"$said" || fail "no '$line'; said: $said"
done
[[ $(grep -c '^started ' <<<"$said") == 6 ]] || fail "said: $said"

# What makes no sense is refused.
for flags in "" "--workers=0" "--workers=3:2" "--workers=2 --max_restarts=x" \
  "--workers=4 --per_host=2" "--workers=2 stray" "--workers=2 --http_port=65536" \
  "--servers=1 --workers=1:2" "--servers=-1 --workers=1" "--servers=1 --workers=2 --per_host=1"; do
  # shellcheck disable=SC2086
  "$tandem" launch $flags -- true >/dev/null 2>&1
  [[ $? == 2 ]] || fail "'$flags' was taken"
done
"$tandem" launch --workers=2 >/dev/null 2>&1
[[ $? == 2 ]] || fail "no command was taken"
"$tandem" launch --workers=1 -- /no/such/program >/dev/null 2>&1
[[ $? == 1 ]] || fail "a program that is not there"
echo "all passed"
