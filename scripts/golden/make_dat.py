"""Writes the golden files of tests/golden/dat/ (safetensors) from the independent PyTorch model in dat.py.

    python3 scripts/golden/make_dat.py

model.safetensors: two stages "LSD" and "LDS" (dims 12, 24; heads 3, 6; groups 1, 3; kernels 5, 3; window 3,
whose shift is 2 and not 1), tables for images of 24 x 24, 5 classes, norms for both stages; every parameter
moved away from its initial value.
    weight.NAME                   the state under the official names
    IMAGES.images [N,H,W,3]       even: 24 x 24, which windows divide; odd: 27 x 38, which they do not, nor do
                                  4 x 4 patches
    IMAGES.logits, IMAGES.map1, IMAGES.map2   logits and the maps of both stages through their norms
    train.labels [4] (as f32), train.loss, grad.NAME    of the mean cross entropy of the even images
    curve [30]                    losses of plain gradient descent with rate 0.1 on the even images

pyramid.safetensors: the same with the blocks "PS" and "LP" and reductions by 4 and 2.

plus.safetensors, plus_wide.safetensors: the same of DAT++ (dat_pp.py): dims 8, 16; heads 2, 4; groups 1, 2;
kernels 5, 3; strides 2, 1; the former with blocks "ND" and "NDD" and windows of 3, the latter with "N" and
"DN" and windows of 7, larger than some maps.

dmha_NAME.safetensors: the layer alone (dim 12, 6 heads, 3 groups, kernel 3, table for 4 x 5 cells) in every
way of its switches and at sizes that the table was not made for; weight.*, x [N,H*W,C], size [2], y, dy, dx,
grad.* of dot(y, dy).

neighbourhood.safetensors: the layer of DAT++ alone (dim 8, 2 heads, windows of 7 on a map of 9 x 11), stored
as the dmha_ ones.

deform_conv.safetensors: torchvision's deform_conv2d in f64 with 2 x 3 taps; x [N,H,W,C], weight [O,C,2,3],
bias [O], offsets [N,OH,OW,6,2] as (y, x) in cells, y, and the gradients dx, dweight, doffsets of dot(y, dy).

Weights and inputs are f32 values; everything else was computed from them in f64 and rounded once.
"""
import os
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
import torchvision

import dat_pp
from dat import DAT, DMHA, Config
from safetensors_io import save

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden", "dat")
CONFIG = Config(dims=(12, 24), heads=(3, 6), blocks=("LSD", "LDS"), groups=(1, 3), kernels=(5, 3), strides=(1, 1), window=3,
                image_size=24, classes=5, outputs=(1, 2))
PLUS = dat_pp.Config(dims=(8, 16), heads=(2, 4), blocks=("ND", "NDD"), groups=(1, 2), kernels=(5, 3), strides=(2, 1), window=3,
                     image_size=24, classes=5, outputs=(1, 2))
PLUS_WIDE = replace(PLUS, blocks=("N", "DN"), window=7)
PYRAMID = replace(CONFIG, blocks=("PS", "LP"), reductions=(4, 2))
STEPS, RATE = 30, 0.1


def randn(g, *shape, scale=1.0):
    return (scale * torch.randn(shape, generator=g)).double()


def shake(module, g):
    """Adds noise to every parameter; the values stay exact in f32."""
    with torch.no_grad():
        for name, p in module.named_parameters():
            scale = 0.5 if "table" in name or "rpb" in name or name.endswith("conv_offset.3.weight") else 0.05
            p += scale * torch.randn(p.shape, generator=g)
    return module.double()


def arrays(tensors):
    return {name: t.detach().numpy().astype(np.float32) for name, t in tensors.items()}


