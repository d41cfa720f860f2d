# Shell functions of tools/build, tools/test and tools/demo. Sourced, after `set -euo pipefail`;
# leaves the caller in the root of the repository.

# Where the caller stands: what relative paths on the command line mean.
CALLER_FOLDER="$PWD"

TANDEM_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"
cd "$TANDEM_ROOT"

# Some service managers and containers start programs without HOME, and Bazel needs one.
if [[ -z "${HOME:-}" ]]; then
  HOME="$(getent passwd "$(id -u)" | cut -d: -f6)"
  export HOME
fi

TANDEM_CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/tandem"

if [[ -t 1 ]]; then
  BOLD=$'\e[1m' RED=$'\e[31m' GREEN=$'\e[32m' PLAIN=$'\e[0m'
else
  BOLD='' RED='' GREEN='' PLAIN=''
fi

say() { printf '%s\n' "${BOLD}tandem:${PLAIN} $*"; }

die() {
  printf '%s\n' "${RED}tandem:${PLAIN} $*" >&2
  exit 1
}

# Prints the comment block at the head of a script, without its marks: its --help.
print_help() { sed -n '2,/^[^#]/{/^#/!q;s/^# \{0,1\}//;p}' "$1"; }

# Bazel with what suits a terminal or a log. These options do not touch the analysis cache.
run_bazel() {
  local command="$1"
  shift
  local options=(--noshow_loading_progress)
  [[ -t 2 ]] || options+=(--curses=no --color=no --show_progress_rate_limit=20)
  bazel "$command" "${options[@]}" "$@"
}

# query EXPRESSION: the labels, one a line. Says what is wrong when BUILD files do not load.
query() {
  local errors out
  errors="$(mktemp)"
  if ! out="$(bazel query --noshow_progress --curses=no --color=no "$1" 2>"$errors")"; then
    cat "$errors" >&2
    rm -f "$errors"
    die "the BUILD files do not load; see the errors above"
  fi
  rm -f "$errors"
  printf '%s' "${out:+$out$'\n'}"
}

# The root of Bazel's package patterns: every folder but those that are no part of the product.
ALL_TARGETS='//...'

source tools/lib/packages.sh
source tools/lib/cache.sh
