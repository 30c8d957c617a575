"""DAT++ (Xia et al. 2023) in PyTorch, written from the paper and from the published facts about its models;
independent of the C++ code. Maps are [N, H, W, C] as in dat.py. Parameter names are the official ones.

    python3 scripts/golden/dat_pp.py     # the parameters of the published sizes
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from dat import DMHA, Norm, channels_first, channels_last


@dataclass
class Config:
    dims: tuple = (64, 128, 256, 512)
    heads: tuple = (2, 4, 8, 16)
    blocks: tuple = ("ND", "NDND", "ND" * 9, "DD")  # a letter per block: neighbourhood, deformable
    groups: tuple = (1, 2, 4, 8)
    kernels: tuple = (9, 7, 5, 3)
    strides: tuple = (8, 4, 2, 1)
    window: int = 7
    image_size: int = 224
    classes: int = 1000
    outputs: tuple = ()  # stages with their own norm, counted from 1


T = Config()
S = Config(dims=(96, 192, 384, 768), heads=(3, 6, 12, 24), groups=(1, 2, 3, 6))
B = Config(dims=(128, 256, 512, 1024), heads=(4, 8, 16, 32), groups=(2, 4, 8, 16))


def conv(layer, x):
    return channels_last(layer(channels_first(x)))


class Neighbourhood(nn.Module):
    def __init__(self, dim, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv = nn.Linear(dim, 3 * dim)
        self.rpb = nn.Parameter(torch.zeros(heads, 2 * window - 1, 2 * window - 1))
        nn.init.trunc_normal_(self.rpb, std=0.02)
        self.proj = nn.Linear(dim, dim)

    def seen(self, size, device):
        """[size, window]: the positions that each position of an axis sees"""
        first = (torch.arange(size, device=device) - self.window // 2).clamp(0, size - self.window)
        return first[:, None] + torch.arange(self.window, device=device)

    def forward(self, x):
        n, h, w, c = x.shape
        side = self.window
        x = F.pad(x, (0, 0, 0, max(0, side - w), 0, max(0, side - h)))
        rows, columns = x.shape[1:3]
        q, k, v = self.qkv(x).view(n, rows, columns, 3, self.heads, c // self.heads).unbind(3)
        ys, xs = self.seen(rows, x.device), self.seen(columns, x.device)
        at = (ys[:, None, :, None], xs[None, :, None, :])  # [rows, columns, window, window]
        k, v = (t.movedim(3, 0)[(slice(None), slice(None), *at)].flatten(4, 5) for t in (k, v))
        # k: [heads, N, rows, columns, window^2, d]
        q = q.movedim(3, 0)[..., None, :] * (c // self.heads) ** -0.5
        place = [t - torch.arange(t.shape[0], device=x.device)[:, None] + side - 1 for t in (ys, xs)]
        bias = self.rpb[:, place[0][:, None, :, None], place[1][None, :, None, :]].flatten(3)[:, None]
        weights = ((q @ k.transpose(-1, -2)).squeeze(-2) + bias).softmax(-1)
        y = (weights[..., None, :] @ v).squeeze(-2).movedim(0, 3).flatten(3)
        return self.proj(y)[:, :h, :w]


class Deformable(DMHA):
    """Like DAT's, but in other coordinates and without tanh."""

    def __init__(self, dim, heads, groups, kernel, stride, size):
        super().__init__(dim, heads, groups, kernel, stride, size, offset_range=-1.0)

    def references(self, h, w, like):
        return self.corners(h, w, 0.5, like)

    def queries(self, h, w, like):
        return self.corners(h, w, 0.0, like)

    @staticmethod
    def corners(h, w, shift, like):
        """[h, w, 2] as (y, x); -1 and 1 are the centres of the outermost cells, and a single cell is in the
        middle"""
        y, x = ((torch.arange(n).to(like) + shift) / (n - 1) * 2 - 1 if n > 1 else torch.zeros(1).to(like) for n in (h, w))
        return torch.stack(torch.meshgrid(y, x, indexing="ij"), -1)


class Mlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        hidden = 4 * dim
        self.linear1 = nn.Sequential(nn.Conv2d(dim, hidden, 1))
        self.linear2 = nn.Sequential(nn.Conv2d(hidden, dim, 1))
        self.dwc = nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden)

    def forward(self, x):
        h = conv(self.linear1, x)
        return conv(self.linear2, F.gelu(h + conv(self.dwc, h)))


class Stage(nn.Module):
    def __init__(self, config, i):
        super().__init__()
        dim, heads, size = config.dims[i], config.heads[i], config.image_size // (4 << i)

        def layer(letter):
            if letter == "N":
                return Neighbourhood(dim, heads, config.window)
            return Deformable(dim, heads, config.groups[i], config.kernels[i], config.strides[i], (size, size))

        self.attns = nn.ModuleList(layer(letter) for letter in config.blocks[i])
        self.mlps = nn.ModuleList(Mlp(dim) for _ in self.attns)
        self.layer_norms = nn.ModuleList(Norm(dim) for _ in range(2 * len(self.attns)))
        self.local_perception_units = nn.ModuleList(nn.Conv2d(dim, dim, 3, padding=1, groups=dim) for _ in self.attns)

    def forward(self, x):
        for j, (unit, attn, mlp) in enumerate(zip(self.local_perception_units, self.attns, self.mlps)):
            x = x + conv(unit, x)
            x = x + attn(self.layer_norms[2 * j](x))
            x = x + mlp(self.layer_norms[2 * j + 1](x))
        return x


class DATpp(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, dims = config, config.dims
        self.patch_proj = nn.Sequential(nn.Conv2d(3, dims[0] // 2, 3, 2, 1), Norm(dims[0] // 2), nn.GELU(),
                                        nn.Conv2d(dims[0] // 2, dims[0], 3, 2, 1), Norm(dims[0]))
        self.stages = nn.ModuleList(Stage(config, i) for i in range(len(dims)))
        self.down_projs = nn.ModuleList(nn.Sequential(nn.Conv2d(a, b, 3, 2, 1, bias=False), Norm(b))
                                        for a, b in zip(dims, dims[1:]))
        self.cls_norm = Norm(dims[-1])
        self.cls_head = nn.Linear(dims[-1], config.classes)
        self.norms = nn.ModuleDict({str(o - 1): Norm(dims[o - 1]) for o in config.outputs})

    def maps(self, images):
        """images [N, H, W, 3] -> every stage's map [N, H_i, W_i, C_i]"""
        first, norm1, gelu, second, norm2 = self.patch_proj
        x, out = norm2(conv(second, gelu(norm1(conv(first, images))))), []
        for i, stage in enumerate(self.stages):
            x = stage(x)
            out.append(x)
            if i < len(self.down_projs):
                halving, norm = self.down_projs[i]
                x = norm(conv(halving, x))
        return out

    def forward(self, images):
        return self.cls_head(self.cls_norm(self.maps(images)[-1]).mean((1, 2)))

    def pyramid(self, images):
        maps = self.maps(images)
        return [self.norms[str(o - 1)](maps[o - 1]) for o in self.config.outputs]


if __name__ == "__main__":
    for name, config in (("T", T), ("S", S), ("B", B)):
        print(f"DAT-{name}++: {sum(p.numel() for p in DATpp(config).parameters()):,} parameters")
