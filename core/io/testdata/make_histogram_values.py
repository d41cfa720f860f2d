#!/usr/bin/env python3
"""Writes histogram_values.json: values, and the histograms that TensorFlow makes of them.

Needs a Python with the packages tensorflow and tensorboard. Run it from anywhere; it replaces the
file beside it.
"""

import json
import os
import pathlib
import random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np  # pylint: disable=wrong-import-position
import tensorflow as tf  # pylint: disable=wrong-import-position
from tensorboard.plugins.histogram import summary_v2  # pylint: disable=wrong-import-position

FILE = pathlib.Path(__file__).resolve().with_name("histogram_values.json")


def fixed_edges(values):
    serialized = tf.raw_ops.HistogramSummary(tag="t", values=values).numpy()
    histogram = tf.compat.v1.Summary.FromString(serialized).value[0].histo
    return {"min": histogram.min, "max": histogram.max, "num": histogram.num,
            "sum": histogram.sum, "sum_squares": histogram.sum_squares,
            "limits": list(histogram.bucket_limit), "counts": list(histogram.bucket)}


def equal_buckets(values, buckets):
    summary = summary_v2.histogram_pb("t", values, buckets)
    return tf.make_ndarray(summary.value[0].tensor).reshape(-1).tolist()


def main():
    rng = random.Random(1)
    inputs = {
        "none": [],
        "zero": [0.0],
        "one": [1.0],
        "equal": [2.5] * 7,
        "small integers": [float(i) for i in range(-3, 4)],
        "normal": [rng.gauss(0, 1) for _ in range(300)],
        "many sizes": [10.0 ** rng.uniform(-15, 22) * rng.choice((-1, 1)) for _ in range(100)],
        "edges": [1e-12, -1e-12, 1e20, -1e20, 1.1e-12, 9e-13],
    }
    cases = []
    for name, values in inputs.items():
        values = np.array(values, np.float64)
        cases.append({"name": name, "values": values.tolist(), "histogram": fixed_edges(values),
                      "buckets": {str(n): equal_buckets(values, n) for n in (0, 1, 3, 30)}})
    text = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    FILE.write_text(f'{{"tensorflow":"{tf.__version__}","cases":[\n{text}\n]}}\n')


if __name__ == "__main__":
    main()
