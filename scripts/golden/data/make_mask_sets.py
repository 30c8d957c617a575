#!/usr/bin/env python3
"""Writes tests/golden/masks/coco.json: an instances file with masks of every form, each with the area and the
box that pycocotools computes for it.

    pip install numpy pycocotools && python3 scripts/golden/data/make_mask_sets.py
"""
import json
import math
import pathlib
import random

from pycocotools import mask

SIZES = [(20, 30), (31, 17), (120, 160), (1, 40)]


def polygon(r, h, w):
    corners, x, y = r.choice([3, 4, 7, 25]), r.uniform(0, w), r.uniform(0, h)
    size = r.uniform(1, max(h, w))
    points = []
    for i in range(corners):
        turn, length = 2 * math.pi * i / corners, size * r.uniform(0.5, 1)
        points += [x + length * math.cos(turn), y + length * math.sin(turn)]
    return [round(v, r.choice([0, 2, 15])) for v in points]


def counts(r, h, w):
    result, left = [0] * r.randrange(2), h * w
    while left > 0:
        result.append(min(left, r.choice([1, 2, h, 3 * h + 1, r.randrange(1, h * w + 1)])))
        left -= result[-1]
    return result


def main():
    r = random.Random(3)
    images = [{"id": i + 1, "file_name": f"{i + 1}.png", "height": h, "width": w} for i, (h, w) in enumerate(SIZES)]
    annotations = []
    while len(annotations) < 80:
        image = r.choice(images)
        h, w = image["height"], image["width"]
        form = len(annotations) % 4
        if form < 2:
            segmentation = [polygon(r, h, w) for _ in range(r.choice([1, 1, 2, 4]))]
            encoded = mask.merge(mask.frPyObjects(segmentation, h, w))
        else:
            segmentation = {"size": [h, w], "counts": counts(r, h, w)}
            encoded = mask.frPyObjects(segmentation, h, w)
            if form == 3:
                segmentation["counts"] = encoded["counts"].decode()
        area = int(mask.area(encoded))
        if area == 0:
            continue
        annotations.append({"id": len(annotations) + 1, "image_id": image["id"], "category_id": 1, "iscrowd": form // 2,
                            "segmentation": segmentation, "area": area,
                            "bbox": [int(v) for v in mask.toBbox(encoded)]})
    path = pathlib.Path(__file__).resolve().parents[3] / "tests/golden/masks/coco.json"
    with path.open("w") as file:
        file.write('{"images":' + json.dumps(images) + ',\n"annotations":[\n')
        file.write(",\n".join(json.dumps(a) for a in annotations))
        file.write('],\n"categories":[{"id":1,"name":"thing"}]}\n')


if __name__ == "__main__":
    main()
