#!/bin/sh
# Makes the Python environment that generate.py needs: TensorFlow, whose results the golden
# files record. Only needed to regenerate them; the tests themselves use no Python.
# Running it again costs nothing when the environment is already there.
set -eu

venv="${XDG_CACHE_HOME:-$HOME/.cache}/tandem/venv-tf"
version=2.21.0

if "$venv/bin/python" -c "
import importlib.metadata, sys
sys.exit(importlib.metadata.version('tensorflow-cpu') != '$version')" 2>/dev/null; then
  echo "$venv has TensorFlow $version"
  exit 0
fi

mkdir -p "$(dirname "$venv")"
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet "tensorflow-cpu==$version"
echo "$venv has TensorFlow $version"
