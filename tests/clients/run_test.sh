#!/usr/bin/env bash
# run_test.sh FILE: runs a file of tests with the environment that tools/lib/venv.sh made.
set -euo pipefail

if [[ ! -x "${TANDEM_CLIENTS_PYTHON:-}" ]]; then
  echo "TANDEM_CLIENTS_PYTHON names no Python; use tools/test --long --part=clients, or" >&2
  echo "  bazel test --test_env=TANDEM_CLIENTS_PYTHON=\"\$(tools/lib/venv.sh)\" //tests/clients/..." >&2
  exit 1
fi
# Keras makes a folder in it.
export HOME="$TEST_TMPDIR"
exec "$TANDEM_CLIENTS_PYTHON" -B tests/clients/run_tests.py "$1"
