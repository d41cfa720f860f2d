#!/bin/bash
# check_locks.sh SOURCE STAMP PRELUDE FLAG...: checks the lock annotations of a source with clang,
# and touches STAMP when they hold. PRELUDE is a precompiled header. Run by
# thread_safety.bzl from the root of the sources.
#
# clang takes seconds a source, and most sources have no locks. Those that matter name one or
# include a header that does, since what is guarded is declared there.
set -euo pipefail

source="$1" stamp="$2" prelude="$3"
shift 3

locks='GUARDED_BY|LOCKS_REQUIRED|LOCKS_EXCLUDED|LOCK_FUNCTION|MutexLock'
mapfile -t headers < <(sed -nE 's/^ *# *include *"([^"]*)".*/\1/p' "$source" |
  grep -vx 'core/base/mutex\.h')
# Headers of other projects are not found below the root (-s), and have no locks of ours.
if grep -qsE "$locks" "$source" "${headers[@]}"; then
  # Without the prelude when it does not fit (another clang, other headers than it was made of).
  clang++ -fsyntax-only "$@" -include-pch "$prelude" "$source" 2>/dev/null ||
    clang++ -fsyntax-only "$@" "$source"
fi
touch "$stamp"
