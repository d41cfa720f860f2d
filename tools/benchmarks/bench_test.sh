#!/usr/bin/env bash
# Runs the tests of tools/bench's program.
exec python3 -B tools/benchmarks/bench_test.py
