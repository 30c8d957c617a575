"""References for the segmentation models, with random weights.

  swin     transformers' UperNet on its Swin
  pvt      transformers' UperNet heads on its PVT, whose last stage has no class token here, as in PVT's own
           segmentation code
  fpn      semantic FPN, written here from Kirillov et al. 2019 on torchvision's FPN and a torchvision ResNet
           with the stem of ResNetV1c; the names are mmsegmentation's

For each of them FOLDER gets

  NAME.safetensors            the weights, in bf16
  NAME.golden.safetensors     `logits` [N, K, h, w] in evaluation, before they are resized; the parts of the
                              loss of a training step (`loss.class`, `loss.auxiliary`)
  NAME.gradients.safetensors  the gradients of that step

Images and labels follow from formulas (images_of, labels_of), which the test also has. The losses of UperNet
are means over the pixels that have a class; those of semantic FPN are divided by all pixels, and its classes
have weights, as mmsegmentation has it.

tests/train/checkpoints/segmenters_test.cpp reads tests/golden/segmenters.

Usage: python scripts/golden/published/segmenters.py [--folder F]
       needs torch, torchvision, transformers, safetensors
"""
import argparse
import copy
import os
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn
from torchvision.ops import FeaturePyramidNetwork
from transformers import PvtConfig, PvtModel, SwinConfig, UperNetConfig, UperNetForSemanticSegmentation
from transformers.models.upernet.modeling_upernet import UperNetFCNHead, UperNetHead

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from torchvision_parts import SmallBody  # noqa: E402

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tests", "golden", "segmenters")
CLASSES, IGNORED = 5, -1
CLASS_WEIGHTS = [0.5, 1, 1.5, 2, 0.25]  # of semantic FPN
# For each model; HEIGHT x WIDTH leave a remainder everywhere for semantic FPN.
SIZES = {"swin": (3, 96, 96), "pvt": (3, 64, 64), "fpn": (2, 70, 90)}


def images_of(count, height, width):
    """[N, 3, H, W] in [-2, 2), following the positions in memory of [N, H, W, 3]"""
    i = np.arange(count * height * width * 3, dtype=np.uint64)
    bits = (i * 2654435761 % 2 ** 32 ^ i * 40503 % 2 ** 16) >> 8
    x = bits.astype(np.float32) / np.float32(2 ** 22) - np.float32(2)
    return torch.from_numpy(x.reshape(count, height, width, 3)).permute(0, 3, 1, 2).contiguous()


