"""PVT as in transformers (PvtForImageClassification), made to compute what the official code does, with its
names.

transformers differs from github.com/whai362/PVT in three places, which are corrected here: the norms of
patches and reductions have eps 1e-5; positions are resized from their own grid; the detection variant has no
class token and no last norm. Zeros pad maps that patches and reductions do not divide, which the official
code cuts.
"""
import copy
import re

import torch
import torch.nn.functional as F
from transformers import PvtConfig, PvtForImageClassification

NAMES = [(r"^pvt\.encoder\.", ""), (r"^layer_norm\.", "norm."), (r"^classifier\.", "head."),
         (r"^patch_embeddings\.(\d+)\.position_embeddings", r"pos_embed@\1"),
         (r"^patch_embeddings\.\d+\.cls_token", "cls_token"),
         (r"^patch_embeddings\.(\d+)\.projection\.", r"patch_embed@\1.proj."),
         (r"^patch_embeddings\.(\d+)\.layer_norm\.", r"patch_embed@\1.norm."),
         (r"^block\.(\d+)\.", r"block@\1."), (r"\.layer_norm_(\d)\.", r".norm\1."),
         (r"\.attention\.output\.dense\.", ".attn.proj."),
         (r"\.attention\.self\.query\.", ".attn.q."), (r"\.attention\.self\.layer_norm\.", ".attn.norm."),
         (r"\.attention\.self\.sequence_reduction\.", ".attn.sr."), (r"\.attention\.self\.", ".attn."),
         (r"\.mlp\.dense(\d)\.", r".mlp.fc\1."),
         (r"@(\d+)", lambda m: str(int(m[1]) + 1))]


def official_names(state):
    """transformers' state -> the official names, with key and value fused"""
    out = {}
    for name, value in state.items():
        for old, new in NAMES:
            name = re.sub(old, new, name)
        out[name] = value
    fused = {}
    for name, value in out.items():
        if ".attn.key." in name:
            fused[name.replace("key", "kv")] = torch.cat([value, out[name.replace("key", "value")]])
        elif ".attn.value." not in name:
            fused[name] = value
    return fused


def fill_up(conv, arguments):
    x, s = arguments[0], conv.stride[0]
    return (F.pad(x, (0, -x.shape[3] % s, 0, -x.shape[2] % s)),)


def resized(positions, height, width):
    side = round(positions.shape[1] ** 0.5)
    grid = positions.reshape(1, side, side, -1).permute(0, 3, 1, 2)
    return F.interpolate(grid, size=(height, width), mode="bilinear").flatten(2).transpose(1, 2)


def make_pvt(c, classes):
    stages = len(c["depths"])
    model = PvtForImageClassification(PvtConfig(
        image_size=c["image_size"], num_encoder_blocks=stages, depths=c["depths"], hidden_sizes=c["dims"],
        num_attention_heads=c["heads"], mlp_ratios=c["mlp_ratios"], sequence_reduction_ratios=c["reductions"],
        patch_sizes=[4] + [2] * (stages - 1), strides=[4] + [2] * (stages - 1), layer_norm_eps=1e-6, num_labels=classes))
    for patches in model.pvt.encoder.patch_embeddings:
        patches.layer_norm.eps = 1e-5
        patches.interpolate_pos_encoding = resized
    for name, module in model.named_modules():
        if name.endswith("attention.self.layer_norm"):
            module.eps = 1e-5
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_pre_hook(fill_up)
    return model


def maps(classifier, x):
    """The stages' maps of the detection variant, [N,h,w,C]."""
    model = copy.deepcopy(classifier).pvt
    last = model.encoder.patch_embeddings[-1]
    last.position_embeddings = torch.nn.Parameter(last.position_embeddings[:, 1:].detach())
    last.cls_token = None
    out = []
    for blocks in model.encoder.block:
        blocks[-1].register_forward_hook(lambda _, arguments, y: out.append(y[0].unflatten(1, arguments[1:3])))
    model(x)
    return out
