#!/usr/bin/env python3
"""Writes arrays.npz, arrays_compressed.npz and arrays_zip64.npz, as NumPy and Python write them.

Needs a Python with NumPy. Run it from anywhere; it replaces the files beside it.
"""

import io
import pathlib
import zipfile

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent
ARRAYS = {
    "floats": np.arange(6, dtype=np.float32).reshape(2, 3),
    "layer/kernel": np.arange(500, dtype=np.int64) % 7,
    "text": np.array(["ab", "c"]),
    "empty": np.zeros((0, 4), np.uint8),
    "scalar": np.float64(2.5),
}


def main():
    np.savez(FOLDER / "arrays.npz", **ARRAYS)
    np.savez_compressed(FOLDER / "arrays_compressed.npz", **ARRAYS)
    # From 10 bytes on everything is written in 64 bits, in the list of members too.
    zipfile.ZIP64_LIMIT = 10
    with zipfile.ZipFile(FOLDER / "arrays_zip64.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = b"a comment"
        archive.writestr("notes.txt", "not an array")
        for name, array in ARRAYS.items():
            file = io.BytesIO()
            np.save(file, array)
            archive.writestr(name + ".npy", file.getvalue())


if __name__ == "__main__":
    main()
