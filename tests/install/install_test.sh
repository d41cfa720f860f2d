#!/usr/bin/env bash
# install_test.sh TREE PROGRAM.cc PATTERN: a program outside of the repository, built with what is installed
# and nothing else, runs and prints a line that matches PATTERN.
set -uo pipefail

tree=$PWD/$1
source=$PWD/$2
pattern=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "install_test: $*" >&2
  exit 1
}

# The tree may be moved after it was unpacked.
mkdir "$work/first" "$work/program"
tar -xf "$tree" -C "$work/first" || fail "the archive cannot be unpacked"
mv "$work/first" "$work/installed"
export PKG_CONFIG_PATH=$work/installed/lib/pkgconfig
unset LD_LIBRARY_PATH
cd "$work/program" || fail "no folder"
cp "$source" program.cc

version=$(pkg-config --modversion tandem) || fail "pkg-config does not find Tandem"
[[ $("$work/installed/bin/tandem" --version) == "tandem $version" ]] || fail "versions differ"
# Not optimized: that takes a third of the time.
# shellcheck disable=SC2046
g++ -O0 program.cc $(pkg-config --cflags --libs tandem) -o program || fail "it does not build"
output=$(./program) || fail "it ended with $?: $output"
grep -qE -- "$pattern" <<<"$output" || fail "it printed: $output"
