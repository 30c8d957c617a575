"""DAT (Xia et al. 2022, "Vision Transformer with Deformable Attention") in PyTorch, written from the paper
and from the published facts about its CVPR 2022 models; independent of the C++ code. Maps are [N, H, W, C]
throughout, which PyTorch's convolutions and grid_sample take as channels_last views. Parameter names are the
official ones.
"""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    dims: tuple = (96, 192, 384, 768)
    heads: tuple = (3, 6, 12, 24)
    blocks: tuple = ("LS", "LS", "LDLDLD", "LD")  # a letter a block: window, shifted window, deformable, pyramid (row P)
    groups: tuple = (1, 1, 3, 6)
    kernels: tuple = (9, 7, 5, 3)
    strides: tuple = (1, 1, 1, 1)
    reductions: tuple = (8, 4, 2, 1)
    window: int = 7
    image_size: int = 224
    classes: int = 1000
    drop_path: float = 0.0
    outputs: tuple = ()  # stages with their own norm, counted from 1
    # Deformable attention's switches (Table 6 of the paper).
    offsets: bool = True
    position: str = "relative"  # none, fixed, depthwise, relative
    offset_range: float = 2.0


T = Config()
S = Config(blocks=("LS", "LS", "LD" * 9, "LD"))
P = Config(blocks=("PP", "PP", "LDLDLD", "LD"))
B = Config(dims=(128, 256, 512, 1024), heads=(4, 8, 16, 32), groups=(1, 1, 4, 8), blocks=("LS", "LS", "LD" * 9, "LD"))


def channels_first(x):
    return x.permute(0, 3, 1, 2)


def channels_last(x):
    return x.permute(0, 2, 3, 1)


def attend(q, k, v, heads, bias=None):
    """q [..., Q, C], k and v [..., S, C]; bias is added to the scaled scores [..., heads, Q, S]."""
    q, k, v = (t.unflatten(-1, (heads, -1)).transpose(-2, -3) for t in (q, k, v))
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    return y.transpose(-2, -3).flatten(-2)


class Norm(nn.Module):
    """A LayerNorm whose parameters are called `norm.weight` and `norm.bias`."""

    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        return self.norm(x)


