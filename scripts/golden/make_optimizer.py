#!/usr/bin/env python3
"""Golden data of the optimizer test: ten steps of PyTorch's AdamW and SGD over four parameters in three
groups, with clip_grad_norm_. Writes tests/golden/optimizer/{adamw,sgd}.safetensors. Made with PyTorch 1.13
(Debian 12):

    /usr/bin/python3 scripts/golden/make_optimizer.py
"""
import json
import pathlib
import struct

import torch

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/optimizer"
SHAPES = {"backbone.conv.weight": (4, 3, 3, 3), "head.weight": (7, 13), "head.bias": (7,), "never.weight": (5,)}
LR, DECAY, CLIP, STEPS = 2e-2, 1e-2, 0.5, 10


def write(path, tensors):
    header, position, blobs = {}, 0, []
    for name, t in tensors.items():
        blob = t.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [position, position + len(blob)]}
        position += len(blob)
        blobs.append(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def run(make):
    torch.manual_seed(7)
    params = {n: torch.nn.Parameter(torch.randn(s)) for n, s in SHAPES.items()}
    out = {f"start.{n}": p.detach().clone() for n, p in params.items()}
    optimizer = make([
        {"params": [params["backbone.conv.weight"]], "lr": LR * 0.1},
        {"params": [params["head.bias"]], "weight_decay": 0.0},
        {"params": [params["head.weight"], params["never.weight"]]},
    ])
    norms = []
    for step in range(STEPS):
        for n, p in params.items():
            # The bias has no gradient at step 3, and "never" has none at all. Step 5's gradients are far
            # below the clipping norm.
            p.grad = None
            if n == "never.weight" or (n == "head.bias" and step == 3):
                continue
            p.grad = torch.randn(p.shape) * (0.001 if step == 5 else 1.0)
            out[f"grad{step}.{n}"] = p.grad.clone()
        norms.append(torch.nn.utils.clip_grad_norm_(list(params.values()), CLIP))
        for g in optimizer.param_groups:  # a schedule
            g["base"] = g.get("base", g["lr"])
            g["lr"] = g["base"] * (1.0 if step < 6 else 0.1)
        optimizer.step()
    out["norms"] = torch.stack(norms)
    out.update({f"end.{n}": p.detach().clone() for n, p in params.items()})
    return out


write(OUT / "adamw.safetensors", run(lambda g: torch.optim.AdamW(g, lr=LR, weight_decay=DECAY)))
write(OUT / "sgd.safetensors", run(lambda g: torch.optim.SGD(g, lr=LR, weight_decay=DECAY, momentum=0.9)))
