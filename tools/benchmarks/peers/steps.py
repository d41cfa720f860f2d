"""What the peers' programs share: their arguments, the start file, timing, and the line that they print."""

import argparse
import json
import resource
import statistics
import time

WARM_UP = 5
CHECKED_STEPS = 20


def arguments(variants):
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--variant", choices=variants, default=variants[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--start", required=True,
                        help="the .npz file with the weights and the batch, from model_steps --save")
    parser.add_argument("--check", action="store_true",
                        help="print the losses of the first steps instead of timing")
    parser.add_argument("--inference", action="store_true")
    return parser.parse_args()


def run(options, step):
    """Does with `step`, which gives the loss or the outputs as numbers, what the options say."""
    if options.check:
        print(json.dumps({"losses": [float(step()) for _ in range(CHECKED_STEPS)]}))
        return
    step()
    print("first step", flush=True)
    if options.seconds <= 0:
        return
    for _ in range(WARM_UP - 1):
        step()
    times = []
    end = time.perf_counter() + options.seconds
    while not times or time.perf_counter() < end:
        begin = time.perf_counter()
        step()
        times.append((time.perf_counter() - begin) * 1e3)
    times.sort()
    print(json.dumps({
        "median_ms": statistics.median(times),
        "p10_ms": times[int(0.1 * (len(times) - 1))],
        "p90_ms": times[int(0.9 * (len(times) - 1))],
        "steps": len(times),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }))