class Window(nn.Module):
    def __init__(self, dim, heads, window, shifted):
        super().__init__()
        self.heads, self.window = heads, window
        self.shift = math.ceil(window / 2) if shifted else 0
        self.proj_qkv = nn.Linear(dim, 3 * dim)
        self.proj_out = nn.Linear(dim, dim)
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.01)
        place = torch.arange(window)
        y, x = (t.flatten() for t in torch.meshgrid(place, place, indexing="ij"))
        index = (y[:, None] - y[None] + window - 1) * (2 * window - 1) + (x[:, None] - x[None] + window - 1)
        self.register_buffer("index", index, persistent=False)

    def mask(self, rows, columns, like):
        """-100 between tokens of one window that are not neighbours in the map. [windows, 1, w * w, w * w]"""
        w, s = self.window, self.shift

        def bands(size):
            band = torch.zeros(size, dtype=torch.long)
            band[-w:] = 1
            band[-s:] = 2
            return band

        region = bands(rows)[:, None] * 3 + bands(columns)[None]
        region = region.view(rows // w, w, columns // w, w).permute(0, 2, 1, 3).reshape(-1, w * w)
        apart = region[:, :, None] != region[:, None, :]
        return torch.where(apart, -100.0, 0.0).to(like)[:, None]

    def forward(self, x):
        n, h, w, c = x.shape
        m = self.window
        x = F.pad(x, (0, 0, 0, -w % m, 0, -h % m))
        rows, columns = x.shape[1:3]
        bias = self.relative_position_bias_table[self.index].permute(2, 0, 1)[None]
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
            bias = bias + self.mask(rows, columns, bias)
        else:
            bias = bias.expand((rows // m) * (columns // m), -1, -1, -1)
        x = x.view(n, rows // m, m, columns // m, m, c).transpose(2, 3).reshape(n, -1, m * m, c)
        y = self.proj_out(attend(*self.proj_qkv(x).chunk(3, -1), self.heads, bias[None]))
        y = y.view(n, rows // m, columns // m, m, m, c).transpose(2, 3).reshape(n, rows, columns, c)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        return y[:, :h, :w]


class SpatialReduction(nn.Module):
    """PVT's attention in 1x1 convolutions, for row P of Table 6. Zeros pad maps that the reduction does not
    divide."""

    def __init__(self, dim, heads, reduction):
        super().__init__()
        self.heads, self.reduction = heads, reduction
        self.q, self.kv, self.proj = nn.Conv2d(dim, dim, 1), nn.Conv2d(dim, 2 * dim, 1), nn.Conv2d(dim, dim, 1)
        if reduction > 1:
            self.proj_ds = nn.Sequential(nn.Conv2d(dim, dim, reduction, reduction), Norm(dim))

    def forward(self, x):
        keys, r = x, self.reduction
        if r > 1:
            conv, norm = self.proj_ds
            keys = F.pad(x, (0, 0, 0, -x.shape[2] % r, 0, -x.shape[1] % r))
            keys = norm(channels_last(conv(channels_first(keys))))
        q, kv = (channels_last(p(channels_first(t))).flatten(1, 2) for p, t in ((self.q, x), (self.kv, keys)))
        y = attend(q, *kv.chunk(2, -1), self.heads).view(x.shape)
        return channels_last(self.proj(channels_first(y)))


def cell_centres(h, w, like):
    """[h, w, 2] as (y, x); -1 and 1 are the map's outer edges."""
    y = (torch.arange(h).to(like) + 0.5) / h * 2 - 1
    x = (torch.arange(w).to(like) + 0.5) / w * 2 - 1
    return torch.stack(torch.meshgrid(y, x, indexing="ij"), -1)


class DMHA(nn.Module):
    def __init__(self, dim, heads, groups, kernel, stride, size, offsets=True, position="relative", offset_range=2.0):
        super().__init__()
        self.heads, self.groups, self.position, self.offset_range = heads, groups, position, offset_range
        self.kernel, self.stride = kernel, stride
        per_group = dim // groups
        if offsets:
            self.conv_offset = nn.Sequential(
                nn.Conv2d(per_group, per_group, kernel, stride, kernel // 2, groups=per_group), Norm(per_group), nn.GELU(),
                nn.Conv2d(per_group, 2, 1, bias=False))
        else:
            self.conv_offset = None
        for name in ("proj_q", "proj_k", "proj_v", "proj_out"):
            setattr(self, name, nn.Conv2d(dim, dim, 1))
        h, w = size
        if position == "depthwise":
            self.rpe_table = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)
        elif position in ("fixed", "relative"):
            keys = self.key_size(h) * self.key_size(w)
            shape = (heads, h * w, keys) if position == "fixed" else (heads, 2 * h - 1, 2 * w - 1)
            self.rpe_table = nn.Parameter(torch.zeros(shape))
            nn.init.trunc_normal_(self.rpe_table, std=0.01)

    def references(self, h, w, like):
        """[h, w, 2] as (y, x): the positions of keys without offsets"""
        return cell_centres(h, w, like)

    def queries(self, h, w, like):
        return cell_centres(h, w, like)

    def key_size(self, size):
        return (size + self.kernel // 2 * 2 - self.kernel) // self.stride + 1

    @staticmethod
    def project(conv, x):
        return F.linear(x, conv.weight.flatten(1), conv.bias)

    def points(self, q):
        """[N * groups, Hk, Wk, 2] as (y, x)"""
        n, h, w, c = q.shape
        hk, wk = self.key_size(h), self.key_size(w)
        reference = self.references(hk, wk, q)
        if self.conv_offset is None:
            return reference.expand(n * self.groups, -1, -1, -1)
        conv, norm, gelu, out = self.conv_offset
        x = q.view(n, h, w, self.groups, -1).permute(0, 3, 4, 1, 2).flatten(0, 1)
        x = gelu(norm(channels_last(conv(x))))
        offset = F.linear(x, out.weight.flatten(1))
        if self.offset_range < 0:
            return (reference + offset).clamp(-1, 1)
        return reference + offset.tanh() * torch.tensor([1 / hk, 1 / wk]).to(q) * self.offset_range

    def bias(self, points, n, h, w):
        g = self.groups
        if self.position == "fixed":
            return self.rpe_table[None]
        if self.position != "relative":
            return None
        query = self.queries(h, w, points).view(1, h * w, 1, 2)
        shift = (query - points.view(n * g, 1, -1, 2)) / 2
        table = self.rpe_table.view(1, g, self.heads // g, *self.rpe_table.shape[1:]).expand(n, -1, -1, -1, -1)
        bias = F.grid_sample(table.flatten(0, 1), shift.flip(-1), align_corners=True)
        return bias.view(n, self.heads, h * w, -1)

    def forward(self, x):
        n, h, w, c = x.shape
        g = self.groups
        q = self.project(self.proj_q, x)
        points = self.points(q)
        maps = x.view(n, h, w, g, -1).permute(0, 3, 4, 1, 2).flatten(0, 1)
        sampled = F.grid_sample(maps, points.flip(-1), align_corners=True)  # [N g, C / g, Hk, Wk]
        sampled = sampled.view(n, c, -1).transpose(1, 2)
        k, v = self.project(self.proj_k, sampled), self.project(self.proj_v, sampled)
        y = attend(q.flatten(1, 2), k, v, self.heads, self.bias(points, n, h, w)).view(n, h, w, c)
        if self.position == "depthwise":
            y = y + channels_last(self.rpe_table(channels_first(q)))
        return self.project(self.proj_out, y)


class Mlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.chunk = nn.Sequential()
        self.chunk.add_module("linear1", nn.Linear(dim, 4 * dim))
        self.chunk.add_module("act", nn.GELU())
        self.chunk.add_module("linear2", nn.Linear(4 * dim, dim))

    def forward(self, x):
        return self.chunk(x)


def drop_path(x, p, training):
    if p == 0 or not training:
        return x
    keep = torch.rand(x.shape[0], 1, 1, 1, device=x.device) >= p
    return x * (keep / (1 - p))


class Stage(nn.Module):
    def __init__(self, config, i, rates):
        super().__init__()
        dim, heads, size = config.dims[i], config.heads[i], config.image_size // (4 << i)
        self.rates = rates

        def layer(letter):
            if letter == "D":
                return DMHA(dim, heads, config.groups[i], config.kernels[i], config.strides[i], (size, size), config.offsets,
                            config.position, config.offset_range)
            if letter == "P":
                return SpatialReduction(dim, heads, config.reductions[i])
            return Window(dim, heads, config.window, letter == "S")

        self.attns = nn.ModuleList(layer(letter) for letter in config.blocks[i])
        self.mlps = nn.ModuleList(Mlp(dim) for _ in self.attns)
        self.layer_norms = nn.ModuleList(Norm(dim) for _ in range(2 * len(self.attns)))

    def forward(self, x):
        for j, (attn, mlp) in enumerate(zip(self.attns, self.mlps)):
            x = x + drop_path(attn(self.layer_norms[2 * j](x)), self.rates[j], self.training)
            x = x + drop_path(mlp(self.layer_norms[2 * j + 1](x)), self.rates[j], self.training)
        return x


class DAT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, dims = config, config.dims
        rates = torch.linspace(0, config.drop_path, sum(map(len, config.blocks))).tolist()
        self.patch_proj = nn.Sequential(nn.Conv2d(3, dims[0], 4, 4), Norm(dims[0]))
        starts = [sum(map(len, config.blocks[:i])) for i in range(len(dims))]
        self.stages = nn.ModuleList(Stage(config, i, rates[starts[i]:starts[i] + len(config.blocks[i])])
                                    for i in range(len(dims)))
        self.down_projs = nn.ModuleList(nn.Sequential(nn.Conv2d(a, b, 2, 2, bias=False), Norm(b))
                                        for a, b in zip(dims, dims[1:]))
        self.cls_norm = Norm(dims[-1])
        self.cls_head = nn.Linear(dims[-1], config.classes)
        self.norms = nn.ModuleDict({str(o - 1): Norm(dims[o - 1]) for o in config.outputs})

    def maps(self, images):
        """images [N, H, W, 3] -> every stage's map [N, H_i, W_i, C_i]"""
        conv, norm = self.patch_proj
        x, out = norm(channels_last(conv(channels_first(images)))), []
        for i, stage in enumerate(self.stages):
            x = stage(x)
            out.append(x)
            if i < len(self.down_projs):
                conv, norm = self.down_projs[i]
                x = norm(channels_last(conv(channels_first(x))))
        return out

    def forward(self, images):
        return self.cls_head(self.cls_norm(self.maps(images)[-1]).mean((1, 2)))

    def pyramid(self, images):
        maps = self.maps(images)
        return [self.norms[str(o - 1)](maps[o - 1]) for o in self.config.outputs]


def count(config):
    return sum(p.numel() for p in DAT(config).parameters())


if __name__ == "__main__":
    for name, config in (("T", T), ("S", S), ("B", B), ("P", P)):
        print(f"DAT-{name}: {count(config):,} parameters")
