#!/usr/bin/env python3
"""Random evaluation cases with pycocotools' metrics, for tests/data/coco_eval_test.cpp.

    pip install pycocotools && python3 scripts/golden/data/make_coco_eval.py tests/golden/coco_eval

Writes NAME.gt.json, NAME.dt.json and NAME.expected.json. Boxes lie on a coarse grid and scores are rounded,
so that overlaps exactly at a threshold and tied scores are frequent.
"""
import json
import random
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import mask_cases
import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

KEYS = ["AP", "AP50", "AP75", "AP_small", "AP_medium", "AP_large",
        "AR_1", "AR_10", "AR_100", "AR_small", "AR_medium", "AR_large"]
# Parameters other than the defaults: area ranges that omit some areas, overlap and are empty, and maxDets.
OWN_RANGES = {"tiny": (0, 128), "mid": (128, 4000.5), "most": (64, 1e10), "none": (3, 3)}
OWN_DETECTIONS = 30


def mean(x):
    x = x[x > -1]
    return float(x.mean()) if x.size else -1.0


def evaluate(gt_path, dt_path, categories=None, own=False, iou="bbox"):
    with redirect_stdout(StringIO()):
        gt = COCO(str(gt_path))
        ev = COCOeval(gt, gt.loadRes(str(dt_path)), iou)
        if categories is not None:
            ev.params.catIds = gt.getCatIds()[:categories]
        if own:
            ev.params.areaRng = [[0, 1e10]] + [list(ends) for ends in OWN_RANGES.values()]
            ev.params.areaRngLbl = ["all"] + list(OWN_RANGES)
            ev.params.maxDets = [1, 10, OWN_DETECTIONS]
        ev.evaluate()
        ev.accumulate()
        if not own:
            ev.summarize()
    return ev


def own_figures(gt_path, dt_path, iou):
    ev = evaluate(gt_path, dt_path, own=True, iou=iou)
    precision, recall = ev.eval["precision"], ev.eval["recall"]
    stats = {"AP": mean(precision[:, :, :, 0, 2]), f"AR_{OWN_DETECTIONS}": mean(recall[:, :, 0, 2])}
    for a, name in enumerate(OWN_RANGES, 1):
        stats[f"AP_{name}"] = mean(precision[:, :, :, a, 2])
        stats[f"AR_{name}"] = mean(recall[:, :, a, 2])
    return {"max_detections": OWN_DETECTIONS, "stats": stats,
            "area_ranges": ",".join(f"{name}:{low}-{high}" for name, (low, high) in OWN_RANGES.items())}


def figures(gt_path, dt_path, iou="bbox"):
    ev = evaluate(gt_path, dt_path, iou=iou)
    precision, recall = ev.eval["precision"], ev.eval["recall"]  # [T, R, K, A, M], [T, K, A, M]
    return {
        "stats": dict(zip(KEYS, map(float, ev.stats))),
        "AP_by_iou_0.50_to_0.95": [mean(precision[t, :, :, 0, 2]) for t in range(10)],
        "per_category": {str(c): {"AP": mean(precision[:, :, k, 0, 2]), "AP50": mean(precision[0, :, k, 0, 2]),
                                  "AR_100": mean(recall[:, k, 0, 2])}
                         for k, c in enumerate(ev.params.catIds)},
        "of_first_two_categories": dict(zip(KEYS, map(float, evaluate(gt_path, dt_path, 2, iou=iou).stats))),
        "own": own_figures(gt_path, dt_path, iou),
    }


def make(seed, images, categories, objects, detections, *, first_image=1, first_annotation=1, grid=4, decimals=1,
         crowd=0.1, noise=2, unused_categories=1):
    r = random.Random(seed)
    ids = [first_image + 7 * i for i in range(images)]
    r.shuffle(ids)
    gt = {"images": [{"id": i, "file_name": f"{i}.jpg", "width": 320, "height": 240} for i in ids],
          "categories": [{"id": 3 * c + 1, "name": f"class{c}"} for c in range(categories)], "annotations": []}

    def box():
        w, h = (grid * r.choice([1, 2, 3, 5, 8, 13, 21, 34]) for _ in range(2))
        return [grid * r.randrange(0, 40), grid * r.randrange(0, 30), w, h]

    used = max(1, categories - unused_categories)
    dt = []
    for i in ids:
        for _ in range(r.randrange(0, objects + 1)):
            b = box()
            gt["annotations"].append({
                "id": first_annotation + len(gt["annotations"]), "image_id": i,
                "category_id": 3 * r.randrange(used) + 1, "bbox": b,
                "area": r.choice([1, 0.7]) * b[2] * b[3], "iscrowd": int(r.random() < crowd)})
    r.shuffle(gt["annotations"])
    by_image = {}
    for a in gt["annotations"]:
        by_image.setdefault(a["image_id"], []).append(a)
    for i in ids:
        for _ in range(r.randrange(0, detections + 1)):
            near = by_image.get(i)
            if near and r.random() < 0.7:
                a = r.choice(near)
                b = [v + grid * r.choice([0, 0, 0, 1, -1, noise]) / 2 for v in a["bbox"]]
                b[2], b[3] = max(b[2], 1), max(b[3], 1)
                c = a["category_id"] if r.random() < 0.8 else 3 * r.randrange(categories) + 1
            else:
                b, c = box(), 3 * r.randrange(categories) + 1
            dt.append({"image_id": i, "category_id": c, "bbox": b, "score": round(r.random(), decimals)})
    r.shuffle(dt)
    return gt, dt


CASES = {
    "ties": dict(seed=1, images=25, categories=5, objects=6, detections=14),
    "crowds": dict(seed=2, images=20, categories=3, objects=8, detections=16, crowd=0.5, decimals=2),
    "many": dict(seed=3, images=3, categories=2, objects=40, detections=400, decimals=3, noise=1),
    "large_ids": dict(seed=4, images=15, categories=4, objects=5, detections=8, first_image=2**40 + 5,
                      first_annotation=2**33),
    "annotation_zero": dict(seed=5, images=8, categories=2, objects=3, detections=6, first_annotation=0, decimals=3),
    "sparse": dict(seed=6, images=12, categories=6, objects=1, detections=1, unused_categories=3),
}


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, options in CASES.items():
        gt, dt = make(**options)
        for kind, value in (("gt", gt), ("dt", dt)):
            (out / f"{name}.{kind}.json").write_text(json.dumps(value, separators=(",", ":")) + "\n")
        expected = figures(out / f"{name}.gt.json", out / f"{name}.dt.json")
        (out / f"{name}.expected.json").write_text(json.dumps(expected, indent=0) + "\n")
        print(name, len(gt["annotations"]), len(dt), np.round(list(expected["stats"].values()), 3))
    # One list of masks, with the metrics of masks and, in a separate file, of boxes.
    gt, dt = mask_cases.make(seed=13, images=8, objects=4, detections=9)
    for kind, value in (("gt", gt), ("dt", dt)):
        (out / f"masks.{kind}.json").write_text(json.dumps(value, separators=(",", ":")) + "\n")
    for iou, name in (("segm", "masks"), ("bbox", "masks_boxes")):
        expected = figures(out / "masks.gt.json", out / "masks.dt.json", iou)
        (out / f"{name}.expected.json").write_text(json.dumps(expected, indent=0) + "\n")
        print(name, np.round(list(expected["stats"].values()), 3))


if __name__ == "__main__":
    main()
