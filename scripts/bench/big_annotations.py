#!/usr/bin/env python3
"""Writes annotation files of the size of COCO's train2017 (118,287 images, 860,001 boxes, with
segmentations): OUT/big.json, OUT/big.csv.

Usage: scripts/bench/big_annotations.py OUT
How long one takes to open, and how much memory that needs:
  /usr/bin/time -v build/saccade summary --config configs/deformable_detr_r50.textproto --set model.num_classes=0 \\
    --set data.train.annotations=OUT/big.json
"""
import pathlib
import random
import sys

IMAGES, BOXES, CLASSES = 118_287, 860_001, 80


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: big_annotations.py OUT")
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    with open(out / "big.json", "w", encoding="utf-8") as json, open(out / "big.csv", "w", encoding="utf-8") as csv:
        json.write('{"images": [')
        csv.write("file_name,width,height,class,x1,y1,x2,y2\n")
        for i in range(IMAGES):
            json.write(("," if i else "") + f'{{"license": 3, "file_name": "{i:012}.jpg", "coco_url": '
                       f'"http://images.cocodataset.org/train2017/{i:012}.jpg", "height": 480, "width": 640, "date_captured": '
                       f'"2013-11-14 11:18:45", "id": {i + 1}}}')
        json.write('], "annotations": [')
        for k in range(BOXES):
            i, c = draw.randrange(IMAGES), draw.randrange(CLASSES)
            x, y = round(draw.uniform(0, 500), 2), round(draw.uniform(0, 400), 2)
            w, h = round(draw.uniform(1, 140), 2), round(draw.uniform(1, 80), 2)
            corners = ", ".join(f"{round(draw.uniform(0, 480), 2)}" for _ in range(60))
            json.write(("," if k else "") + f'{{"segmentation": [[{corners}]], "area": {w * h / 2:.4f}, "iscrowd": 0, '
                       f'"image_id": {i + 1}, "bbox": [{x}, {y}, {w}, {h}], "category_id": {c + 1}, "id": {k + 1}}}')
            csv.write(f"{i:012}.jpg,640,480,class {c},{x},{y},{x + w:.2f},{y + h:.2f}\n")
        json.write('], "categories": [' + ", ".join(f'{{"id": {c + 1}, "name": "class {c}"}}' for c in range(CLASSES)) + "]}")


if __name__ == "__main__":
    main()
