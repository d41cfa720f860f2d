# The disk cache of Bazel's results: a fresh clone or another branch compiles only what no tree of
# this user has compiled before. Nothing depends on it; where it cannot be written there is none.
#
# TANDEM_CACHE_MB is its size (default 12288, 0 for no cache). Bazel never shrinks it, so
# prune_cache does.

use_cache() {
  local folder="$TANDEM_CACHE/bazel-disk" rc='' megabytes="${TANDEM_CACHE_MB:-12288}"
  [[ "$megabytes" =~ ^[0-9]+$ ]] || die "TANDEM_CACHE_MB=$megabytes: expected a whole number"
  if ((megabytes > 0)); then
    if mkdir -p "$folder" 2>/dev/null && [[ -w "$folder" && "$folder" != *[[:space:]]* ]]; then
      rc="build --disk_cache=$folder"
    else
      say "no disk cache: $folder cannot be written (or has a space in its name)"
    fi
  fi
  # A plain `bazel build` reads the same file (.bazelrc).
  if [[ "$(cat .bazelrc.user 2>/dev/null)" != "$rc" ]] || [[ ! -e .bazelrc.user ]]; then
    printf '%s\n' "$rc" >.bazelrc.user 2>/dev/null ||
      say "no disk cache: $TANDEM_ROOT/.bazelrc.user cannot be written"
  fi
}

# Removes the files that nobody has used for longest until the cache fits. An entry that loses a
# part is a miss to Bazel, no error, also to one that is running.
prune_cache() {
  local folder="$TANDEM_CACHE/bazel-disk" megabytes="${TANDEM_CACHE_MB:-12288}"
  [[ -w "$folder" ]] || return 0
  # Time of last use (the later of reading and writing), size, name; newest first.
  find "$folder" -type f -printf '%A@ %T@ %s %p\n' 2>/dev/null |
    awk '{ print ($1 > $2 ? $1 : $2), $3, $4 }' | sort -rn |
    awk -v cap="$((megabytes * 1024 * 1024))" '(used += $2) > cap { print $3 }' |
    xargs -r rm -f 2>/dev/null || true
}
