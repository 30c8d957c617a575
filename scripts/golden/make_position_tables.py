"""Writes tests/golden/vision_tables/tables.safetensors: positions for one image size and their values for
another.

    python scripts/golden/make_position_tables.py

timm 1.0 resizes NAME.from [..] to NAME.to for absolute positions (up, down, two tokens in front) and Swin's
tables (wider, narrower); PyTorch's bicubic interpolation does it for DAT's (rows, map) and its bilinear one
for PVT's (linear).
"""
import os

import numpy as np
import torch
import torch.nn.functional as F
from timm.layers.pos_embed import resample_abs_pos_embed
from timm.layers.pos_embed_rel import resize_rel_pos_bias_table

from safetensors_io import save

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden", "vision_tables")


def rows(side, heads):
    return torch.randn(side * side, heads)


def as_map(table):
    side = int(len(table) ** 0.5)
    return table.T.reshape(1, -1, side, side)


def interpolate(table, size, mode):
    return F.interpolate(table, size=size, mode=mode, align_corners=False)


if __name__ == "__main__":
    torch.manual_seed(4)
    pairs = {}
    for name, before, after, extra in (("up", 7, 12, 1), ("down", 12, 7, 1), ("two", 4, 6, 2), ("none", 6, 5, 0)):
        x = torch.randn(1, before * before + extra, 3)
        pairs["absolute." + name] = x, resample_abs_pos_embed(x, [after, after], num_prefix_tokens=extra)
    for name, before, after in (("wider", 7, 12), ("narrower", 12, 7), ("little", 7, 8)):
        x = rows(2 * before - 1, 2)
        pairs["swin." + name] = x, resize_rel_pos_bias_table(x, (after, after), ((2 * after - 1) ** 2, 2))
    x = rows(13, 2)
    pairs["rows"] = x, interpolate(as_map(x), (23, 23), "bicubic").flatten(2)[0].T
    x = torch.randn(2, 13, 9)
    pairs["map"] = x, interpolate(x[None], (21, 17), "bicubic")[0]
    x = torch.randn(1, 17, 3)
    grid = interpolate(x[:, 1:].transpose(1, 2).reshape(1, 3, 4, 4), (6, 6), "bilinear").flatten(2).transpose(1, 2)
    pairs["linear"] = x, torch.cat([x[:, :1], grid], 1)
    os.makedirs(FOLDER, exist_ok=True)
    arrays = {}
    for name, (before, after) in pairs.items():
        arrays[name + ".from"], arrays[name + ".to"] = (np.ascontiguousarray(t.numpy()) for t in (before, after))
    save(os.path.join(FOLDER, "tables.safetensors"), arrays)
