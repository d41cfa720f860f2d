#!/usr/bin/env python3
"""Writes image_values.json: PNG and JPEG files and the pixels that TensorFlow decodes from them.

Needs a Python with the tensorflow package. Run it from anywhere; it replaces the file beside it.
"""

import json
import os
import pathlib
import random
import struct
import zlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np  # pylint: disable=wrong-import-position
import tensorflow as tf  # pylint: disable=wrong-import-position

FILE = pathlib.Path(__file__).resolve().with_name("image_values.json")
GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGBA: 4}
# Passes of an interlaced PNG: first column and row, steps between columns and rows.
PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
          (0, 1, 1, 2)]


def chunk(name, content):
    body = name + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))


def packed_rows(pixels, depth):
    """Rows of [height, width, channels] with filter 0 in front of each."""
    out = b""
    for row in pixels:
        bits = "".join(format(int(v), f"0{depth}b") for v in row.reshape(-1))
        bits += "0" * (-len(bits) % 8)
        out += b"\0" + int(bits, 2).to_bytes(len(bits) // 8, "big")
    return out


def png(pixels, color, depth, palette=b"", transparency=b"", interlaced=False):
    height, width = pixels.shape[:2]
    if interlaced:
        parts = [pixels[y::dy, x::dx] for x, y, dx, dy in PASSES]
        data = b"".join(packed_rows(p, depth) for p in parts if p.size)
    else:
        data = packed_rows(pixels, depth)
    out = b"\x89PNG\r\n\x1a\n"
    out += chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced))
    if palette:
        out += chunk(b"PLTE", palette)
    if transparency:
        out += chunk(b"tRNS", transparency)
    return out + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b"")


cases = []


def add(name, file, decoded, channels, dtype):
    pixels = decoded.numpy()
    cases.append({"name": name, "file": file.hex(), "channels": channels, "dtype": dtype,
                  "shape": list(pixels.shape), "pixels": pixels.reshape(-1).tolist()})


def add_png(name, file, narrow=False):
    # To pixels of less than 8 bits TensorFlow adds an alpha of all bits of that width, which is
    # nearly transparent; there Tandem's is opaque.
    for channels in (0, 1, 3) if narrow else (0, 1, 3, 4):
        for dtype in ("uint8", "uint16"):
            add(name, file, tf.io.decode_png(file, channels, tf.as_dtype(dtype)), channels, dtype)


def main():
    rng = random.Random(1)

    def noise(height, width, channels, depth):
        return np.array([rng.randrange(2**depth) for _ in range(height * width * channels)]
                        ).reshape(height, width, channels)

    for color, depths in ((GRAY, (1, 2, 4, 8, 16)), (RGB, (8, 16)), (PALETTE, (1, 2, 4, 8)),
                          (GRAY_ALPHA, (8, 16)), (RGBA, (8, 16))):
        for depth in depths:
            palette = rng.randbytes(3 * 2**min(depth, 5)) if color == PALETTE else b""
            pixels = noise(3, 5, CHANNELS[color], min(depth, 5) if palette else depth)
            add_png(f"color {color}, {depth} bits", png(pixels, color, depth, palette), depth < 8)
    palette = rng.randbytes(12)
    pixels = noise(4, 4, 1, 2)
    add_png("palette with transparency", png(pixels, PALETTE, 2, palette, b"\x00\x80"))
    add_png("gray with transparency", png(pixels, GRAY, 2, b"", b"\x00\x02"))
    add_png("interlaced", png(noise(9, 11, 3, 8), RGB, 8, interlaced=True))
    add_png("interlaced bits", png(noise(7, 3, 1, 1), GRAY, 1, interlaced=True), True)
    add_png("one pixel", png(noise(1, 1, 4, 8), RGBA, 8, interlaced=True))

    # Smooth, so that rounding stays small.
    y, x = np.mgrid[0:19, 0:21]
    colors = np.stack([x * 12, y * 13, 255 - x * 5 - y * 5], -1).astype(np.uint8)
    for name, options in (("baseline", {}), ("progressive", {"progressive": True}),
                          ("full colour", {"chroma_downsampling": False}),
                          ("low quality", {"quality": 10})):
        for format_name, image in (("rgb", colors), ("grayscale", colors[:, :, :1])):
            file = tf.io.encode_jpeg(image, format=format_name, **options).numpy()
            for channels in (0, 1, 3):
                add(f"JPEG {name} {format_name}", file,
                    tf.io.decode_jpeg(file, channels, dct_method="INTEGER_ACCURATE"), channels,
                    "uint8")
    text = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    FILE.write_text(f'{{"tensorflow":"{tf.__version__}","cases":[\n{text}\n]}}\n')


if __name__ == "__main__":
    main()
