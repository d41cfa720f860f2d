#!/usr/bin/env bash
# tools/lib/venv.sh [NAME] - a Python environment with packages from PyPI
#
# clients   TensorFlow and TensorBoard, for tests/clients and tools/bench (1.7 GB); the default
# torch     PyTorch, for tools/bench (5.4 GB)
#
# Makes it where it is missing (some minutes) and prints the path of its interpreter. It lies in the
# cache folder, under a name with a hash of tools/lib/requirements-NAME.txt and of Python's version;
# those that nobody has used for a month go. Several runs at once wait for each other.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

name="${1:-clients}"
REQUIREMENTS="tools/lib/requirements-$name.txt"
[[ -f "$REQUIREMENTS" ]] || die "there is no environment '$name'; there are clients and torch"

python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages >&2
hash="$({ python3 --version; cat "$REQUIREMENTS"; } | sha256sum | cut -c1-12)"
folder="$TANDEM_CACHE/venv-$name-$hash"

mkdir -p "$TANDEM_CACHE" || die "the folder $TANDEM_CACHE cannot be made"
exec {lock}>"$TANDEM_CACHE/venv-$name.lock"
flock "$lock"

# The last thing that is written: without it the environment is a half one.
complete="$folder/complete"
if [[ ! -e "$complete" ]]; then
  say "making a Python environment in $folder" >&2
  rm -rf "$folder"
  log="$TANDEM_CACHE/venv-$name.log"
  if ! { python3 -m venv "$folder" &&
    "$folder/bin/python" -m pip install --disable-pip-version-check --no-input \
      -r "$REQUIREMENTS"; } >"$log" 2>&1 </dev/null; then
    tail -n 15 "$log" >&2
    rm -rf "$folder"
    die "what $REQUIREMENTS lists could not be installed from PyPI (the whole log: $log). Tests" \
      "without TensorFlow: tools/test --long --no_tensorflow"
  fi
  touch "$complete"
fi
touch "$folder"
find "$TANDEM_CACHE" -maxdepth 1 -name "venv-$name-*" -type d -mtime +30 ! -path "$folder" \
  -exec rm -rf {} + 2>/dev/null || true
printf '%s\n' "$folder/bin/python"
