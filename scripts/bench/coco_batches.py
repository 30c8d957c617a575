#!/usr/bin/env python3
"""Prints coco_batches.txt: the sizes of 200 training batches of four COCO images after DETR's resizing (short
side one of 480, 512, ... 800, long side at most 1333), one batch per line as "height width height width ...".
The images' sizes come from the given COCO annotation files: coco_batches.py instances_train2017.json ... >
coco_batches.txt
The committed file is drawn from the 123 images of a free subset of COCO 2017 (57 of train, 66 of val).
"""
import json
import random
import sys

sizes = []
for path in sys.argv[1:]:
    with open(path) as file:
        sizes += [(image["height"], image["width"]) for image in json.load(file)["images"]]
random.seed(2017)
for _ in range(200):
    batch = []
    for _ in range(4):
        height, width = random.choice(sizes)
        short, long = min(height, width), max(height, width)
        side = min(random.choice(range(480, 801, 32)), round(1333 * short / long))
        batch += [min(round(length * side / short), 1333) for length in (height, width)]
    print(*batch)
