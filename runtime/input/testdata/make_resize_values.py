#!/usr/bin/env python3
"""Writes resize_values.json: images and what TensorFlow's tf.image.resize makes of them.

Needs a Python with the tensorflow package. Run it from anywhere; it replaces the file beside it.
"""

import json
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np  # pylint: disable=wrong-import-position
import tensorflow as tf  # pylint: disable=wrong-import-position

FILE = pathlib.Path(__file__).resolve().with_name("resize_values.json")
CASES = [((3, 4, 1), (3, 4)), ((3, 4, 3), (6, 8)), ((5, 7, 2), (3, 2)), ((1, 1, 3), (2, 3)),
         ((4, 6, 1), (7, 5)), ((9, 2, 1), (1, 1))]


def main():
    random = np.random.default_rng(1)
    cases = []
    for shape, size in CASES:
        image = random.integers(0, 256, shape, dtype=np.uint8)
        resized = tf.image.resize(image, size, method="bilinear", antialias=False).numpy()
        cases.append({
            "shape": shape,
            "image": image.reshape(-1).tolist(),
            "size": size,
            "resized": [float(f"{v:.9g}") for v in resized.reshape(-1)],
        })
    with open(FILE, "w", encoding="utf-8") as out:
        json.dump({"tensorflow": tf.__version__, "cases": cases}, out)
        out.write("\n")


if __name__ == "__main__":
    main()
