"""DETR in plain PyTorch: the independent second implementation that Saccade is compared with.

Written from the paper (Carion et al. 2020, arXiv:2005.12872) with stock PyTorch operators; runs in f32 and
f64. Names and initialisation are those of the official code. The backbone is the ResNet of
small_deformable_detr.py.

Tensors: images [N, 3, H, W]; mask [N, H, W], True where padded, or None; boxes (cx, cy, w, h) relative to the
image.
"""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from small_deformable_detr import Backbone, Mlp, Stack, sines


@dataclass
class Config:
    d: int = 256
    heads: int = 8
    encoder_layers: int = 6
    decoder_layers: int = 6
    ffn: int = 2048
    queries: int = 100
    classes: int = 91  # without "no object"
    pre_norm: bool = False
    learned: bool = False  # learned positions
    blocks: tuple = (3, 4, 6, 3)
    width: int = 64
    bottleneck: bool = True
    dilation: bool = False
    frozen_bn: bool = True
    frozen_stages: int = 2
    anchors: bool = False  # queries are boxes (DAB-DETR)


def sine_positions(mask, d, dtype, offset=0.0):
    """Cells counted from one over the unpadded ones only, scaled to (0, 2 pi]; with offset -0.5: their
    centres.
    -> [N, H * W, d], rows then columns."""
    inside = (~mask).to(dtype)
    rows, columns = inside.cumsum(1), inside.cumsum(2)
    rows = (rows + offset) / (rows[:, -1:, :] + 1e-6) * (2 * math.pi)
    columns = (columns + offset) / (columns[:, :, -1:] + 1e-6) * (2 * math.pi)
    return torch.cat((sines(rows, d // 2), sines(columns, d // 2)), -1).flatten(1, 2)


class LearnedPositions(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.row_embed, self.col_embed = nn.Embedding(50, d // 2), nn.Embedding(50, d // 2)
        nn.init.uniform_(self.row_embed.weight)
        nn.init.uniform_(self.col_embed.weight)

    def forward(self, height, width):
        rows = self.row_embed.weight[:height, None].expand(-1, width, -1)
        columns = self.col_embed.weight[None, :width].expand(height, -1, -1)
        return torch.cat((columns, rows), -1).flatten(0, 1)[None]


class EncoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.pre = c.pre_norm
        self.self_attn = nn.MultiheadAttention(c.d, c.heads, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(c.d, c.ffn), nn.Linear(c.ffn, c.d)
        self.norm1, self.norm2 = nn.LayerNorm(c.d), nn.LayerNorm(c.d)

    def attend(self, x, position, padding):
        q = x + position
        return self.self_attn(q, q, x, key_padding_mask=padding, need_weights=False)[0]

    def feed(self, x):
        return self.linear2(F.relu(self.linear1(x)))

    def forward(self, x, position, padding):
        if self.pre:
            x = x + self.attend(self.norm1(x), position, padding)
            return x + self.feed(self.norm2(x))
        x = self.norm1(x + self.attend(x, position, padding))
        return self.norm2(x + self.feed(x))


class ConditionalAttention(nn.Module):
    """Scores: (content . content + position . position) / sqrt(2 d / heads), each with weights of its own."""

    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.in_proj_weight, self.in_proj_bias = nn.Parameter(torch.empty(3 * d, d)), nn.Parameter(torch.zeros(3 * d))
        self.position_proj_weight = nn.Parameter(torch.empty(2 * d, d))
        self.out_proj = nn.Linear(d, d)

    def forward(self, query, query_position, key, key_position, padding):
        def split(x):
            return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        weights, biases = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        q, k, v = (split(F.linear(x, w, b)) for x, w, b in zip((query, key, key), weights, biases))
        places = self.position_proj_weight.chunk(2)
        scores = q @ k.mT + split(query_position @ places[0].T) @ split(key_position @ places[1].T).mT
        scores = (scores / math.sqrt(2 * q.shape[-1])).masked_fill(padding[:, None, None], -math.inf)
        return self.out_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class DecoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.pre = c.pre_norm
        self.self_attn = nn.MultiheadAttention(c.d, c.heads, batch_first=True)
        attention = ConditionalAttention(c.d, c.heads) if c.anchors else nn.MultiheadAttention(c.d, c.heads, batch_first=True)
        self.multihead_attn = attention
        self.linear1, self.linear2 = nn.Linear(c.d, c.ffn), nn.Linear(c.ffn, c.d)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(c.d) for _ in range(3))

    def forward(self, x, query, memory, position, padding, looking=None):
        """query: positions of the queries; looking: with anchors, those that the cross-attention compares."""

        def among(x):
            return self.self_attn(x + query, x + query, x, need_weights=False)[0]

        def look(x):
            if looking is not None:
                return self.multihead_attn(x, looking, memory, position, padding)
            return self.multihead_attn(x + query, memory + position, memory, key_padding_mask=padding,
                                       need_weights=False)[0]

        def feed(x):
            return self.linear2(F.relu(self.linear1(x)))

        for f, norm in ((among, self.norm1), (look, self.norm2), (feed, self.norm3)):
            x = x + f(norm(x)) if self.pre else norm(x + f(x))
        return x


def layers_of(*widths):
    """Linear layers under the names of an MLP."""
    return Stack([nn.Linear(a, b) for a, b in zip(widths, widths[1:])])


def run(stack, x):
    for layer in stack.layers[:-1]:
        x = F.relu(layer(x))
    return stack.layers[-1](x)


class Transformer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.encoder = Stack([EncoderLayer(c) for _ in range(c.encoder_layers)])
        if c.pre_norm:
            self.encoder.norm = nn.LayerNorm(c.d)
        self.decoder = Stack([DecoderLayer(c) for _ in range(c.decoder_layers)])
        self.decoder.norm = nn.LayerNorm(c.d)
        if c.anchors:
            self.decoder.ref_point_head = layers_of(2 * c.d, c.d, c.d)
            self.decoder.query_scale = layers_of(c.d, c.d, c.d)
            self.decoder.ref_anchor_head = layers_of(c.d, c.d, 2)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)


class Detr(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.backbone = nn.Sequential(Backbone(c))
        if c.learned:
            self.backbone.append(LearnedPositions(c.d))
        self.transformer = Transformer(c)
        self.class_embed = nn.Linear(c.d, c.classes + 1)
        self.bbox_embed = Mlp(c.d)
        self.query_embed = nn.Embedding(c.queries, 4 if c.anchors else c.d)
        self.input_proj = nn.Conv2d(self.backbone[0].body.channels[-1], c.d, 1)

    def forward(self, images, mask):
        """-> [(logits [N, Q, C + 1], boxes [N, Q, 4]) of each decoder layer]"""
        features = self.input_proj(self.backbone[0].body(images)[-1])
        n, d, height, width = features.shape
        mask = F.interpolate(mask[:, None].float(), size=(height, width))[:, 0].bool()
        position = self.backbone[1](height, width) if self.c.learned else sine_positions(mask, d, features.dtype)
        padding = mask.flatten(1)
        x = features.flatten(2).transpose(1, 2)
        for layer in self.transformer.encoder.layers:
            x = layer(x, position, padding)
        memory = self.transformer.encoder.norm(x) if self.c.pre_norm else x
        if self.c.anchors:
            return self.decode_anchors(memory, sine_positions(mask, d, features.dtype, -0.5), padding)
        query = self.query_embed.weight[None].expand(n, -1, -1)
        x, layers = torch.zeros_like(query), []
        for layer in self.transformer.decoder.layers:
            x = layer(x, query, memory, position, padding)
            y = self.transformer.decoder.norm(x)
            layers.append((self.class_embed(y), self.bbox_embed(y).sigmoid()))
        return layers

    def decode_anchors(self, memory, position, padding):
        """DAB-DETR (Liu et al. 2022): a layer looks around the boxes of the previous one. Boxes are constants
        where positions are made from them."""
        decoder, d = self.transformer.decoder, self.c.d
        box = self.query_embed.weight[None].expand(len(memory), -1, -1)
        x, layers = memory.new_zeros(*box.shape[:2], d), []
        for i, layer in enumerate(decoder.layers):
            anchor = box.sigmoid().detach()
            of_x, of_y, of_w, of_h = (sines(anchor[..., k] * (2 * math.pi), d // 2) for k in range(4))
            width, height = (run(decoder.ref_anchor_head, x).sigmoid() / anchor[..., 2:].clamp(0.02, 1)).split(1, -1)
            looking = torch.cat((of_y * height, of_x * width), -1)
            if i > 0:
                looking = looking * run(decoder.query_scale, x)
            query_position = run(decoder.ref_point_head, torch.cat((of_x, of_y, of_w, of_h), -1))
            x = layer(x, query_position, memory, position, padding, looking)
            y = decoder.norm(x)
            box = self.bbox_embed(y) + box
            layers.append((self.class_embed(y), box.sigmoid()))
            box = box.detach()
        return layers
