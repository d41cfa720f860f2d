#!/usr/bin/env bash
# Tests how results are counted (results.sh, test_cases.awk), on planted files of results.
set -euo pipefail

RED='' PLAIN=''
source tools/lib/results.sh
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
wrong=0

# expect WHAT WANTED FOUND
expect() {
  [[ "$2" == "$3" ]] && return 0
  printf '%s\n  expected: %q\n  found:    %q\n' "$1" "$2" "$3"
  wrong=1
}

cases() { awk -f tools/lib/test_cases.awk "$1" | tr '\t\n' ' ;'; }

cat >"$scratch/mixed.xml" <<'XML'
<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="5" failures="1" disabled="1" errors="0" time="0.005" name="AllTests">
  <testsuite name="A" tests="5" failures="1" disabled="1" skipped="1" errors="0" time="0">
    <testcase name="Passes" file="a.cc" line="4" status="run" result="completed" time="0" classname="A" />
    <testcase name="Fails" file="a.cc" line="5" status="run" result="completed" time="0" classname="A">
      <failure message="a.cc:5&#x0A;Failed" type=""><![CDATA[a.cc:5
Failed]]></failure>
      <failure message="a.cc:6" type=""><![CDATA[a.cc:6]]></failure>
    </testcase>
    <testcase name="Skips" file="a.cc" line="7" status="run" result="skipped" time="0" classname="A">
      <skipped message="a.cc:7&#x0A;no device"><![CDATA[a.cc:7
no device]]></skipped>
    </testcase>
    <testcase name="DISABLED_D" file="a.cc" line="8" status="notrun" result="suppressed" time="0" classname="A" />
    <testcase name="Of/0" value_param="&quot;x&quot;" file="a.cc" line="9" status="run" result="completed" time="0" classname="P/A" />
  </testsuite>
</testsuites>
XML
expect 'every state of a case is read' \
  'passed A.Passes;failed A.Fails;skipped A.Skips;skipped A.DISABLED_D;passed P/A.Of/0;' \
  "$(cases "$scratch/mixed.xml")"

cat >"$scratch/died.xml" <<'XML'
<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="x/died_test" tests="1" failures="0" errors="1">
    <testcase name="x/died_test" status="run" duration="0" time="0"><error message="exited with error code 134"></error></testcase>
      <system-out>
Generated test.log (if the file is not UTF-8, then this may be unreadable):
<![CDATA[exec ${PAGER:-/usr/bin/less} "$0" || exit 1
[ RUN      ] C.A
[       OK ] C.A (0 ms)
[ RUN      ] C.B
[  SKIPPED ] C.B (0 ms)
[ RUN      ] C.F
[  FAILED  ] C.F, where GetParam() = 3 (12 ms)
[ RUN      ] C.Crash]]>
      </system-out>
    </testsuite>
</testsuites>
XML
expect 'the log of a dead program names the case that was running' \
  'passed C.A;skipped C.B;failed C.F;failed C.Crash (exited with error code 134 while it ran);' \
  "$(cases "$scratch/died.xml")"

cat >"$scratch/script.xml" <<'XML'
<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="x/script_test" tests="1" failures="0" errors="0">
    <testcase name="x/script_test" status="run" duration="0" time="0"></testcase>
      <system-out>
      </system-out>
    </testsuite>
</testsuites>
XML
expect 'a script is one case' 'passed x/script_test;' "$(cases "$scratch/script.xml")"

sed 's/<\/testcase>/<error message="exited with error code 1"><\/error>&/' "$scratch/script.xml" \
  >"$scratch/failed_script.xml"
expect 'a failing script is one failure' \
  'failed x/script_test (exited with error code 1);' "$(cases "$scratch/failed_script.xml")"

cat >"$scratch/of_python_test.py" <<'PY'
class Reads(Base):
    def helper(self):
    def test_one(self):
class Writes(Base):
    def test_two(self, more):
PY
source tools/lib/parts.sh
expect 'the cases of a test in Python' $'Reads.test_one\nWrites.test_two' \
  "$(python_cases "$scratch/of_python_test.py")"

# event LABEL STATUS XML
event() {
  printf '{"id":{"testResult":{"label":"%s","run":1,"shard":1}},"testResult":{"testActionOutput":' "$1"
  printf '[{"name":"test.log","uri":"file:///log"},{"name":"test.xml","uri":"file://%s"}],' "$3"
  printf '"status":"%s"}}\n' "$2"
}
{
  echo '{"id":{"started":{}},"started":{}}'
  event //x:mixed FAILED "$scratch/mixed.xml"
  event //x:died FAILED "$scratch/died.xml"
  event //x:late TIMEOUT "$scratch/none.xml"
  event //x:leak FAILED "$scratch/script.xml"
} >"$scratch/events"
count_results "$scratch/events" ' [asan]' //x:mixed //x:died //x:late //x:leak //x:broken
expect 'passed' 4 "$PASSED"
expect 'skipped' 3 "$SKIPPED"
expect 'failed: two cases, one crash, one timeout, one after the last case, one that did not build' \
  6 "$FAILED"
expect 'a failure says where to look' $'//x:late (TIMEOUT) [asan]\n      log: /log' "${FAILURES[3]}"
expect 'what has no result did not build' \
  $'//x:broken (did not build) [asan]\n      see the errors above' "${FAILURES[5]}"

summary="$(print_results | tail -n 1)" || true
expect 'the last line sums up' '4 passed, 6 failed, 3 skipped' "$summary"
if print_results >/dev/null; then expect 'failures fail the run' 1 0; fi
PASSED=2 FAILED=0 SKIPPED=0 FAILURES=()
expect 'no skips, no word of them' '2 passed, 0 failed' "$(print_results)"
PASSED=0
if print_results >/dev/null; then expect 'a run of nothing fails' 1 0; fi

exit "$wrong"
