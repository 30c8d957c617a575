#!/usr/bin/env python3
"""Writes tests/golden/augment/: the results of torchvision's v2 operations on Pillow images, and of torch's
nearest interpolation, for pictures made by a formula (make_resize.py) and numbers given in the file.

Needs torch, torchvision and Pillow (pip install torch torchvision pillow). cases.txt has one line per
case:
  photometric height width seed brightness contrast saturation hue contrast_first channels fnv1a64
    ("-": not changed)
  nearest height width new_height new_width seed fnv1a64
  affine height width seed degrees x y scale x1 y1 x2 y2, and the box that they become
affine.bin holds the pixels of the affine cases, one after the other: at a tie another pixel may be the
nearest.
"""
import pathlib

import PIL
import torch
import torchvision
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

from make_resize import fnv1a, picture

PHOTOMETRIC = [
    (0.875, None, None, None, 0, "012"), (1.125, None, None, None, 0, "012"), (None, 0.5, None, None, 0, "012"),
    (None, 1.4321, None, None, 1, "012"), (None, None, 0.5, None, 0, "012"), (None, None, 1.4999, None, 0, "012"),
    (None, None, None, 0.05, 0, "012"), (None, None, None, -0.05, 0, "012"), (None, None, None, 0.0031, 0, "012"),
    (None, None, None, None, 0, "201"), (1.07, 0.77, 1.3, 0.031, 1, "120"), (0.93, 1.21, 0.61, -0.0427, 0, "021"),
]
NEAREST = [(640, 640, 480, 480), (640, 640, 800, 800), (64, 48, 43, 32), (37, 53, 70, 100), (20, 20, 20, 20)]
AFFINE = [(60, 80, 0.0, 0, 0, 1.0), (60, 80, 0.0, 5, -3, 1.0), (60, 80, 10.0, 0, 0, 1.0), (60, 80, -7.3, 6, 4, 0.5),
          (51, 33, 4.1, -3, 5, 1.5)]
BOX = (11.0, 13.5, 27.0, 30.25)


def picture_of(height, width, seed):
    return Image.frombytes("RGB", (width, height), picture(height, width, seed))


def photometric(image, brightness, contrast, saturation, hue, contrast_first, channels):
    if brightness is not None:
        image = F.adjust_brightness(image, brightness)
    if contrast is not None and contrast_first:
        image = F.adjust_contrast(image, contrast)
    if saturation is not None:
        image = F.adjust_saturation(image, saturation)
    if hue is not None:
        image = F.adjust_hue(image, hue)
    if contrast is not None and not contrast_first:
        image = F.adjust_contrast(image, contrast)
    if channels != "012":
        image = F.permute_channels(image, [int(c) for c in channels])
    return image


def main():
    folder = pathlib.Path(__file__).resolve().parents[3] / "tests/golden/augment"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"# torch {torch.__version__}, torchvision {torchvision.__version__}, Pillow {PIL.__version__}, "
             "scripts/golden/data/make_augment.py"]
    for seed, case in enumerate(PHOTOMETRIC):
        result = photometric(picture_of(61, 47, seed), *case).tobytes()
        lines.append(" ".join(["photometric 61 47", str(seed)] + ["-" if v is None else str(v) for v in case] +
                              [f"{fnv1a(result):016x}"]))
    for seed, (h, w, oh, ow) in enumerate(NEAREST):
        pixels = torch.frombuffer(bytearray(picture(h, w, seed)), dtype=torch.uint8).reshape(h, w, 3)
        batch = pixels.permute(2, 0, 1)[None].float()
        result = torch.nn.functional.interpolate(batch, size=(oh, ow))[0].permute(1, 2, 0).to(torch.uint8)
        lines.append(f"nearest {h} {w} {oh} {ow} {seed} {fnv1a(bytes(result.flatten().tolist())):016x}")
    pixels = b""
    for seed, (h, w, degrees, x, y, scale) in enumerate(AFFINE):
        options = dict(angle=degrees, translate=[x, y], scale=scale, shear=[0.0, 0.0])
        pixels += F.affine(picture_of(h, w, seed), fill=0, **options).tobytes()
        box = tv_tensors.BoundingBoxes([BOX], format="XYXY", canvas_size=(h, w), dtype=torch.float64)
        box = F.affine(box, **options)[0].tolist()
        lines.append(" ".join(map(str, ["affine", h, w, seed, degrees, x, y, scale, *BOX, *box])))
    (folder / "cases.txt").write_text("\n".join(lines) + "\n")
    (folder / "affine.bin").write_bytes(pixels)


if __name__ == "__main__":
    main()
