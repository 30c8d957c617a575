"""Deformable DETR in plain PyTorch: the independent second implementation that Saccade is compared with.

Written from the papers (Zhu et al. 2021, arXiv:2010.04159; Carion et al. 2020, arXiv:2005.12872; He et al.
2016, arXiv:1512.03385) with stock PyTorch operators only: the deformable attention is one bilinear
grid_sample per level. It runs in f32 and f64 and with PyTorch 1.13 or later. Parameter names and
initialisation are those of the official code (`backbone.0.body.layer1.0.conv1.weight`,
`transformer.encoder.layers.0.self_attn.sampling_offsets.weight`, ...).

The backbone is a torchvision ResNet in all names and shapes: conv1 7x7/2, bn1, ReLU, 3x3/2 max-pool, layer1
to layer4 with strides 1, 2, 2, 2 and widths w, 2w, 4w, 8w (times 4 at the outputs of bottlenecks),
downsample.{0,1} where the shape changes. depth 50 and 101 are built from bottlenecks with the stride in the
3x3 convolution and w = 64; the small ResNet from basic blocks with any number of blocks and any w, which is
also the width of the stem.

Tensors: images [N, 3, H, W]; mask [N, H, W], True where padded, or None; boxes (cx, cy, w, h) relative to the
image.
"""
import copy
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    d: int = 256
    heads: int = 8
    encoder_layers: int = 6
    decoder_layers: int = 6
    ffn: int = 1024
    levels: int = 4
    encoder_points: int = 4
    decoder_points: int = 4
    queries: int = 300
    classes: int = 91
    refine: bool = False
    two_stage: bool = False
    blocks: tuple = (3, 4, 6, 3)
    width: int = 64
    bottleneck: bool = True
    dilation: bool = False     # DC5: layer4 keeps the resolution of layer3
    frozen_bn: bool = True     # affine parameters and statistics of the batch norms are constants
    frozen_stages: int = 2     # of (stem, layer1, ...): their convolutions are not trained


# ---- backbone ----------------------------------------------------------------------------------------------

class FrozenBatchNorm2d(nn.Module):
    """y = x * scale + shift with constant statistics; epsilon goes in before the root."""

    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.eps = eps
        for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, torch.full((channels,), value))

    def forward(self, x):
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale[:, None, None] + shift[:, None, None]


def conv(inputs, outputs, kernel, stride=1, dilation=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, dilation * (kernel // 2), dilation, bias=False)


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inputs, width, stride, dilation, norm):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, width, 3, stride, dilation), norm(width)
        self.conv2, self.bn2 = conv(width, width, 3, 1, dilation), norm(width)
        self.downsample = None
        if stride != 1 or inputs != width:
            self.downsample = nn.Sequential(conv(inputs, width, 1, stride), norm(width))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs, width, stride, dilation, norm):
        super().__init__()
        outputs = 4 * width
        self.conv1, self.bn1 = conv(inputs, width, 1), norm(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride, dilation), norm(width)
        self.conv3, self.bn3 = conv(width, outputs, 1), norm(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride), norm(outputs))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """Returns the outputs of layer2, layer3 and layer4."""

    def __init__(self, c):
        super().__init__()
        norm = FrozenBatchNorm2d if c.frozen_bn else nn.BatchNorm2d
        block = Bottleneck if c.bottleneck else BasicBlock
        self.conv1 = nn.Conv2d(3, c.width, 7, 2, 3, bias=False)
        self.bn1 = norm(c.width)
        channels = c.width
        self.channels = []
        for i, count in enumerate(c.blocks):
            width = c.width * 2 ** i
            stride = 1 if i == 0 else 2
            first_dilation = dilation = 1
            if i == 3 and c.dilation:  # the first block keeps the dilation of the stage before
                stride, dilation = 1, 2
            blocks = [block(channels, width, stride, first_dilation, norm)]
            channels = width * block.expansion
            blocks += [block(channels, width, 1, dilation, norm) for _ in range(count - 1)]
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
            self.channels.append(channels)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
        stages = [("conv1", "bn1"), ("layer1",), ("layer2",), ("layer3",), ("layer4",)]
        for names in stages[:c.frozen_stages]:
            for name in names:
                getattr(self, name).requires_grad_(False)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        outputs = []
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
            outputs.append(x)
        return outputs[1:]


