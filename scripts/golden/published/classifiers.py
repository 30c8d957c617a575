"""Small classifiers with random weights from timm, torchvision and transformers as their users save them,
with the best five classes of one picture, for tests/train/checkpoints/classifiers_test.cpp:
tests/golden/classifiers/NAME.{safetensors,pth} and expected.txt with a line NAME FILE CLASS SCORE CLASS SCORE
... for each.

Usage: python scripts/golden/published/classifiers.py
       needs torch, torchvision, transformers, timm, safetensors, Pillow
"""
import os
import tempfile

import numpy as np
import timm
import torch
import torchvision
import transformers as hf
from PIL import Image
from safetensors.torch import load_file, save_file

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tests", "golden", "classifiers")
IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
HALF = ([0.5] * 3, [0.5] * 3)


def randomise(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, t in list(model.named_parameters()) + list(model.named_buffers()):
            if not t.is_floating_point():
                continue
            noise = torch.randn(t.shape, generator=generator)
            if name.endswith("running_var"):
                t.copy_(1 + 0.1 * noise.abs())
            elif t.dim() == 1 and name.endswith("weight"):
                t.copy_(1 + 0.1 * noise)
            else:
                t.copy_(0.2 * noise)
    return model.eval()


def picture(side, center, bicubic):
    """As torchvision and timm evaluate: resizes the short side, then cuts out the centre."""
    image = Image.open(os.path.join(FOLDER, "picture.png"))
    scaled = max(side, int(side / center))
    w, h = image.size
    size = (scaled, int(scaled * h / w)) if w < h else (int(scaled * w / h), scaled)
    image = image.resize(size, Image.BICUBIC if bicubic else Image.BILINEAR)
    left, top = round((size[0] - side) / 2), round((size[1] - side) / 2)
    return np.asarray(image.crop((left, top, left + side, top + side)))


def logits(model, pixels, norm):
    mean, std = (np.array(v, np.float32) for v in norm)
    x = torch.from_numpy((pixels.astype(np.float32) / 255 - mean) / std).permute(2, 0, 1)[None]
    with torch.no_grad():
        out = model(x)
    return (out if isinstance(out, torch.Tensor) else out.logits)[0]


class SmallResNet(torchvision.models.ResNet):
    """torchvision's with a sixteenth of the channels."""

    @property
    def inplanes(self):
        return self.channels

    @inplanes.setter
    def inplanes(self, value):
        self.channels = value if hasattr(self, "channels") else value // 16

    def _make_layer(self, block, planes, *args, **kwargs):
        return super()._make_layer(block, planes // 16, *args, **kwargs)

    def __init__(self, block, layers, classes):
        super().__init__(block, layers)
        self.fc = torch.nn.Linear(32 * block.expansion, classes)


def save(model, name, kind):
    path = os.path.join(FOLDER, name + (".pth" if kind == "pth" else ".safetensors"))
    if kind == "pth":
        torch.save({"model": model.state_dict()}, path)
    elif kind == "timm":
        save_file({k: v.contiguous() for k, v in model.state_dict().items()}, path)
    else:
        with tempfile.TemporaryDirectory() as d:
            model.save_pretrained(d)
            save_file(load_file(d + "/model.safetensors"), path)
    return os.path.basename(path)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    rng = np.random.default_rng(1)
    small = Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8))
    small.resize((80, 60), Image.BICUBIC).save(os.path.join(FOLDER, "picture.png"))
    vit = dict(img_size=32, patch_size=8, embed_dim=16, depth=2, num_heads=1, mlp_ratio=2, num_classes=7)
    vit_hf = dict(image_size=32, patch_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=1, intermediate_size=32,
                  num_labels=7)
    swin = dict(embed_dim=8, depths=[1, 2], num_heads=[1, 2], window_size=4, num_classes=7)
    resnet = hf.ResNetConfig(embedding_size=4, hidden_sizes=[4, 8, 16, 32], depths=[1, 1, 1, 1], layer_type="basic",
                             num_labels=7)
    cases = [
        ("timm_vit", "timm", timm.models.vision_transformer.VisionTransformer(**vit), 32, 0.875, True, IMAGENET),
        ("timm_deit_distilled", "timm", timm.models.deit.VisionTransformerDistilled(**vit), 32, 0.875, True, IMAGENET),
        ("hf_vit", "hf", hf.ViTForImageClassification(hf.ViTConfig(**vit_hf)), 32, 0.875, True, HALF),
        ("torchvision_vit", "pth", torchvision.models.VisionTransformer(
            image_size=32, patch_size=8, num_layers=2, num_heads=1, hidden_dim=16, mlp_dim=32, num_classes=7),
         32, 0.875, True, IMAGENET),
        ("timm_swin", "timm", timm.models.swin_transformer.SwinTransformer(img_size=32, **swin), 32, 0.9, True, IMAGENET),
        ("torchvision_swin", "pth", torchvision.models.SwinTransformer(
            patch_size=[4, 4], embed_dim=8, depths=[1, 2], num_heads=[1, 2], window_size=[4, 4], num_classes=7),
         32, 0.9, True, IMAGENET),
        ("hf_resnet", "hf", hf.ResNetForImageClassification(resnet), 224, 0.875, False, IMAGENET),
        ("torchvision_resnet", "pth", SmallResNet(torchvision.models.resnet.Bottleneck, [1, 2, 1, 1], 7),
         224, 0.875, False, IMAGENET),
        ("hf_pvt", "hf", hf.PvtForImageClassification(hf.PvtConfig(
            image_size=32, num_encoder_blocks=3, depths=[1, 2, 1], hidden_sizes=[8, 16, 24], num_attention_heads=[1, 1, 1],
            mlp_ratios=[4, 2, 2], sequence_reduction_ratios=[4, 2, 1], patch_sizes=[4, 2, 2], strides=[4, 2, 2],
            num_labels=7)), 32, 0.875, True, IMAGENET),
        ("hf_dinov2_registers", "hf", hf.Dinov2WithRegistersForImageClassification(hf.Dinov2WithRegistersConfig(
            image_size=32, patch_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=1, mlp_ratio=2,
            num_register_tokens=3, num_labels=7)), 224, 0.875, True, IMAGENET),
    ]
    lines = []
    for seed, (name, kind, model, side, center, bicubic, norm) in enumerate(cases):
        randomise(model, seed)
        if hasattr(model, "distilled_training"):
            model.distilled_training = False
        scores = torch.softmax(logits(model, picture(side, center, bicubic), norm).double(), 0)
        best = torch.argsort(scores, descending=True, stable=True)[:5].tolist()
        file = save(model, name, kind)
        lines.append(" ".join([name, file] + [f"{k} {scores[k].item():.9f}" for k in best]))
        print(lines[-1])
    with open(os.path.join(FOLDER, "expected.txt"), "w") as f:
        f.write("\n".join(lines) + "\n")


main()
