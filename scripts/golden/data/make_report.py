#!/usr/bin/env python3
"""pycocotools' and scikit-learn's metrics of the cases in tests/golden/coco_eval, for
tests/train/report_test.cpp.

    pip install pycocotools scikit-learn
    python3 scripts/golden/data/make_report.py tests/golden/coco_eval tests/golden/report
"""
import json
import sys
from pathlib import Path

from report_figures import figures


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return {k: rounded(v) for k, v in value.items()} if isinstance(value, dict) else value


cases, out = Path(sys.argv[1]), Path(sys.argv[2])
out.mkdir(parents=True, exist_ok=True)
for name, threshold in (("crowds", 0.3), ("large_ids", 0.5), ("many", 0.6)):
    result = figures(cases / f"{name}.gt.json", cases / f"{name}.dt.json", threshold)
    (out / f"{name}.json").write_text(json.dumps(rounded(result), separators=(",", ":")) + "\n")
