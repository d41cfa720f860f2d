#!/bin/bash
# compile_test.sh OBJECT UNUSED INPUTS SOURCE FLAG...: compiles a source of a test by clang, and
# writes to UNUSED which files of those listed in INPUTS it did not read, so that Bazel does not
# compile it again when one of these changes. Run by clang.bzl from the root of the sources.
set -euo pipefail

object="$1" unused="$2" inputs="$3" source="$4"
shift 4

clang++ "$@" -c "$source" -o "$object" -MD -MF "$object.d"
# "object: file file \" over several lines.
tr -s ' \\\n' '\n' <"$object.d" | sed 's#^/proc/self/cwd/##; s#^\./##' |
  awk 'FILENAME == "-" { read[$0] = 1; next } !($0 in read) && !/\.pch$/' - "$inputs" >"$unused"
rm "$object.d"
