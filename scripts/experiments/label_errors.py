#!/usr/bin/env python3
"""Plants errors in the labels of a COCO list, and counts how many of them `saccade report --label-errors`
finds.

label_errors.py plant LABELS.json PLANTED.json [--seed S] [--count N]
label_errors.py count PLANTED.json label_errors.json

N labels are dropped, N moved by half of their side along one axis, N given another class. A planted error
counts as found if it is reported as what it is: a dropped label by a missing one at an IoU of at least 0.5,
the others by their annotation. docs/labels.md has the numbers.
"""

import argparse
import collections
import json
import random

KINDS = {"dropped": "missing", "moved": "wrong_box", "swapped": "wrong_class"}


def iou(a, b):
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0
    return width * height / (a[2] * a[3] + b[2] * b[3] - width * height)


def moved_box(label, size, draw):
    x, y, w, h = label["bbox"]
    places = [(x + dx * w, y + dy * h) for dx, dy in ((0.5, 0), (-0.5, 0), (0, 0.5), (0, -0.5))]
    places = [(px, py) for px, py in places if px >= 0 and py >= 0 and px + w <= size[0] and py + h <= size[1]]
    return [*draw.choice(places), w, h] if places else None


def plant(labels, count, seed):
    draw = random.Random(seed)
    order = list(labels["annotations"])
    draw.shuffle(order)
    sizes = {i["id"]: (i["width"], i["height"]) for i in labels["images"]}
    classes = [c["id"] for c in labels["categories"]]
    planted = {kind: [] for kind in KINDS}
    for label in order:
        was = {key: label[key] for key in ("id", "image_id", "category_id", "bbox")}
        if len(planted["dropped"]) < count:
            planted["dropped"].append(was)
        elif len(planted["moved"]) < count and (box := moved_box(label, sizes[label["image_id"]], draw)):
            planted["moved"].append(was)
            label["bbox"] = box
        elif len(planted["swapped"]) < count:
            planted["swapped"].append(was)
            label["category_id"] = draw.choice([c for c in classes if c != label["category_id"]])
    dropped = {was["id"] for was in planted["dropped"]}
    labels["annotations"] = [a for a in labels["annotations"] if a["id"] not in dropped]
    labels["planted"] = planted
    return labels


def count_found(planted, errors):
    named = collections.defaultdict(list)
    for e in errors:
        named[e["kind"]].append(e)
    print("planted    as          told  planted among them  found of planted  named at all")
    for kind, word in KINDS.items():
        found, named_at_all = set(), set()
        for was in planted[kind]:
            for e in errors:
                same_place = (
                    e["image_id"] == was["image_id"] and "suggested_bbox" in e and iou(e["suggested_bbox"], was["bbox"]) >= 0.5
                )
                if e.get("annotation_id") == was["id"] or (e["kind"] == "missing" and same_place):
                    named_at_all.add(was["id"])
                    if e["kind"] == word:
                        found.add(was["id"])
        print(
            f"{kind:10} {word:11} {len(named[word]):4}  {len(found):18}  {len(found):7} of {len(planted[kind]):3}  "
            f"{len(named_at_all):5} of {len(planted[kind]):3}"
        )
    print(f"not_found: {len(named['not_found'])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["plant", "count"])
    parser.add_argument("labels")
    parser.add_argument("other")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20)
    arguments = parser.parse_args()
    with open(arguments.labels) as file:
        labels = json.load(file)
    if arguments.what == "plant":
        with open(arguments.other, "w") as file:
            json.dump(plant(labels, arguments.count, arguments.seed), file)
        return
    with open(arguments.other) as file:
        count_found(labels["planted"], json.load(file))


if __name__ == "__main__":
    main()
