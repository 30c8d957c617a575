"""Writes full-size files (several GB, not for the repository) of the large classifiers next to timm's models,
with random weights:

    python scripts/golden/make_timm_sizes.py FOLDER [NAME...]
    SACCADE_VISION_GOLDEN=FOLDER build/test_train --gtest_filter='*Vision*'    # compares and prints the greatest differences

They hold the same as those of make_vision.py, except that both images have the model's own size. Everything
was computed in f64.
"""
import argparse
import os
import re

import timm
import torch

from make_vision import model_text, pixels, random_images
from safetensors_io import save


def vit(name, dim, depth, heads, size):
    return name, dict(type="vit", image_size=size, patch=16, dim=dim, depth=depth, heads=heads, mlp_ratio=4.0,
                      distilled=False)


def swin(name, dim, heads, window):
    return name, dict(type="swin", embed_dim=dim, depths=[2, 2, 18, 2], heads=[heads << stage for stage in range(4)],
                      window=window, mlp_ratio=4.0)


SIZES = {
    "vit_l": vit("vit_large_patch16_224", 1024, 24, 16, 224),
    "deit_b_384": vit("deit_base_patch16_384", 768, 12, 12, 384),
    "swin_b_384": swin("swin_base_patch4_window12_384", 128, 4, 12),
    "swin_l": swin("swin_large_patch4_window7_224", 192, 6, 7),
    "swin_l_384": swin("swin_large_patch4_window12_384", 192, 6, 12),
}


def official_name(name):
    name = re.sub(r"layers\.(\d+)\.downsample", lambda m: f"layers.{int(m[1]) - 1}.downsample", name)
    return name.replace("head.fc.", "head.")


def make(name, timm_name, c, folder):
    torch.manual_seed(1)
    g = torch.Generator().manual_seed(2)
    model = timm.create_model(timm_name, pretrained=False).eval()
    with torch.no_grad():
        for k, p in model.named_parameters():  # nothing zero or symmetric by accident
            p += (0.3 if "relative_position_bias_table" in k else 0.01) * torch.randn(p.shape, generator=g)
    model = model.double()
    arrays = {"w." + official_name(k): p.detach().float().numpy() for k, p in model.named_parameters()}
    norms, detection = [], model
    if c["type"] == "swin":  # the detection variant has norms of its own, and shifts the windows of all maps
        detection = timm.create_model(timm_name, pretrained=False, always_partition=True).eval().double()
        detection.load_state_dict(model.state_dict())
        for s in range(4):
            norms.append(torch.nn.LayerNorm(c["embed_dim"] << s).double())
            with torch.no_grad():
                for p in norms[s].parameters():
                    p += 0.1 * torch.randn(p.shape, generator=g)
            arrays |= {f"w.norm{s}.{k}": p.detach().float().numpy() for k, p in norms[s].named_parameters()}
    side = c.get("image_size", 32 * c.get("window", 0))
    for i in range(2):
        images = random_images(g, 1, side, side)
        arrays[f"c{i}.images"] = images.numpy()
        with torch.no_grad():
            x = pixels(images)
            last = model.forward_features(x)
            if norms:
                stages = detection.forward_intermediates(x, output_fmt="NCHW", intermediates_only=True)
                maps = [norm(m.permute(0, 2, 3, 1)) for norm, m in zip(norms, stages)]
            else:
                maps = [last[:, 1:].reshape(1, side // 16, side // 16, -1)]
            arrays[f"c{i}.logits"] = model.forward_head(last).float().numpy()
            for s, m in enumerate(maps):
                arrays[f"c{i}.map{s}"] = m.float().contiguous().numpy()
    path = os.path.join(folder, name + ".safetensors")
    save(path, arrays, {"model": model_text(c, 1000)})
    print(f"{path}: {sum(p.numel() for p in model.parameters()):,} parameters")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("names", metavar="NAME", nargs="*", help="only these models")
    arguments = parser.parse_args()
    os.makedirs(arguments.folder, exist_ok=True)
    for size, (timm_model, settings) in SIZES.items():
        if not arguments.names or size in arguments.names:
            make(size, timm_model, settings, arguments.folder)
