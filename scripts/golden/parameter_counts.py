"""Builds the published Deformable DETR variants and compares their parameter counts with the known ones.

Known counts: trainable / all, from the shapes of the official models with 91 classes (batch-norm values are
constants there and do not count). Run: /usr/bin/python3 scripts/golden/parameter_counts.py
"""
from small_deformable_detr import Config, DeformableDetr

KNOWN = {
    "ResNet-50, 1 level": (Config(levels=1), 33_844_193, 34_066_593),
    "ResNet-50, 1 level, DC5": (Config(levels=1, dilation=True), 33_844_193, 34_066_593),
    "ResNet-50, 4 levels": (Config(), 39_847_265, 40_069_665),
    "+ box refinement": (Config(refine=True), 40_627_260, 40_849_660),
    "+ two stages": (Config(refine=True, two_stage=True), 40_959_129, 41_181_529),
}

if __name__ == "__main__":
    failed = False
    for name, (config, trainable, everything) in KNOWN.items():
        parameters = list(DeformableDetr(config).parameters())
        got = (sum(p.numel() for p in parameters if p.requires_grad), sum(p.numel() for p in parameters))
        ok = got == (trainable, everything)
        failed |= not ok
        print(f"{name:26} {got[0]:>11,} {got[1]:>11,} {'ok' if ok else f'expected {trainable:,} {everything:,}'}")
    raise SystemExit(failed)
