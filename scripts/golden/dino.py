"""DINO in plain PyTorch: the independent second implementation that Saccade is compared with.

Written from the paper (Zhang et al. 2023, arXiv:2203.03605) and its published settings; backbone, encoder
layer and deformable attention come from small_deformable_detr.py. Names and shapes are those of the official
weights.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

from small_deformable_detr import Backbone, EncoderLayer, Mlp, MSDeformAttn, Stack, inverse_sigmoid

EPSILON = 1e-3  # of DINO's inverse sigmoid
TEMPERATURE = 20  # of its positions


def logit(box):
    return inverse_sigmoid(box, EPSILON)


def sines(x, count, temperature):
    i = torch.arange(count, dtype=x.dtype)
    angle = x[..., None] * 2 * math.pi / temperature ** (2 * torch.div(i, 2, rounding_mode="floor") / count)
    return torch.stack((angle[..., 0::2].sin(), angle[..., 1::2].cos()), -1).flatten(-2)


def positions(mask, d, dtype):
    inside = (~mask).to(dtype)
    y, x = inside.cumsum(1), inside.cumsum(2)
    y, x = y / (y[:, -1:, :] + 1e-6), x / (x[:, :, -1:] + 1e-6)
    return torch.cat((sines(y, d // 2, TEMPERATURE), sines(x, d // 2, TEMPERATURE)), -1).flatten(1, 2)


class DecoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.cross_attn = MSDeformAttn(c.d, c.heads, c.levels, c.decoder_points)
        self.norm1 = nn.LayerNorm(c.d)
        self.self_attn = nn.MultiheadAttention(c.d, c.heads, batch_first=True)
        self.norm2 = nn.LayerNorm(c.d)
        self.linear1, self.linear2 = nn.Linear(c.d, c.ffn), nn.Linear(c.ffn, c.d)
        self.norm3 = nn.LayerNorm(c.d)

    def forward(self, x, position, reference, memory, shapes, padding, hidden):
        q = x + position
        x = self.norm2(x + self.self_attn(q, q, x, attn_mask=hidden, need_weights=False)[0])
        x = self.norm1(x + self.cross_attn(x + position, reference, memory, shapes, padding))
        return self.norm3(x + self.linear2(F.relu(self.linear1(x))))


class TwoLayers(nn.Module):
    def __init__(self, *widths):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, x):
        return self.layers[1](F.relu(self.layers[0](x)))


class Transformer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.encoder = Stack([EncoderLayer(c) for _ in range(c.encoder_layers)])
        self.decoder = Stack([DecoderLayer(c) for _ in range(c.decoder_layers)])
        self.decoder.norm = nn.LayerNorm(c.d)
        self.decoder.ref_point_head = TwoLayers(2 * c.d, c.d, c.d)
        self.level_embed = nn.Parameter(torch.randn(c.levels, c.d))
        self.tgt_embed = nn.Embedding(c.queries, c.d)
        self.enc_output, self.enc_output_norm = nn.Linear(c.d, c.d), nn.LayerNorm(c.d)
        self.enc_out_class_embed, self.enc_out_bbox_embed = nn.Linear(c.d, c.classes), Mlp(c.d)
        for m in self.modules():
            if isinstance(m, MSDeformAttn):
                m.reset_parameters()


class Dino(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.backbone = nn.Sequential(Backbone(c))
        channels = self.backbone[0].body.channels
        self.first = 0 if c.levels == 5 else 1
        groups = math.gcd(32, c.d)
        self.input_proj = nn.ModuleList(
            [nn.Sequential(nn.Conv2d(k, c.d, 1), nn.GroupNorm(groups, c.d)) for k in channels[self.first:]]
            + [nn.Sequential(nn.Conv2d(channels[-1], c.d, 3, 2, 1), nn.GroupNorm(groups, c.d))])
        self.transformer = Transformer(c)
        self.label_enc = nn.Embedding(c.classes + 1, c.d)
        head, box = nn.Linear(c.d, c.classes), Mlp(c.d)
        self.class_embed = nn.ModuleList([head] * c.decoder_layers)
        self.bbox_embed = nn.ModuleList([box] * c.decoder_layers)
        self.transformer.decoder.class_embed, self.transformer.decoder.bbox_embed = self.class_embed, self.bbox_embed

    def maps(self, images, mask):
        body = self.backbone[0].body
        x, maps = F.max_pool2d(F.relu(body.bn1(body.conv1(images))), 3, 2, 1), []
        for stage in (body.layer1, body.layer2, body.layer3, body.layer4):
            x = stage(x)
            maps.append(x)
        maps = maps[self.first:]
        maps = [p(m) for p, m in zip(self.input_proj, maps + maps[-1:])]
        masks = [F.interpolate(mask[:, None].float(), size=m.shape[-2:])[:, 0].bool() for m in maps]
        return maps, masks

    def encode(self, maps, masks):
        t, dtype = self.transformer, maps[0].dtype
        shapes = [tuple(m.shape[-2:]) for m in maps]
        x = torch.cat([m.flatten(2).transpose(1, 2) for m in maps], 1)
        where = torch.cat([positions(m, self.c.d, dtype) + e for m, e in zip(masks, t.level_embed)], 1)
        padding = torch.cat([m.flatten(1) for m in masks], 1)
        ratios = torch.stack([torch.stack(((~m[:, 0]).sum(1) / m.shape[2], (~m[:, :, 0]).sum(1) / m.shape[1]), -1)
                              for m in masks], 1).to(dtype)
        centres, proposals = [], []
        for level, ((h, w), _) in enumerate(zip(shapes, masks)):
            y, x_ = torch.meshgrid(torch.arange(h, dtype=dtype) + 0.5, torch.arange(w, dtype=dtype) + 0.5, indexing="ij")
            cells = torch.stack((x_, y), -1).reshape(1, h * w, 2)
            centres.append(cells / (ratios[:, None, level] * torch.tensor([w, h], dtype=dtype)))
            proposals.append(torch.cat((centres[-1], torch.full_like(centres[-1], 0.05 * 2 ** level)), -1))
        reference = torch.cat(centres, 1)[:, :, None] * ratios[:, None]
        for layer in t.encoder.layers:
            x = layer(x, where, reference, shapes, padding)
        proposals = torch.cat(proposals, 1)
        valid = ((proposals > 0.01) & (proposals < 0.99)).all(-1) & ~padding
        logits = torch.log(proposals / (1 - proposals)).masked_fill(~valid[..., None], float("inf"))
        return x, shapes, padding, ratios, logits, valid

    def forward(self, images, mask, denoising=None):
        """denoising: (labels [N, D], boxes [N, D, 4], groups, pairs). -> [(logits, boxes)] of the decoder
        layers, all queries, and (logits, boxes) of the chosen proposals"""
        c, t = self.c, self.transformer
        memory, shapes, padding, ratios, anchors, valid = self.encode(*self.maps(images, mask))
        tokens = t.enc_output_norm(t.enc_output(memory * valid[..., None].to(memory.dtype)))
        scores, boxes = t.enc_out_class_embed(tokens), t.enc_out_bbox_embed(tokens) + anchors
        chosen = scores.max(-1)[0].topk(c.queries, 1)[1]

        def pick(x):
            return x.gather(1, chosen[..., None].expand(-1, -1, x.shape[-1]))

        self.ranked = scores.max(-1)[0].detach().sort(-1, descending=True)[0]
        proposals = (pick(scores), pick(boxes).sigmoid())

        n = images.shape[0]
        x, reference = t.tgt_embed.weight[None].expand(n, -1, -1), pick(boxes).detach().sigmoid()
        hidden = None
        if denoising is not None and denoising[2] > 0:
            labels, noisy, groups, _ = denoising
            labels, noisy = torch.as_tensor(labels), torch.as_tensor(noisy).to(x.dtype)
            count = labels.shape[1]
            content = self.label_enc(labels) * (labels < c.classes)[..., None].to(x.dtype)
            x, reference = torch.cat((content, x), 1), torch.cat((logit(noisy).sigmoid(), reference), 1)
            group = torch.full((x.shape[1],), -1)
            group[:count] = torch.arange(count) // (count // groups)
            hidden = (group[None, :] >= 0) & (group[None, :] != group[:, None])
        base, layers = reference, []
        for i, layer in enumerate(t.decoder.layers):
            where = reference * torch.cat((ratios[:, :1], ratios[:, :1]), -1)
            where = sines(where[..., [1, 0, 2, 3]], c.d // 2, 10000).flatten(-2)
            points = reference[:, :, None] * torch.cat((ratios, ratios), -1)[:, None]
            x = layer(x, t.decoder.ref_point_head(where), points, memory, shapes, padding, hidden)
            out = t.decoder.norm(x)
            layers.append((self.class_embed[i](out), (self.bbox_embed[i](out) + logit(base)).sigmoid()))
            base = (self.bbox_embed[i](x) + logit(reference)).sigmoid()
            reference = base.detach()
        return layers, proposals
