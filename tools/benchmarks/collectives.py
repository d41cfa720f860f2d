"""All-reduce between processes of this host: Tandem beside torch.distributed over gloo.

    bazel build //tools:tandem
    python3 tools/benchmarks/collectives.py --torch_python=VENV/bin/python

The two run in turns, so that both see the same machine; medians of the rounds are compared. A ratio above 1
says how many times quicker Tandem is.
"""

import argparse
import collections
import json
import os
import statistics
import subprocess
import sys


def run(command):
    """Microseconds by (members, bytes)."""
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    times = {}
    for line in output.splitlines():
        entry = json.loads(line)
        times[entry["members"], entry["bytes"]] = entry["microseconds"]
    return times


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--torch_python", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--tandem", default=os.path.join(here, "../../bazel-bin/tools/tandem"))
    parser.add_argument("--transports", default="shm,tcp")
    parser.add_argument("--members", default="2,4")
    parser.add_argument("--sizes", default="1024,16384,262144,4194304,16777216,67108864")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    form = [f"--members={arguments.members}", f"--sizes={arguments.sizes}"]
    transports = arguments.transports.split(",")
    times = collections.defaultdict(lambda: collections.defaultdict(list))
    for _ in range(arguments.rounds):
        commands = {"gloo": [arguments.torch_python, os.path.join(here, "gloo_allreduce.py")] + form}
        for transport in transports:
            commands[transport] = [
                arguments.tandem, "bench", "collectives", "--json", f"--transport={transport}"
            ] + form
        for name, command in commands.items():
            for key, value in run(command).items():
                times[key][name].append(value)
    columns = "".join(f"{name:>12}" for name in ["gloo us"] + [t + " us" for t in transports])
    print(f"{'members':>8}{'bytes':>10}{columns}" + "".join(f"{t + ' ratio':>12}" for t in transports))
    for (members, size), by_name in sorted(times.items()):
        medians = {name: statistics.median(values) for name, values in by_name.items()}
        line = f"{members:>8}{size:>10}" + "".join(f"{medians[n]:>12.1f}" for n in ["gloo"] + transports)
        print(line + "".join(f"{medians['gloo'] / medians[t]:>12.2f}" for t in transports))


if __name__ == "__main__":
    main()
