#!/usr/bin/env bash
# tests/fuzz/libfuzzer.sh TARGET [OPTION…] - runs a fuzz target with clang's libFuzzer
#
# Compiles the target and all that it uses with clang, coverage and the address and undefined-behaviour
# sanitizers, outside of Bazel, whose toolchain is g++. The options are libFuzzer's:
#
#   tests/fuzz/libfuzzer.sh record -max_total_time=600
#
# New inputs go to ~/.cache/tandem/fuzz/TARGET/corpus, crashes to the folder you stand in. Put an input
# that found something into tests/fuzz/corpus/TARGET, with the correction.
set -euo pipefail

case "${1:-}" in
  '' | -*)
    sed -n '2,/^[^#]/{/^#/!q;s/^# \{0,1\}//;p}' "$0"
    exit 2
    ;;
esac
target="$1"
shift
source "$(dirname "${BASH_SOURCE[0]}")/../../tools/lib/common.sh"
[[ -e "$(clang++ -print-runtime-dir)/libclang_rt.fuzzer-x86_64.a" ]] ||
  die "clang has no libFuzzer: install libclang-rt-14-dev (or that of your clang's version)"
label="//tests/fuzz:${target}_fuzz"
build="$TANDEM_CACHE/fuzz/$target"
mkdir -p "$build/objects" "$build/corpus"

# Generated sources and headers come from Bazel.
run_bazel build "$label"
mapfile -t sources < <({
  query "filter('\\.cc\$', kind('source file', deps($label) except deps(//tools/build_defs/...)))"
  query "filter('\\.pb\\.cc\$', kind('generated file', deps($label)))"
} | grep '^//' | sed 's#^//##; s#^:##; s#:#/#' | sort -u)

flags=(-std=c++20 -march=x86-64-v3 -ffp-contract=off -O1 -g1 -fno-omit-frame-pointer
  -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
  -I. -Ibazel-bin -isystem /usr/include/eigen3 -w)
export build
compile() {
  local source="$1" object
  shift
  object="$build/objects/${source//\//_}.o"
  [[ -e "$source" ]] || source="bazel-bin/$source"
  [[ "$object" -nt "$source" ]] || clang++ "$@" -c "$source" -o "$object"
}
export -f compile
say "compiling ${#sources[@]} sources with clang"
printf '%s\n' "${sources[@]}" |
  xargs -P "$(nproc)" -I{} bash -c 'compile "$@"' - {} "${flags[@]}"

objects=()
for source in "${sources[@]}"; do objects+=("$build/objects/${source//\//_}.o"); done
# shellcheck disable=SC2046
clang++ -fsanitize=fuzzer,address,undefined "${objects[@]}" -o "$build/fuzz" \
  $(pkg-config --libs protobuf $(pkg-config --list-all | awk '/^absl_/ { print $1 }')) \
  -lsnappy -lz -lpng -ljpeg -lre2 -lspdlog -lfmt -ldnnl -lpthread
cd "$CALLER_FOLDER"
exec "$build/fuzz" "$@" "$build/corpus" "$TANDEM_ROOT/tests/fuzz/corpus/$target"
