#!/usr/bin/env python3
"""Writes tests/golden/resize/: the results of Pillow's Image.resize, bilinear and bicubic, for pictures made
by a formula.

Needs Pillow and torchvision (pip install pillow torchvision). cases.txt has one line per case:
  filter height width new_height new_width seed fnv1a64-of-the-result
small.bin is the result of the first case, byte for byte.
center.txt holds, in the same way, what timm and torchvision do to an image that a classifier is evaluated on:
the short side is resized to floor(size / share), then the centre is cut out. A line: filter height width size
share seed hash.
"""
import math
import pathlib

from PIL import Image, __version__
from torchvision import transforms

CASES = [
    (17, 23, 9, 31), (23, 17, 40, 8), (1, 1, 5, 7), (5, 7, 1, 1), (64, 48, 64, 20), (64, 48, 20, 48), (64, 48, 64, 48),
    (100, 133, 33, 44), (100, 133, 101, 134), (97, 61, 193, 121), (480, 640, 320, 426), (480, 640, 800, 1066),
    (427, 640, 512, 767), (3, 500, 7, 33), (500, 3, 33, 7), (240, 320, 239, 319), (333, 500, 50, 75), (2, 2, 300, 301),
]

CENTERS = [(100, 100, 64, 0.875), (97, 131, 64, 0.9), (131, 97, 64, 0.9), (40, 30, 64, 1.0), (300, 75, 56, 0.875),
           (375, 500, 224, 0.875)]


def picture(height, width, seed):
    """Byte i is the top byte of a multiplicative hash: half noise, half a slow ramp."""
    out = bytearray(height * width * 3)
    for i in range(len(out)):
        noise = ((i + 1) * 2654435761 + seed * 40503) % (1 << 32) >> 24
        ramp = (i // 3 * 7 // width + i % 3 * 40 + seed) % 256
        out[i] = noise if (i // 97) % 2 else ramp
    return bytes(out)


def fnv1a(data):
    h = 0xCBF29CE484222325
    for b in data:
        h = ((h ^ b) * 0x100000001B3) % (1 << 64)
    return h


def main():
    folder = pathlib.Path(__file__).resolve().parents[3] / "tests/golden/resize"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"# Pillow {__version__}, scripts/golden/data/make_resize.py"]
    for name, filter in (("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC)):
        for seed, (h, w, oh, ow) in enumerate(CASES):
            image = Image.frombytes("RGB", (w, h), picture(h, w, seed))
            result = image.resize((ow, oh), filter).tobytes()
            lines.append(f"{name} {h} {w} {oh} {ow} {seed} {fnv1a(result):016x}")
            if len(lines) == 2:
                (folder / "small.bin").write_bytes(result)
    (folder / "cases.txt").write_text("\n".join(lines) + "\n")
    lines = [f"# Pillow {__version__}, scripts/golden/data/make_resize.py"]
    modes = transforms.InterpolationMode
    for name, filter in (("bilinear", modes.BILINEAR), ("bicubic", modes.BICUBIC)):
        for seed, (h, w, size, share) in enumerate(CENTERS):
            image = Image.frombytes("RGB", (w, h), picture(h, w, seed))
            steps = [transforms.Resize(math.floor(size / share), filter), transforms.CenterCrop(size)]
            result = transforms.Compose(steps)(image).tobytes()
            lines.append(f"{name} {h} {w} {size} {share} {seed} {fnv1a(result):016x}")
    (folder / "center.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
