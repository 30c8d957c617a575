"""Writes golden files of full-size models from code that Saccade's authors did not write, and compares
Saccade with them.

    /tmp/venv/bin/python scripts/golden/make_full_size.py FOLDER [--height 800 --width 1066] [--only NAME]
    SACCADE_GOLDEN=FOLDER build/test_train --gtest_filter='GoldenFolder.*'

The test prints the greatest difference of each model's logits and boxes, which may be 1e-4, or of its feature
maps, which may be twice as far from the f64 values as PyTorch's own f32 is (stray.NAME in the files). Random
weights from a fixed seed; two images, the second smaller and padded.

    detr_r50, detr_r101           transformers' DetrForObjectDetection with its own ResNet
    detr_r50_dc5                  the same with timm's ResNet, dilated
    resnet50, resnet101, resnet50_dc5   torchvision's, stages 2 to 4, batch norms with running statistics

The batch norms' statistics are those of torchvision's ResNet on the images, so that activations keep their
size through all layers. Everything is computed in f64. Each file takes up to 250 MB, a minute, and 10 GB of
memory (dc5).
"""
import argparse
import os

import torch
import torchvision

import detr_files
import transformers_detr
from small_detr import Config

BLOCKS = {"r50": (3, 4, 6, 3), "r101": (3, 4, 23, 3)}
DETRS = {"detr_r50": Config(blocks=BLOCKS["r50"]), "detr_r101": Config(blocks=BLOCKS["r101"]),
         "detr_r50_dc5": Config(blocks=BLOCKS["r50"], dilation=True)}
RESNETS = {"resnet50": Config(blocks=BLOCKS["r50"]), "resnet101": Config(blocks=BLOCKS["r101"]),
           "resnet50_dc5": Config(blocks=BLOCKS["r50"], dilation=True)}


def make_resnet(c, images):
    """torchvision's ResNet with random weights and the running statistics of the images."""
    make = {6: torchvision.models.resnet50, 23: torchvision.models.resnet101}[c.blocks[2]]
    model = make(weights=None, replace_stride_with_dilation=[False, False, c.dilation])
    for name, m in model.named_modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            m.momentum = 1.0
            # Small steps of the residual stream: otherwise a hundred random layers amplify rounding beyond
            # 1e-4.
            torch.nn.init.uniform_(m.weight, *((0.1, 0.3) if name.endswith("bn3") else (0.5, 1.0)))
            torch.nn.init.normal_(m.bias, 0, 0.1)
    with torch.no_grad():
        model.train()(images.float())
    return model.eval()


def body_state(resnet):
    return {k: v for k, v in resnet.state_dict().items()
            if not k.startswith("fc.") and not k.endswith("num_batches_tracked")}


def features(resnet, x):
    x = resnet.layer1(resnet.maxpool(resnet.relu(resnet.bn1(resnet.conv1(x)))))
    values = {}
    for stage in (2, 3, 4):
        x = getattr(resnet, f"layer{stage}")(x)
        values[f"feature.{stage}"] = x.permute(0, 2, 3, 1).contiguous()
    return values


def outputs(model, images, mask):
    layers = transformers_detr.predict(model, images, mask)
    return {"output.logits": torch.stack([l for l, _ in layers]), "output.boxes": torch.stack([b for _, b in layers])}


def write(path, c, state, batch, compute):
    """compute: f32 or f64 images -> {name: tensor}"""
    rough, exact = compute(batch[0].float()), compute(batch[0])
    stray = {"stray." + k: (rough[k] - v).abs().max() for k, v in exact.items()}
    print(os.path.basename(path), "PyTorch's f32 strays by", ", ".join(f"{k[6:]} {float(v):.1e}" for k, v in stray.items()))
    detr_files.write(path, c, state, batch, {**exact, **stray})


def write_resnet(path, c, resnet, batch):
    write(path, c, body_state(resnet), batch, lambda x: features(resnet.to(x.dtype), x))


def write_detr(path, c, resnet, batch):
    model = transformers_detr.build(c, timm=c.dilation)
    body = {"backbone.0.body." + k: v for k, v in body_state(resnet).items()}
    with torch.no_grad():
        for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
            official = transformers_detr.official_name(name)
            if official.startswith("backbone.0.") and not official.endswith("num_batches_tracked"):
                tensor.copy_(body.pop(official))
    assert not body, list(body)
    state = transformers_detr.official(model.state_dict())
    write(path, c, state, batch, lambda x: outputs(model.to(x.dtype), x, batch[1]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--height", type=int, default=800)
    parser.add_argument("--width", type=int, default=1066)
    parser.add_argument("--only", choices=[*DETRS, *RESNETS])
    a = parser.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    for name, c in {**DETRS, **RESNETS}.items():
        if a.only and name != a.only:
            continue
        torch.manual_seed(1)
        sizes = [(a.height, a.width), (a.height * 7 // 10, a.width * 9 // 10)]
        batch = detr_files.make_images(sizes, [3, 3], torch.Generator().manual_seed(1))
        with torch.no_grad():
            resnet = make_resnet(c, batch[0])
            (write_detr if name in DETRS else write_resnet)(os.path.join(a.folder, name), c, resnet, batch)
        print("wrote", name, flush=True)


if __name__ == "__main__":
    main()
