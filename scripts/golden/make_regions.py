#!/usr/bin/env python3
"""Golden data of ops on regions of maps, from torchvision and PyTorch: roi_align (f64) on four levels with
its gradients (adaptive and two samples per side, aligned and not), nms by groups, nearest and bilinear
resizing, a transposed convolution. Writes tests/golden/regions/*.safetensors. Made with PyTorch 2.15.0 and
torchvision 0.29.2:

    python3 scripts/golden/make_regions.py
"""
import pathlib
import sys

import torch
import torch.nn.functional as F
import torchvision
from torchvision.ops import roi_align

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from safetensors_io import save

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/regions"
STRIDES = [4, 8, 16, 32]
HEIGHT, WIDTH, N, C = 96, 128, 2, 3
SEED = 7


def single(x):
    return x.detach().float().contiguous().numpy()


def channels_last(x):
    return single(x.permute(0, 2, 3, 1))


def make_roi_align():
    torch.manual_seed(SEED)
    maps = [torch.randn(N, C, HEIGHT // s, WIDTH // s) for s in STRIDES]
    corner = torch.rand(24, 2) * torch.tensor([WIDTH, HEIGHT]) * 1.1 - 5
    side = torch.exp(torch.rand(24, 2) * 4.5)
    rois = torch.cat([corner, corner + side], 1)
    level = torch.arange(24) % 4
    image = torch.arange(24) // 4 % N
    out = {f"map{i}": channels_last(m) for i, m in enumerate(maps)}
    out.update(rois=single(rois), level=level.numpy(), image=image.numpy())
    for name, size, ratio, aligned in [("adaptive", 7, 0, True), ("masks", 14, 0, True), ("two", 7, 2, False)]:
        leaves = [m.double().requires_grad_() for m in maps]
        y = torch.zeros(len(rois), C, size, size, dtype=torch.float64)
        for i, stride in enumerate(STRIDES):
            rows = torch.nonzero(level == i)[:, 0]
            boxes = torch.cat([image[rows, None].double(), rois[rows].double()], 1)
            y = y.index_copy(0, rows, roi_align(leaves[i], boxes, size, 1 / stride, ratio, aligned))
        dy = torch.randn(y.shape)
        y.backward(dy.double())
        out.update({f"{name}.y": channels_last(y), f"{name}.dy": channels_last(dy)})
        out.update({f"{name}.d{i}": channels_last(leaf.grad) for i, leaf in enumerate(leaves)})
    return out


def make_nms():
    torch.manual_seed(SEED)
    corner, side = torch.rand(500, 2) * 80, torch.rand(500, 2) * 30 + 1
    boxes, scores, groups = torch.cat([corner, corner + side], 1), torch.rand(500), torch.arange(500) % 5
    # Without the shift of torchvision's trick, which rounds coordinates.
    out = {"boxes": single(boxes), "scores": single(scores), "groups": groups.numpy()}
    for threshold in 0.3, 0.5, 0.7:
        keep = torch.zeros(500, dtype=torch.int64)
        for group in range(5):
            rows = torch.nonzero(groups == group)[:, 0]
            keep[rows[torchvision.ops.nms(boxes[rows], scores[rows], threshold)]] = 1
        out[f"keep_{threshold}"] = keep.numpy()
    return out


def make_resize():
    torch.manual_seed(SEED)
    x = torch.randn(2, 5, 7, 3)
    out = {"x": single(x)}
    for mode in "nearest", "bilinear":
        for height, width in (10, 14), (9, 13), (3, 4):
            leaf = x.permute(0, 3, 1, 2).clone().requires_grad_()
            y = F.interpolate(leaf, size=(height, width), mode=mode, **({"align_corners": False} if mode == "bilinear" else {}))
            dy = torch.randn(y.shape)
            y.backward(dy)
            name = f"{mode}_{height}_{width}"
            out.update({f"{name}.y": channels_last(y), f"{name}.dy": channels_last(dy), f"{name}.dx": channels_last(leaf.grad)})
    weight, bias = torch.randn(3, 4, 2, 2), torch.randn(4)
    out.update(weight=single(weight), bias=single(bias),
               transposed=channels_last(F.conv_transpose2d(x.permute(0, 3, 1, 2), weight, bias, stride=2)))
    return out


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    about = {"made_by": "scripts/golden/make_regions.py", "torch": torch.__version__,
             "torchvision": torchvision.__version__, "seed": SEED}
    for name, tensors in {"roi_align": make_roi_align(), "nms": make_nms(), "resize": make_resize()}.items():
        path = OUT / f"{name}.safetensors"
        save(path, tensors, about)
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
