#!/usr/bin/env python3
"""Compares the metrics that `saccade report --json` has written with those of pycocotools and scikit-learn:

    pip install pycocotools scikit-learn
    saccade eval --checkpoint RUN/checkpoints/best.safetensors --annotations A --images D --detections detections.json
    saccade report RUN --annotations A --images D --json metrics.json
    scripts/checks/check_report.py A detections.json metrics.json

Prints the largest difference of each kind; fails if one is over 1e-9.
"""
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "golden/data"))
from report_figures import best_f1, figures  # noqa: E402

annotations, detections, ours_path = sys.argv[1:4]
ours = json.loads(Path(ours_path).read_text())
theirs = figures(annotations, detections, ours["threshold"])
largest = {}


def compare(kind, a, b):
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if a.shape != b.shape:
        sys.exit(f"{kind}: {a.shape} numbers, expected {b.shape}")
    largest[kind] = max(largest.get(kind, 0.0), float(np.abs(a - b).max(initial=0)))


compare("COCO metrics", [ours["coco"][k] for k in theirs["coco"]], list(theirs["coco"].values()))
compare("confusion matrix", ours["confusion_matrix"]["counts"], theirs["confusion_matrix"])
compare("best of all classes", [ours["best"][k] for k in theirs["best"]], list(theirs["best"].values()))
compare("AP by class", [c["AP"] for c in ours["coco"]["per_class"]], [c["AP"] for c in theirs["classes"]])
for mine, their in zip(ours["classes"], theirs["classes"], strict=True):
    compare("objects", mine["objects"], their["objects"])
    for iou in ("iou_50", "iou_75"):
        for key in ("scores", "precision", "recall", "precision_at_recall"):
            compare(key, mine[iou][key], their[iou][key])
        best = mine[iou]["best"]
        compare("best F1", best["f1"], their[iou]["best_f1"])
        if best["f1"] >= 0:  # the threshold's point is one of the curve's
            at = mine[iou]["scores"].index(best["threshold"])
            compare("best F1", best["f1"], best_f1(their[iou]["precision"][at:at + 1], their[iou]["recall"][at:at + 1], 1))
for kind, difference in largest.items():
    print(f"{kind}: largest difference {difference:.3g}")
sys.exit(max(largest.values()) > 1e-9)
