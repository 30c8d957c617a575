#!/usr/bin/env python3
"""Writes tests/golden/masks/cases.txt: random masks and the results of pycocotools and Pillow for them.

    pip install numpy pillow pycocotools && python3 scripts/golden/data/make_masks.py

A line makes a mask, numbered by the masks before it, or applies an operation to masks of these numbers. After
"=" comes the result: the compressed text last, for a new mask preceded by its area and box (x, y, width,
height):
  polygons height width count (coordinates coordinate ...) ... | box height width x y w h
  counts height width count count ... | iou detection object crowd = value | or a b | and a b | flip a
  crop a y x height width | resize a height width
"""
import math
import pathlib
import random
from importlib.metadata import version

import numpy as np
from PIL import Image
from pycocotools import mask

SIZES = [(1, 1), (1, 9), (7, 1), (5, 4), (16, 24), (24, 16), (33, 47), (60, 80), (90, 70)]

# In an image of 12 x 12: a lattice point of the outline lies halfway, and fused multiply-adds round it to the
# other side.
HALFWAY = [
    [3.4, 5.2, 7, 4.8, -0.6, -0.2], [4, 11.8, 10.2, -0.8, -2, 6.4], [7, 10.8, 7.2, 3.2, 1.6, -0.4],
    [1.4, -1.8, 1.6, 1, -0.8, 8.2], [0.6, 10.6, 9.6, 0.6, 10, -0.8], [8, -1.4, -1.8, 8.4, 3.2, 2.2],
    [-0.2, 8.4, 6.8, 4.4, -0.2, -1.6], [10, 1.6, 1.2, -0.6, -1, -0.4],
]


def polygon(r, h, w):
    corners = r.choice([3, 4, 5, 9, 20])
    kind = r.randrange(5)
    if kind == 0:  # an object, partly outside
        x, y, size = r.uniform(0, w), r.uniform(0, h), r.uniform(0.5, max(h, w))
        turns = [2 * math.pi * i / corners for i in range(corners)]
        points = [(x + size * r.uniform(0.6, 1) * math.cos(t), y + size * r.uniform(0.6, 1) * math.sin(t)) for t in turns]
    elif kind == 1:  # crossing itself and the borders
        points = [(r.uniform(-w, 2 * w), r.uniform(-h, 2 * h)) for _ in range(corners)]
    elif kind == 2:  # on the borders and twice in the same place
        points = [(r.choice([0, w, w - 1, w / 2]), r.choice([0, h, h - 1, h / 2])) for _ in range(corners)]
    elif kind == 3:  # on the fine lattice and halfway between its points
        points = [(r.randrange(-10, 10 * w + 10) / 10, r.randrange(-10, 10 * h + 10) / 10) for _ in range(corners)]
    else:  # far outside
        points = [(r.uniform(-3000, 3000), r.uniform(-3000, 3000)) for _ in range(corners)]
    return [round(v, 2) for p in points for v in p]


def counts(r, h, w):
    result, left = [0] * r.randrange(2), h * w
    while left > 0:
        result.append(min(left, r.choice([1, 2, h, 3 * h + 1, r.randrange(1, h * w + 1)])))
        left -= result[-1]
    return result


def make_mask(r, h, w, polygons=None):
    kind = "polygons" if polygons else r.choice(["polygons", "polygons", "box", "counts"])
    if kind == "polygons":
        polygons = polygons or [polygon(r, h, w) for _ in range(r.choice([1, 1, 1, 2, 4]))]
        numbers = [len(polygons)] + [v for p in polygons for v in [len(p)] + p]
        result = mask.merge(mask.frPyObjects(polygons, h, w))
    elif kind == "box":
        numbers = [round(r.uniform(-3, v), r.choice([0, 1, 3])) for v in (w, h)]
        numbers += [round(r.uniform(0, v), r.choice([0, 1, 3])) for v in (w, h)]
        result = mask.frPyObjects(np.array([numbers]), h, w)[0]
    else:
        numbers = counts(r, h, w)
        result = mask.frPyObjects({"size": [h, w], "counts": numbers}, h, w)
        numbers = [len(numbers)] + numbers
    facts = [int(mask.area(result))] + [int(v) for v in mask.toBbox(result)] + [text_of(result)]
    return result, join(kind, h, w, *numbers, "=", *facts)


def join(*words):
    return " ".join(map(str, words))


def text_of(encoded):
    return encoded["counts"].decode()


def text_of_bitmap(bitmap):
    return text_of(mask.encode(np.asfortranarray(bitmap)))


def operations(r, masks, first, h, w):
    for object_ in range(3):
        crowd = r.randrange(2)
        for detection, value in enumerate(mask.iou(masks, [masks[object_]], [crowd])[:, 0]):
            yield join("iou", first + detection, first + object_, crowd, "=", float(value))
    for a in range(len(masks)):
        b, bitmap = r.randrange(len(masks)), mask.decode(masks[a])
        yield join("or", first + a, first + b, "=", text_of(mask.merge([masks[a], masks[b]])))
        yield join("and", first + a, first + b, "=", text_of(mask.merge([masks[a], masks[b]], intersect=True)))
        yield join("flip", first + a, "=", text_of_bitmap(bitmap[:, ::-1]))
        y, x = r.randrange(-h, h), r.randrange(-w, w)
        height, width = r.randrange(1, 2 * h + 1), r.randrange(1, 2 * w + 1)
        plane = np.pad(bitmap, ((h, 3 * h), (w, 3 * w)))[y + h:y + h + height, x + w:x + w + width]
        yield join("crop", first + a, y, x, height, width, "=", text_of_bitmap(plane))
        resized = Image.fromarray(bitmap).resize((width, height), Image.NEAREST)
        yield join("resize", first + a, height, width, "=", text_of_bitmap(np.array(resized)))


def main():
    r = random.Random(7)
    versions = ", ".join(f"{p} {version(p)}" for p in ["pycocotools", "pillow"])
    lines = [f"# {versions}, scripts/golden/data/make_masks.py"]
    groups = [(h, w, [make_mask(r, h, w) for _ in range(5)]) for _ in range(4) for h, w in SIZES]
    groups.append((12, 12, [make_mask(r, 12, 12, [p]) for p in HALFWAY]))
    made = 0
    for h, w, masks in groups:
        lines += [line for _, line in masks]
        lines += operations(r, [encoded for encoded, _ in masks], made, h, w)
        made += len(masks)
    path = pathlib.Path(__file__).resolve().parents[3] / "tests/golden/masks/cases.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    print(len(lines), made, path.stat().st_size)


if __name__ == "__main__":
    main()
