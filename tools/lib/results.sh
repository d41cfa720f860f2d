# Turns what a `bazel test` left behind into counts of test cases. Sourced by tools/test.

PASSED=0 FAILED=0 SKIPPED=0
FAILURES=()  # One entry a failed case, ready to print.

# count_case STATE NAME WHERE
count_case() {
  case "$1" in
    passed) PASSED=$((PASSED + 1)) ;;
    skipped) SKIPPED=$((SKIPPED + 1)) ;;
    *)
      FAILED=$((FAILED + 1))
      FAILURES+=("$2"$'\n'"      $3")
      ;;
  esac
}

# Prints "LABEL <tab> STATUS <tab> LOG <tab> XML" for each test that ran, from Bazel's file of
# events (--build_event_json_file: one JSON object a line). A missing file is "-".
test_results() {
  awk '
    function text_after(key,    start, rest) {
      start = index($0, key)
      if (start == 0) return "-"
      rest = substr($0, start + length(key))
      return substr(rest, 1, index(rest, "\"") - 1)
    }
    /^\{"id":\{"testResult":/ {
      print text_after("\"label\":\"") "\t" text_after("\"status\":\"") "\t" \
            text_after("\"name\":\"test.log\",\"uri\":\"file://") "\t" \
            text_after("\"name\":\"test.xml\",\"uri\":\"file://")
    }' "$1"
}

# count_results EVENTS SUFFIX LABEL...: adds every case of the tests LABEL... to the counts. A test
# without a result did not build. SUFFIX (" [asan]" or nothing) goes behind names.
count_results() {
  local events="$1" suffix="$2" label status log xml state name failed
  shift 2
  declare -A ran=()
  while IFS=$'\t' read -r label status log xml; do
    ran["$label"]=1
    failed=$FAILED
    if [[ -r "$xml" ]]; then
      while IFS=$'\t' read -r state name; do
        count_case "$state" "$label $name$suffix" "log: $log"
      done < <(awk -f tools/lib/test_cases.awk "$xml")
    fi
    # The whole test failed though no case did: it ran out of time, or a sanitizer spoke at the end.
    if [[ "$status" != PASSED && $FAILED -eq $failed ]]; then
      count_case failed "$label ($status)$suffix" "log: $log"
    fi
  done < <(test_results "$events")
  for label in "$@"; do
    [[ -n "${ran[$label]:-}" ]] ||
      count_case failed "$label (did not build)$suffix" "see the errors above"
  done
}

# The list of failures and, last, the one line that sums up. Fails when a case failed or none ran.
print_results() {
  local failure
  if ((FAILED > 0)); then
    printf '\n%s\n' "${RED}Failed:${PLAIN}"
    for failure in "${FAILURES[@]}"; do printf '  - %s\n' "$failure"; done
    printf '\n'
  fi
  printf '%s passed, %s failed' "$PASSED" "$FAILED"
  ((SKIPPED == 0)) || printf ', %s skipped' "$SKIPPED"
  printf '\n'
  ((FAILED == 0 && PASSED + SKIPPED > 0))
}
