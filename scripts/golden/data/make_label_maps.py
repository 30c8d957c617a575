"""Label maps written by Pillow, and mmsegmentation's metrics (0.29, core/evaluation/metrics.py) computed with
numpy on random cases.

    python scripts/golden/data/make_label_maps.py tests/golden/segmentation

Pixel (y, x) of every file of 7 x 9 pixels is (3 y + x) % classes, times `step`; its
alpha is (3 y + x) % 7 * 40.
"""
import pathlib
import sys

import numpy as np
from PIL import Image

IGNORED = 65535
HEIGHT, WIDTH = 7, 9
COLORS = [(0, 0, 0), (128, 0, 0), (0, 128, 64), (17, 200, 5), (255, 255, 255)]


def labels(classes, step=1):
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    return (3 * y + x) % classes * step


def write_maps(folder):
    Image.fromarray(labels(5).astype(np.uint8)).save(folder / "grey8.png")
    Image.fromarray(labels(5, 300).astype(np.uint16)).save(folder / "grey16.png")
    Image.fromarray(labels(2).astype(bool)).save(folder / "grey1.png")
    rgb = Image.fromarray(np.array(COLORS, np.uint8)[labels(5)])
    rgb.save(folder / "rgb.png")
    alpha = Image.fromarray(labels(7, 40).astype(np.uint8))
    Image.merge("LA", (Image.fromarray(labels(5).astype(np.uint8)), alpha)).save(folder / "grey_alpha.png")
    Image.merge("RGBA", (*rgb.split(), alpha)).save(folder / "rgb_alpha.png")
    for name, bits in (("palette8.png", 8), ("palette4.png", 4)):
        image = Image.fromarray(labels(5).astype(np.uint8), "P")
        colors = COLORS + [(1, 2, 3)] * (2**bits - len(COLORS))
        image.putpalette(sum(map(list, colors), []))
        image.save(folder / name, bits=bits)


def figures(classes, found, truth):
    """mmsegmentation's intersect_and_union and total_area_to_metrics."""
    mask = truth != IGNORED
    found, truth = found[mask], truth[mask]
    both = found[found == truth]
    areas = [np.histogram(a, bins=classes, range=(0, classes))[0] for a in (both, found, truth)]
    with np.errstate(divide="ignore", invalid="ignore"):
        iou = areas[0] / (areas[1] + areas[2] - areas[0])
        accuracy = areas[0] / areas[2]
    return iou, accuracy, np.nanmean(iou), np.nanmean(accuracy), areas[0].sum() / areas[2].sum()


def write_cases(folder):
    rng = np.random.default_rng(7)
    lines = []
    for case in range(24):
        classes = int(rng.integers(1, 12))
        there = rng.permutation(classes)[: max(1, classes - case % 4)]  # the others occur in no true map
        size = int(rng.integers(1, 200))
        truth = rng.choice(there, size).astype(np.int64)
        found = np.where(rng.random(size) < 0.6, truth, rng.integers(0, classes, size))
        if case % 3 == 1:  # a class that occurs in neither found nor true
            found, truth = found % max(1, classes - 1), truth % max(1, classes - 1)
        truth[rng.random(size) < (case % 5) * 0.1] = IGNORED
        truth[0] = 0
        iou, accuracy, *means = figures(classes, found, truth)
        lines.append(f"{classes} {size}")
        for row in (found, truth, iou, accuracy, means):
            lines.append(" ".join(repr(v.item() if hasattr(v, "item") else v) for v in row))
    (folder / "miou.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    write_maps(target)
    write_cases(target)