class Backbone(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.body = ResNet(c)


# ---- positions ---------------------------------------------------------------------------------------------

def frequencies(count, like):
    """10000^(2 floor(i / 2) / count) for i in [0, count)."""
    i = torch.arange(count, device=like.device, dtype=like.dtype)
    return 10000 ** (2 * torch.div(i, 2, rounding_mode="floor") / count)


def sines(x, count):
    """[...] -> [..., count]: sin and cos of x over each frequency, interleaved."""
    angle = x[..., None] / frequencies(count, x)
    return torch.stack((angle[..., 0::2].sin(), angle[..., 1::2].cos()), -1).flatten(-2)


def sine_positions(mask, d, dtype):
    """Pixel centres, counted over the unpadded pixels only and scaled to (0, 2 pi). -> [N, H, W, d], rows
    then columns."""
    inside = (~mask).to(dtype)
    rows, columns = inside.cumsum(1), inside.cumsum(2)
    rows = (rows - 0.5) / (rows[:, -1:, :] + 1e-6) * (2 * math.pi)
    columns = (columns - 0.5) / (columns[:, :, -1:] + 1e-6) * (2 * math.pi)
    return torch.cat((sines(rows, d // 2), sines(columns, d // 2)), -1)


def inverse_sigmoid(x, eps=1e-5):
    x = x.clamp(0, 1)
    return torch.log(x.clamp(min=eps) / (1 - x).clamp(min=eps))


# ---- attention and layers ----------------------------------------------------------------------------------

def sample(value, shapes, location, weights):
    """value [N, S, h, c]; location [N, Q, h, L, P, 2] in (0, 1); weights [N, Q, h, L, P] -> [N, Q, h c]"""
    n, q, h, l, p = weights.shape
    c = value.shape[-1]
    sampled = []
    for level, (part, (height, width)) in enumerate(zip(value.split([a * b for a, b in shapes], 1), shapes)):
        image = part.permute(0, 2, 3, 1).reshape(n * h, c, height, width)
        grid = (2 * location[:, :, :, level] - 1).transpose(1, 2).flatten(0, 1)  # [N h, Q, P, 2]
        sampled.append(F.grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=False))
    sampled = torch.stack(sampled, 3).flatten(3)  # [N h, c, Q, L P]
    weights = weights.transpose(1, 2).reshape(n * h, 1, q, l * p)
    return (sampled * weights).sum(-1).view(n, h * c, q).transpose(1, 2)


class MSDeformAttn(nn.Module):
    def __init__(self, d, heads, levels, points):
        super().__init__()
        self.heads, self.levels, self.points = heads, levels, points
        self.sampling_offsets = nn.Linear(d, heads * levels * points * 2)
        self.attention_weights = nn.Linear(d, heads * levels * points)
        self.value_proj = nn.Linear(d, d)
        self.output_proj = nn.Linear(d, d)

    def reset_parameters(self):
        nn.init.zeros_(self.sampling_offsets.weight)
        angle = torch.arange(self.heads, dtype=torch.float32) * (2 * math.pi / self.heads)
        direction = torch.stack((angle.cos(), angle.sin()), -1)
        direction = direction / direction.abs().max(-1, keepdim=True)[0]
        step = torch.arange(1, self.points + 1, dtype=torch.float32)
        bias = direction[:, None, None, :] * step[None, None, :, None]
        with torch.no_grad():
            self.sampling_offsets.bias.copy_(bias.expand(-1, self.levels, -1, -1).reshape(-1))
        nn.init.zeros_(self.attention_weights.weight)
        nn.init.zeros_(self.attention_weights.bias)
        for linear in (self.value_proj, self.output_proj):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, query, reference, source, shapes, padding):
        """query [N, Q, d]; reference [N, Q, L, 2 or 4]; source [N, S, d]; padding [N, S] or None.
        -> [N, Q, d]"""
        n, q, d = query.shape
        h, l, p = self.heads, self.levels, self.points
        value = self.value_proj(source)
        if padding is not None:
            value = value.masked_fill(padding[..., None], 0)
        value = value.view(n, -1, h, d // h)
        offsets = self.sampling_offsets(query).view(n, q, h, l, p, 2)
        weights = self.attention_weights(query).view(n, q, h, l * p).softmax(-1)
        centre = reference[:, :, None, :, None, :2]
        if reference.shape[-1] == 2:
            size = torch.tensor([[w, h] for h, w in shapes], dtype=query.dtype, device=query.device)
            location = centre + offsets / size[:, None, :]
        else:
            location = centre + offsets / p * reference[:, :, None, :, None, 2:] * 0.5
        return self.output_proj(sample(value, shapes, location, weights.view(n, q, h, l, p)))


class EncoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self_attn = MSDeformAttn(c.d, c.heads, c.levels, c.encoder_points)
        self.norm1 = nn.LayerNorm(c.d)
        self.linear1, self.linear2 = nn.Linear(c.d, c.ffn), nn.Linear(c.ffn, c.d)
        self.norm2 = nn.LayerNorm(c.d)

    def forward(self, x, position, reference, shapes, padding):
        x = self.norm1(x + self.self_attn(x + position, reference, x, shapes, padding))
        return self.norm2(x + self.linear2(F.relu(self.linear1(x))))


class DecoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.cross_attn = MSDeformAttn(c.d, c.heads, c.levels, c.decoder_points)
        self.norm1 = nn.LayerNorm(c.d)
        self.self_attn = nn.MultiheadAttention(c.d, c.heads, batch_first=True)
        self.norm2 = nn.LayerNorm(c.d)
        self.linear1, self.linear2 = nn.Linear(c.d, c.ffn), nn.Linear(c.ffn, c.d)
        self.norm3 = nn.LayerNorm(c.d)

    def forward(self, x, position, reference, memory, shapes, padding):
        q = x + position
        x = self.norm2(x + self.self_attn(q, q, x, need_weights=False)[0])
        x = self.norm1(x + self.cross_attn(x + position, reference, memory, shapes, padding))
        return self.norm3(x + self.linear2(F.relu(self.linear1(x))))


class Stack(nn.Module):
    """`layers`; in the decoder also the heads that are used between them."""

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)


class Mlp(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.layers = nn.ModuleList((nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, 4)))

    def forward(self, x):
        return self.layers[2](F.relu(self.layers[1](F.relu(self.layers[0](x)))))


def decode(delta, reference):
    """The box of a head's output and the reference (2 or 4 numbers) that it is relative to."""
    base = inverse_sigmoid(reference)
    if base.shape[-1] == 2:
        return torch.cat((delta[..., :2] + base, delta[..., 2:]), -1).sigmoid()
    return (delta + base).sigmoid()


class Transformer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.encoder = Stack([EncoderLayer(c) for _ in range(c.encoder_layers)])
        self.decoder = Stack([DecoderLayer(c) for _ in range(c.decoder_layers)])
        self.level_embed = nn.Parameter(torch.empty(c.levels, c.d))
        if c.two_stage:
            self.enc_output, self.enc_output_norm = nn.Linear(c.d, c.d), nn.LayerNorm(c.d)
            self.pos_trans, self.pos_trans_norm = nn.Linear(2 * c.d, 2 * c.d), nn.LayerNorm(2 * c.d)
        else:
            self.reference_points = nn.Linear(c.d, 2)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        for m in self.modules():
            if isinstance(m, MSDeformAttn):
                m.reset_parameters()
        if not c.two_stage:
            nn.init.zeros_(self.reference_points.bias)
        nn.init.normal_(self.level_embed)

    def encode(self, sources, masks):
        shapes = [tuple(s.shape[-2:]) for s in sources]
        like = sources[0]
        x = torch.cat([s.flatten(2).transpose(1, 2) for s in sources], 1)
        position = torch.cat([sine_positions(m, self.c.d, like.dtype).flatten(1, 2) + e
                              for m, e in zip(masks, self.level_embed)], 1)
        padding = torch.cat([m.flatten(1) for m in masks], 1)
        # The part of each level that is image, (x, y): [N, L, 2]
        ratios = torch.stack([torch.stack(((~m[:, 0, :]).sum(1) / m.shape[2], (~m[:, :, 0]).sum(1) / m.shape[1]), -1)
                              for m in masks], 1).to(like.dtype)
        reference = []
        for level, (h, w) in enumerate(shapes):
            ys = (torch.arange(h, dtype=like.dtype) + 0.5) / h
            xs = (torch.arange(w, dtype=like.dtype) + 0.5) / w
            grid = torch.stack((xs[None, :].expand(h, w), ys[:, None].expand(h, w)), -1).reshape(1, h * w, 2)
            reference.append(grid / ratios[:, None, level])
        reference = torch.cat(reference, 1)[:, :, None] * ratios[:, None]  # [N, S, L, 2]
        padding_or_none = padding if bool(padding.any()) else None
        for layer in self.encoder.layers:
            x = layer(x, position, reference, shapes, padding_or_none)
        return x, shapes, padding, ratios

    def proposals(self, memory, shapes, padding, masks):
        """Candidate boxes as logits [N, S, 4], infinite where unusable, and the memory with those tokens
        zeroed."""
        boxes = []
        for level, ((h, w), mask) in enumerate(zip(shapes, masks)):
            valid = torch.stack(((~mask[:, 0, :]).sum(1), (~mask[:, :, 0]).sum(1)), -1).to(memory.dtype)  # [N, 2]
            ys, xs = torch.arange(h, dtype=memory.dtype), torch.arange(w, dtype=memory.dtype)
            grid = torch.stack((xs[None, :].expand(h, w), ys[:, None].expand(h, w)), -1).reshape(1, h * w, 2)
            centre = (grid + 0.5) / valid[:, None]
            boxes.append(torch.cat((centre, torch.full_like(centre, 0.05 * 2 ** level)), -1))
        boxes = torch.cat(boxes, 1)
        bad = padding | ~((boxes > 0.01) & (boxes < 0.99)).all(-1)
        logits = torch.log(boxes / (1 - boxes)).masked_fill(bad[..., None], math.inf)
        return logits, memory.masked_fill(bad[..., None], 0)

    def forward(self, sources, masks, query_embed, class_embed, bbox_embed):
        """-> states of each decoder layer, the reference of each (first: the initial one), encoder (logits,
        boxes) or None"""
        c = self.c
        memory, shapes, padding, ratios = self.encode(sources, masks)
        n = memory.shape[0]
        encoder_output = None
        if c.two_stage:
            proposals, cleaned = self.proposals(memory, shapes, padding, masks)
            cleaned = self.enc_output_norm(self.enc_output(cleaned))
            scores = class_embed[c.decoder_layers](cleaned)
            coordinates = bbox_embed[c.decoder_layers](cleaned) + proposals
            encoder_output = (scores, coordinates.sigmoid())
            top = scores[..., 0].topk(c.queries, 1)[1]
            chosen = coordinates.gather(1, top[..., None].expand(-1, -1, 4)).detach().sigmoid()
            embedded = sines(chosen * (2 * math.pi), c.d // 2).flatten(2)  # [N, Q, 2 d]
            query, x = self.pos_trans_norm(self.pos_trans(embedded)).split(c.d, -1)
            reference = chosen
        else:
            query, x = query_embed.weight[None].expand(n, -1, -1).split(c.d, -1)
            reference = self.reference_points(query).sigmoid()
        padding_or_none = padding if bool(padding.any()) else None
        states, references = [], [reference]
        for i, layer in enumerate(self.decoder.layers):
            scale = ratios if reference.shape[-1] == 2 else torch.cat((ratios, ratios), -1)
            x = layer(x, query, reference[:, :, None] * scale[:, None], memory, shapes, padding_or_none)
            states.append(x)
            if c.refine:
                reference = decode(bbox_embed[i](x), reference).detach()
            references.append(reference)
        return states, references, encoder_output


class DeformableDetr(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.transformer = Transformer(c)
        heads = c.decoder_layers + (1 if c.two_stage else 0)

        def new_class():
            head = nn.Linear(c.d, c.classes)
            nn.init.constant_(head.bias, -math.log((1 - 0.01) / 0.01))
            return head

        def new_box(size_bias):
            head = Mlp(c.d)
            nn.init.zeros_(head.layers[2].weight)
            nn.init.zeros_(head.layers[2].bias)
            nn.init.constant_(head.layers[2].bias.data[2:], size_bias)
            return head

        if c.refine:
            # The heads of later layers correct the box before them, so only the first starts from a size;
            # with two stages the proposals provide it.
            first_class, first_box = new_class(), new_box(0.0)
            self.class_embed = nn.ModuleList([copy.deepcopy(first_class) for _ in range(heads)])
            self.bbox_embed = nn.ModuleList([copy.deepcopy(first_box) for _ in range(heads)])
            if not c.two_stage:
                nn.init.constant_(self.bbox_embed[0].layers[2].bias.data[2:], -2.0)
            self.transformer.decoder.bbox_embed = self.bbox_embed
        else:
            shared_class, shared_box = new_class(), new_box(0.0 if c.two_stage else -2.0)
            self.class_embed = nn.ModuleList([shared_class] * heads)
            self.bbox_embed = nn.ModuleList([shared_box] * heads)
        if c.two_stage:
            self.transformer.decoder.class_embed = self.class_embed
        else:
            self.query_embed = nn.Embedding(c.queries, 2 * c.d)

        self.backbone = nn.Sequential(Backbone(c))
        channels = self.backbone[0].body.channels
        inputs = channels[1:] if c.levels > 1 else channels[3:]
        projections = [nn.Sequential(nn.Conv2d(k, c.d, 1), nn.GroupNorm(32, c.d)) for k in inputs]
        k = channels[3]
        for _ in range(c.levels - len(projections)):
            projections.append(nn.Sequential(nn.Conv2d(k, c.d, 3, 2, 1), nn.GroupNorm(32, c.d)))
            k = c.d
        self.input_proj = nn.ModuleList(projections)
        for projection in projections:
            nn.init.xavier_uniform_(projection[0].weight)
            nn.init.zeros_(projection[0].bias)

    def forward(self, images, mask=None):
        """-> [(logits [N, Q, C], boxes [N, Q, 4]) of each decoder layer], encoder (logits, boxes) or None"""
        if mask is None:
            mask = torch.zeros((images.shape[0],) + tuple(images.shape[2:]), dtype=torch.bool)
        features = self.backbone[0].body(images)
        features = features if self.c.levels > 1 else features[-1:]
        sources = []
        for i, projection in enumerate(self.input_proj):
            sources.append(projection(features[i] if i < len(features) else
                                      features[-1] if i == len(features) else sources[-1]))
        masks = [F.interpolate(mask[:, None].float(), size=s.shape[-2:])[:, 0].bool() for s in sources]
        query_embed = None if self.c.two_stage else self.query_embed
        states, references, encoder_output = self.transformer(sources, masks, query_embed, self.class_embed,
                                                              self.bbox_embed)
        layers = [(self.class_embed[i](x), decode(self.bbox_embed[i](x), references[i])) for i, x in enumerate(states)]
        return layers, encoder_output
