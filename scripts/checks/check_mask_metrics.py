#!/usr/bin/env python3
"""Compares the metrics of `saccade score --iou segm` and `--iou bbox` with pycocotools' on random masks:

    pip install pycocotools
    scripts/checks/check_mask_metrics.py build/saccade [ROUNDS [FIRST_SEED]]
    scripts/checks/check_mask_metrics.py build/saccade --files annotations.json detections.json

Prints the largest difference of each kind; fails if one is over 1e-9.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "golden/data"))
import mask_cases  # noqa: E402
from make_coco_eval import KEYS, evaluate, mean  # noqa: E402

largest = {}


def compare(kind, ours, theirs, where):
    difference = abs(ours - theirs)
    largest[kind] = max(largest.get(kind, 0.0), difference)
    if not difference <= 1e-9:
        sys.exit(f"{where}: {kind}: {ours}, pycocotools {theirs}")


def check(saccade, gt, dt, where):
    for iou in ("segm", "bbox"):
        ev = evaluate(gt, dt, iou=iou)
        out = Path(dt).parent / "figures.json"
        subprocess.run([saccade, "score", "--annotations", gt, "--detections", dt, "--iou", iou, "--json", out], check=True,
                       stdout=subprocess.DEVNULL)
        ours = json.loads(out.read_text())
        precision, recall = ev.eval["precision"], ev.eval["recall"]
        for key, value in zip(KEYS, ev.stats, strict=True):
            compare(f"{iou}, metrics", ours[key], float(value), f"{where}, {key}")
        for t in range(10):
            compare(f"{iou}, AP by IoU", ours["AP_by_iou"][t], mean(precision[t, :, :, 0, 2]), where)
        for k, own in enumerate(ours["per_class"]):
            compare(f"{iou}, AP by class", own["AP"], mean(precision[:, :, k, 0, 2]), where)
            compare(f"{iou}, AP50 by class", own["AP50"], mean(precision[0, :, k, 0, 2]), where)
            compare(f"{iou}, AR_100 by class", own["AR_100"], mean(recall[:, k, 0, 2]), where)


def main():
    saccade = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        gt, dt = (str(Path(folder) / name) for name in ("gt.json", "dt.json"))
        if sys.argv[2:3] == ["--files"]:
            Path(dt).write_text(Path(sys.argv[4]).read_text())
            check(saccade, sys.argv[3], dt, sys.argv[4])
        else:
            rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
            first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
            for seed in range(first, first + rounds):
                case = mask_cases.make(seed, decimals=1 + seed % 3)
                for path, value in zip((gt, dt), case, strict=True):
                    Path(path).write_text(json.dumps(value))
                if case[1]:
                    check(saccade, gt, dt, f"seed {seed}")
    for kind, difference in largest.items():
        print(f"{kind}: largest difference {difference:.1e}")


if __name__ == "__main__":
    main()
