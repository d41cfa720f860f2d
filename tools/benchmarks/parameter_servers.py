#!/usr/bin/env python3
"""Parameter servers beside TensorFlow's: parameter_servers.py DEMO [--rounds=N] [-- FLAG …]

Trains the demo's CNN asynchronously on two workers and two servers, all processes of this host, in turn
with Tandem (DEMO is tools/demo_main; one epoch of MNIST) and with TensorFlow's ParameterServerStrategy.
Both use Adam and batches of 64. Prints steps a second, and ratios. FLAGs are for the demo.

    bazel build //tools:demo_main
    $(tools/lib/venv.sh) tools/benchmarks/parameter_servers.py bazel-bin/tools/demo_main
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH = 64


def tandem(demo, flags):
    output = subprocess.run(
        [demo, "--strategy=parameter_server", "--workers=2", "--servers=2", "--epochs=1",
         f"--batch_size={BATCH}", *flags],
        check=True, stdout=subprocess.PIPE, text=True).stdout
    rate = re.search(r"([0-9.]+) examples/s", output)
    accuracy = re.search(r"test accuracy ([0-9.]+)", output)
    if not rate or not accuracy:
        sys.exit(f"the demo printed no rate or accuracy:\n{output}")
    return float(rate.group(1)) / BATCH, float(accuracy.group(1))


def tensorflow():
    output = subprocess.run(
        [sys.executable, os.path.join(HERE, "peers", "tensorflow_parameter_servers.py")],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return json.loads(output.strip().splitlines()[-1])["steps_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("demo")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("flags", nargs="*")
    options = parser.parse_args()
    ours, theirs = [], []
    for _ in range(options.rounds):
        rate, accuracy = tandem(os.path.abspath(options.demo), options.flags)
        ours.append(rate)
        theirs.append(tensorflow())
        print(f"Tandem {ours[-1]:.1f} steps/s (accuracy after it {accuracy:.2f} %), "
              f"TensorFlow {theirs[-1]:.1f} steps/s, ratio {ours[-1] / theirs[-1]:.2f}", flush=True)
    ratios = [a / b for a, b in zip(ours, theirs)]
    print(f"medians: {statistics.median(ours):.1f} and {statistics.median(theirs):.1f} steps/s, "
          f"{statistics.median(ratios):.2f} times as quick "
          f"({min(ratios):.2f} to {max(ratios):.2f}); wanted 1.5")


if __name__ == "__main__":
    main()