def labels_of(count, height, width):
    n, y, x = np.meshgrid(np.arange(count), np.arange(height), np.arange(width), indexing="ij")
    value = (y // 9 * 3 + x // 7 * 5 + n) % (CLASSES + 2)
    return torch.from_numpy(np.where(value < CLASSES, value, IGNORED))


class PvtMaps(nn.Module):
    """The maps of the stages of a PvtModel, without a class token."""

    def __init__(self, config):
        super().__init__()
        self.encoder = PvtModel(config).encoder
        self.encoder.layer_norm = nn.Identity()
        del self.encoder.patch_embeddings[-1].cls_token

    def forward(self, x):
        maps = []
        for embedding, blocks in zip(self.encoder.patch_embeddings, self.encoder.block):
            x = embedding.projection(x)
            height, width = x.shape[2:]
            tokens = embedding.layer_norm(x.flatten(2).transpose(1, 2))
            tokens = tokens + embedding.position_embeddings[:, -height * width:]
            for block in blocks:
                tokens = block(tokens, height, width)[0]
            x = tokens.transpose(1, 2).reshape(len(x), -1, height, width)
            maps.append(x)
        return maps


class UperNet(nn.Module):
    """transformers' heads on the maps of another backbone."""

    def __init__(self, backbone, config, channels):
        super().__init__()
        self.backbone = backbone
        self.decode_head = UperNetHead(config, channels)
        self.auxiliary_head = UperNetFCNHead(config, channels)

    def forward(self, x):
        maps = self.backbone(x)
        maps = maps if isinstance(maps, list) else list(maps.feature_maps)
        return self.decode_head(maps), self.auxiliary_head(maps)


class Body(SmallBody):
    def __init__(self, width):
        super().__init__(width)
        half = width // 2
        layers = []
        for before, after, stride in ((3, half, 2), (half, half, 1), (half, width, 1)):
            layers += [nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        self.stem = nn.Sequential(*layers)
        del self.conv1, self.bn1, self.fc
        replace_norms(self)

    def forward(self, x):
        x = self.maxpool(self.stem(x))
        maps = []
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
            maps.append(x)
        return maps


def replace_norms(module):
    """Batch norms that are trained, in place of constants."""
    for name, child in module.named_children():
        if type(child).__name__ == "FrozenBatchNorm2d":
            setattr(module, name, nn.BatchNorm2d(len(child.weight)))
        else:
            replace_norms(child)


class Doubling(nn.Module):
    def forward(self, x):
        return F.interpolate(x, size=[2 * s for s in x.shape[2:]], mode="bilinear", align_corners=False)


class ConvBlock(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(before, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class SemanticFpn(nn.Module):
    def __init__(self, width=4, pyramid=8, channels=6):
        super().__init__()
        self.backbone = Body(width)
        self.fpn = FeaturePyramidNetwork([width << i for i in range(4)], pyramid)
        self.heads = nn.ModuleList()
        for level in range(4):
            layers = [ConvBlock(pyramid, channels)]
            for i in range(level):
                layers += [ConvBlock(channels, channels)] if i else []
                layers.append(Doubling())
            self.heads.append(nn.Sequential(*layers))
        self.conv_seg = nn.Conv2d(channels, CLASSES, 1)

    def forward(self, x):
        maps = self.fpn({str(i): m for i, m in enumerate(self.backbone(x))})
        total = 0
        for head, m in zip(self.heads, maps.values()):
            m = head(m)
            total = m if isinstance(total, int) else total + F.interpolate(m, total.shape[2:], mode="bilinear")
        return self.conv_seg(total), None

    @staticmethod
    def name(name):
        """mmsegmentation's"""
        for theirs, ours in (("fpn.inner_blocks.", "neck.lateral_convs."), ("fpn.layer_blocks.", "neck.fpn_convs.")):
            if name.startswith(theirs):
                level, _, kind = name[len(theirs):].split(".")
                return f"{ours}{level}.conv.{kind}"
        for theirs, ours in (("heads.", "decode_head.scale_heads."), ("conv_seg.", "decode_head.conv_seg.")):
            name = ours + name[len(theirs):] if name.startswith(theirs) else name
        return name


def make_model(name):
    config = dict(hidden_size=8, auxiliary_channels=6, num_labels=CLASSES, loss_ignore_index=IGNORED)
    if name == "fpn":
        return SemanticFpn(), SemanticFpn.name, None
    if name == "pvt":
        pvt = PvtConfig(hidden_sizes=[4, 8, 12, 16], depths=[1, 1, 2, 1], num_attention_heads=[1, 2, 3, 4],
                        sequence_reduction_ratios=[8, 4, 2, 1], mlp_ratios=[2, 2, 2, 2], image_size=64, drop_path_rate=0.0)
        upernet = UperNetConfig(auxiliary_in_channels=12, **config)
        return UperNet(PvtMaps(pvt), upernet, [4, 8, 12, 16]), lambda n: n, None
    swin = SwinConfig(embed_dim=4, depths=[1, 2, 1, 1], num_heads=[1, 2, 2, 4], window_size=2, drop_path_rate=0.0,
                      mlp_ratio=2.0, out_features=["stage1", "stage2", "stage3", "stage4"])
    whole = UperNetForSemanticSegmentation(UperNetConfig(backbone_config=swin, auxiliary_in_channels=16, **config))
    model = UperNet(whole.backbone, whole.config, whole.backbone.channels)
    model.decode_head, model.auxiliary_head = whole.decode_head, whole.auxiliary_head
    return model, lambda n: n, whole


@torch.no_grad()
def draw(model, seed):
    """Every tensor random, in numbers that bf16 can hold, to keep files small."""
    g = torch.Generator().manual_seed(seed)
    for name, t in model.state_dict().items():
        if not t.is_floating_point():
            continue
        if name.endswith("running_var") or t.dim() == 1 and name.endswith("weight"):
            value = torch.rand(t.shape, generator=g) + 0.5
        elif t.dim() >= 2 and "position" not in name:
            value = torch.randn(t.shape, generator=g) * (1.4 / t[0].numel() ** 0.5)
        else:
            value = torch.randn(t.shape, generator=g) * 0.3
        t.copy_(value.to(torch.bfloat16).to(t.dtype))


@torch.no_grad()
def tame(model, images):
    """Logits that vary by about 1."""
    model.eval()
    for logits, name in zip(model(images), ("decode_head", "auxiliary_head")):
        if logits is not None:
            head = getattr(model, name, model)
            last = head.conv_seg if hasattr(head, "conv_seg") else head.classifier
            last.weight.copy_((last.weight / logits.std()).to(torch.bfloat16).float())


def loss_of(name, logits, labels):
    logits = F.interpolate(logits, labels.shape[1:], mode="bilinear", align_corners=False)
    if name == "fpn":
        weight = torch.tensor(CLASS_WEIGHTS, dtype=logits.dtype)
        return F.cross_entropy(logits, labels, weight, ignore_index=IGNORED, reduction="sum") / labels.numel()
    return F.cross_entropy(logits, labels, ignore_index=IGNORED)


def make(name, folder, seed):
    model, name_of, whole = make_model(name)
    draw(model, seed)
    tame(model, images_of(*SIZES[name]))
    state = model.state_dict()
    if whole is not None:
        with tempfile.TemporaryDirectory() as d:
            whole.save_pretrained(d)
            state = load_file(d + "/model.safetensors")
    path = os.path.join(folder, name)
    save_file({name_of(k): v.to(torch.bfloat16).contiguous() if v.is_floating_point() else v for k, v in state.items()},
              path + ".safetensors", metadata={"format": "pt"})

    images, labels = images_of(*SIZES[name]).double(), labels_of(*SIZES[name])
    reference = copy.deepcopy(model).double().eval()
    with torch.no_grad():
        arrays = {"logits": reference(images)[0].float().contiguous()}
    reference.train()
    logits, auxiliary = reference(images)
    parts = {"class": loss_of(name, logits, labels)}
    if auxiliary is not None:
        parts["auxiliary"] = 0.4 * loss_of(name, auxiliary, labels)
    sum(parts.values()).backward()
    if whole is not None:  # the same as transformers' own
        own = copy.deepcopy(whole).double()
        own.load_state_dict({k: v.to(torch.bfloat16).double() if v.is_floating_point() else v
                             for k, v in whole.state_dict().items()})
        total = own.train()(pixel_values=images, labels=labels).loss
        assert abs(float(total.detach()) - float(sum(parts.values()).detach())) < 1e-9, (total, parts)
    arrays |= {"loss." + k: v.detach().float() for k, v in parts.items()}
    save_file(arrays, path + ".golden.safetensors")
    gradients = {name_of(n): p.grad.float().contiguous() for n, p in reference.named_parameters() if p.grad is not None}
    save_file(gradients, path + ".gradients.safetensors")
    print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters, logits vary by "
          f"{float(arrays['logits'].std()):.2f}, {', '.join(f'{k} {float(v.detach()):.4f}' for k, v in parts.items())}",
          flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default=GOLDEN)
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    os.makedirs(folder, exist_ok=True)
    for seed, name in enumerate(SIZES):
        make(name, folder, seed + 1)


if __name__ == "__main__":
    main()
