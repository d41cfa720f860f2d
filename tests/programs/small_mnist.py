#!/usr/bin/env python3
"""small_mnist.py FOLDER: writes 128 images to train with and 64 to test with, in MNIST's files."""
import random
import struct
import sys

random.seed(1)
for name, count in (("train", 128), ("t10k", 64)):
    with open(f"{sys.argv[1]}/{name}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">IIII", 0x803, count, 28, 28))
        file.write(bytes(random.randrange(256) for _ in range(count * 28 * 28)))
    with open(f"{sys.argv[1]}/{name}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">II", 0x801, count))
        file.write(bytes(i % 10 for i in range(count)))