def make_model(file, config, model=DAT):
    g = torch.Generator().manual_seed(3)
    torch.manual_seed(3)
    model = shake(model(config), g)
    out = {f"weight.{name}": p for name, p in model.named_parameters()}
    images = {"even": randn(g, 4, 24, 24, 3), "odd": randn(g, 1, 27, 38, 3)}
    for name, x in images.items():
        out[f"{name}.images"] = x
        out[f"{name}.logits"] = model(x)
        for i, m in enumerate(model.pyramid(x)):
            out[f"{name}.map{i + 1}"] = m
    labels = torch.tensor([1, 4, 0, 2])
    out["train.labels"] = labels.double()
    out = {name: t.detach().clone() for name, t in out.items()}
    curve = []
    for step in range(STEPS):
        model.zero_grad()
        loss = F.cross_entropy(model(images["even"]), labels)
        loss.backward()
        curve.append(loss.item())
        if step == 0:
            out["train.loss"] = loss
            for name, p in model.named_parameters():
                if p.grad is not None:  # the norms of the backbone's outputs have none
                    out[f"grad.{name}"] = p.grad.clone()
        with torch.no_grad():
            for p in model.parameters():
                if p.grad is not None:
                    p -= RATE * p.grad
    out["curve"] = torch.tensor(curve)
    print("curve", curve[0], curve[-1])
    save(os.path.join(FOLDER, file + ".safetensors"), arrays(out))


def save_layer(file, layer, size, dim, g):
    layer = shake(layer, g)
    x = randn(g, 2, *size, dim).requires_grad_()
    y = layer(x)
    dy = randn(g, *y.shape)
    (y * dy).sum().backward()
    out = {f"weight.{n}": p for n, p in layer.named_parameters()}
    out |= {"x": x.flatten(1, 2), "size": torch.tensor(size).double(), "y": y.flatten(1, 2), "dy": dy.flatten(1, 2),
            "dx": x.grad.flatten(1, 2)}
    out |= {f"grad.{n}": p.grad for n, p in layer.named_parameters()}
    save(os.path.join(FOLDER, f"{file}.safetensors"), arrays(out))


def make_layer(name, size=(4, 5), table=(4, 5), kernel=3, stride=1, groups=3, **switches):
    g = torch.Generator().manual_seed(sum(map(ord, name)))
    torch.manual_seed(5)
    save_layer(f"dmha_{name}", DMHA(12, 6, groups, kernel, stride, table, **switches), size, 12, g)


def make_neighbourhood():
    torch.manual_seed(5)
    save_layer("neighbourhood", dat_pp.Neighbourhood(8, 2, 7), (9, 11), 8, torch.Generator().manual_seed(13))


def make_deform_conv():
    g = torch.Generator().manual_seed(11)
    n, h, w, c, o = 2, 5, 6, 4, 3
    x, weight, bias = randn(g, n, c, h, w), randn(g, o, c, 2, 3), randn(g, o)
    offsets = randn(g, n, 2 * 6, h - 1, w - 2)  # (y, x) of each tap in turn
    for t in (x, weight, offsets):
        t.requires_grad_()
    y = torchvision.ops.deform_conv2d(x, offsets, weight, bias)
    dy = randn(g, *y.shape)
    (y * dy).sum().backward()

    def taps(t):
        return t.unflatten(1, (6, 2)).permute(0, 3, 4, 1, 2)

    last = (0, 2, 3, 1)
    save(os.path.join(FOLDER, "deform_conv.safetensors"), arrays({
        "x": x.permute(last), "weight": weight, "bias": bias, "offsets": taps(offsets), "y": y.permute(last),
        "dy": dy.permute(last), "dx": x.grad.permute(last), "dweight": weight.grad, "doffsets": taps(offsets.grad)}))


if __name__ == "__main__":
    torch.set_num_threads(1)
    os.makedirs(FOLDER, exist_ok=True)
    make_model("model", CONFIG)
    make_model("pyramid", PYRAMID)
    make_model("plus", PLUS, dat_pp.DATpp)
    make_model("plus_wide", PLUS_WIDE, dat_pp.DATpp)
    make_deform_conv()
    make_neighbourhood()
    make_layer("relative")
    make_layer("none", position="none")
    make_layer("fixed", position="fixed")
    make_layer("depthwise", position="depthwise")
    make_layer("no_offsets", offsets=False)
    make_layer("no_offsets_no_table", offsets=False, position="none")
    make_layer("other_size", size=(7, 3))
    make_layer("one_row", size=(1, 6))
    make_layer("stride", size=(6, 7), table=(6, 7), kernel=5, stride=2)
    make_layer("free", offset_range=-1)
    make_layer("one_group", groups=1)
    make_layer("group_a_head", groups=6)
