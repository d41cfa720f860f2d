# The parts of tools/test: which tests belong to each and how it runs. Sourced by tools/test.

# Prints the labels of the tests of a part. Tests that carry the tag "long" (tandem_cc_test's
# `part`) are in no part but their own; "no-asan" and "no-tsan" keep a test out of those.
part_tests() {
  local ordinary="tests($ALL_TARGETS) except attr(tags, '\\blong\\b', tests($ALL_TARGETS))"
  case "$1" in
    plain) query "$ordinary" ;;
    asan | tsan) query "($ordinary) except attr(tags, '\\bno-$1\\b', tests($ALL_TARGETS))" ;;
    *) query "attr(tags, '\\bpart-$1\\b', tests($ALL_TARGETS))" ;;
  esac
}

# filter_by_label FILTER: of the labels on stdin, those that contain FILTER.
filter_by_label() { grep -F -- "$1" || true; }

# python_cases FILE...: the cases of tests in Python (unittest), as Suite.case, one a line.
python_cases() {
  awk '/^class / { sub(/^class /, ""); sub(/[^A-Za-z0-9_].*/, ""); suite = $0 }
    /^    def test_/ { sub(/^    def /, ""); sub(/\(.*/, ""); print suite "." $0 }' "$@"
}

# filter_by_case FILTER: of the labels on stdin, the tests with a case whose Suite.Case contains
# FILTER, by reading the sources.
filter_by_case() {
  local filter="$1" files labels file
  # "Prefix/Suite.Case/3", as a parameterized case is reported, is Suite.Case in the source.
  filter="$(sed -E 's#^.*/([A-Za-z0-9_]+\.)#\1#; s#(\.[A-Za-z0-9_]+)/.*$#\1#' <<<"$filter")"
  labels="$(cat)"
  files="$(grep -rlE --include='*.cc' --include='*.h' --exclude-dir='bazel-*' '^TEST|^TYPED_TEST' . |
    while read -r file; do
      tr '\n' ' ' <"$file" |
        grep -oE '\bTEST(_[FP])?\( *[A-Za-z0-9_]+, *[A-Za-z0-9_]+|TYPED_TEST(_P)?\( *[A-Za-z0-9_]+, *[A-Za-z0-9_]+' |
        sed -E 's/.*\( *//; s/, */./' | grep -qF -- "$filter" && echo "${file#./}"
    done || true)"
  for file in tests/clients/*_test.py; do
    ! python_cases "$file" | grep -qF -- "$filter" || files+=$'\n'"$file"
  done
  [[ -n "${files//$'\n'/}" ]] || return 0
  # A file may belong to a library of several tests, or to no target at all (--keep_going).
  comm -12 <(sort -u <<<"$labels") <(bazel query --keep_going --noshow_progress \
    "tests(rdeps($ALL_TARGETS, set($(tr '\n' ' ' <<<"$files"))))" 2>/dev/null | sort -u)
}

# run_tests PART CASES LABEL...: builds and runs the tests, adds to the counts. CASES limits which
# cases run (a substring; empty: all).
run_tests() {
  local part="$1" cases="$2" events rc=0 options=() suffix=''
  shift 2
  [[ $# -gt 0 ]] || return 0
  if [[ "$part" == asan || "$part" == tsan ]]; then
    options+=("--config=$part")
    suffix=" [$part]"
  fi
  [[ "$part" != clients ]] || options+=("--test_env=TANDEM_CLIENTS_PYTHON=$CLIENTS_PYTHON")
  [[ -z "$cases" ]] || options+=("--test_filter=*$cases*")
  printf '%s\n' "$@" >"$SCRATCH/targets"
  events="$SCRATCH/events"
  rm -f "$events"
  run_bazel test "${options[@]}" --keep_going --build_event_json_file="$events" \
    --target_pattern_file="$SCRATCH/targets" </dev/null || rc=$?
  # 0: all passed, 1: something did not build, 3: tests failed. All else (a killed server, a full
  # disk, Ctrl-C) says nothing about the tests.
  [[ $rc -eq 0 || $rc -eq 1 || $rc -eq 3 ]] || die "bazel test ended with exit code $rc"
  count_results "$events" "$suffix" "$@"
}

# skip_clients CASES LABEL...: counts the cases of these tests as skipped. CASES as in run_tests.
skip_clients() {
  local cases="$1" label file name
  shift
  for label in "$@"; do
    # The source of a client_test has its name.
    file="${label#//}"
    while read -r name; do
      count_case skipped "$label $name" ''
    done < <(python_cases "${file/://}.py" | grep -F -- "$cases")
  done
}

# Makes the Python environment that the tests of the part clients need. Fails, and has counted that,
# when it cannot.
prepare_clients() {
  CLIENTS_PYTHON="$(tools/lib/venv.sh)" && return 0
  count_case failed 'the tests with TensorFlow' \
    'no Python environment, see above; --no_tensorflow skips them'
  return 1
}

# Every source compiled without the precompiled headers; counts as one case.
run_includes() {
  if run_bazel build --config=includes --keep_going "$ALL_TARGETS" </dev/null; then
    count_case passed 'includes' ''
  else
    count_case failed 'includes (a source uses what it does not include)' 'see the errors above'
  fi
}

# The lock annotations of every source, checked by clang; counts as one case.
run_thread_safety() {
  if run_bazel build --config=thread_safety --keep_going "$ALL_TARGETS" </dev/null; then
    count_case passed 'lock annotations' ''
  else
    count_case failed 'lock annotations (clang -Wthread-safety)' 'see the errors above'
  fi
}

# A name for everything that the result of a part depends on: the sources, committed or not (but no
# prose, so that writing a result down does not repeat the run), and the packages.
source_key() {
  {
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
      git ls-files -co --exclude-standard -z -- . ':!*.md'
    else
      find . -name 'bazel-*' -prune -o -type f ! -name '*.md' -print0
    fi | sort -z | xargs -0 sha256sum 2>/dev/null
    # shellcheck disable=SC2046
    dpkg-query -W $(sed 's/#.*//' tools/lib/packages.txt) 2>/dev/null || true
  } | sha256sum | cut -c1-32
}

already_passed() { [[ -e "$TANDEM_CACHE/passed/$1-$KEY" ]]; }

remember_passed() {
  mkdir -p "$TANDEM_CACHE/passed" 2>/dev/null &&
    date -u +%FT%TZ >"$TANDEM_CACHE/passed/$1-$KEY" 2>/dev/null || true
}
