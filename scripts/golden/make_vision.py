"""Writes the golden files of tests/golden/vision/ (safetensors): Swin, ViT, DeiT and PVT next to
transformers' models.

    python scripts/golden/make_vision.py [--full FOLDER] [NAME...]

swin, vit, deit and pvt are reduced models with random weights; --full writes swin_t, vit_b, deit_s and pvt_s
at full size into FOLDER instead (some hundred MB, not for the repository): SACCADE_VISION_GOLDEN=FOLDER
build/test_train --gtest_filter='*Vision*' compares them and prints the greatest differences.

A file holds
    metadata     "model": the section of that name of a configuration
    w.NAME       the classifier's weights under the official names, and norm0, norm1, ... of the detection
                 variant (swin)
    cI.images    u8 [N,H,W,3]; the models see images / 64 - 2; sizes that patch and window do and do not
                 divide
    cI.logits    of the classifier; cI.mapS: the maps of stage S + 1 of the backbone (swin: behind normS),
                 [N,h,w,C]
    padded.*     the same for a batch whose second image ends earlier, with zeros (after normalisation) behind
                 it; padded.sizes i64 [N,2] (reduced swin, vit and pvt)
    step.images, step.labels, step.loss, grad.NAME: one step of mean cross entropy (reduced models)
    losses       f64 [30] of AdamW (rate 1e-3, decay 0.05 on everything, betas 0.9 and 0.999, epsilon 1e-8, no
                 clipping) on batch0 to batch3, .images and .labels, in turn (reduced models)
All values were computed in f64 and rounded once.
"""
import argparse
import copy
import os

import numpy as np
import torch
from transformers import (DeiTConfig, DeiTForImageClassificationWithTeacher, SwinBackbone, SwinConfig,
                          SwinForImageClassification, ViTConfig, ViTForImageClassification)

import pvt
from safetensors_io import save

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden", "vision")
REDUCED = {
    "swin": dict(type="swin", embed_dim=8, depths=[2, 2, 1], heads=[1, 2, 4], window=3, mlp_ratio=2.0),
    "vit": dict(type="vit", image_size=16, patch=4, dim=12, depth=2, heads=2, mlp_ratio=4.0, distilled=False),
    "deit": dict(type="vit", image_size=16, patch=4, dim=12, depth=2, heads=3, mlp_ratio=4.0, distilled=True),
    "pvt": dict(type="pvt", image_size=32, depths=[1, 2, 1], dims=[8, 16, 24], heads=[1, 2, 3], mlp_ratios=[4, 2, 2],
                reductions=[4, 2, 1]),
}
FULL = {
    "swin_t": dict(type="swin", embed_dim=96, depths=[2, 2, 6, 2], heads=[3, 6, 12, 24], window=7, mlp_ratio=4.0),
    "vit_b": dict(type="vit", image_size=224, patch=16, dim=768, depth=12, heads=12, mlp_ratio=4.0, distilled=False),
    "deit_s": dict(type="vit", image_size=224, patch=16, dim=384, depth=12, heads=6, mlp_ratio=4.0, distilled=True),
    "pvt_s": dict(type="pvt", image_size=224, depths=[3, 4, 6, 3], dims=[64, 128, 320, 512], heads=[1, 2, 5, 8],
                  mlp_ratios=[8, 8, 4, 4], reductions=[8, 4, 2, 1]),
}
STEPS = 30


def make_model(c, classes):
    if c["type"] == "swin":
        stages = [f"stage{i + 1}" for i in range(len(c["depths"]))]
        config = SwinConfig(image_size=48, patch_size=4, embed_dim=c["embed_dim"], depths=c["depths"], num_heads=c["heads"],
                            window_size=c["window"], mlp_ratio=c["mlp_ratio"], drop_path_rate=0.0, num_labels=classes,
                            out_features=stages, attn_implementation="eager")
        classifier, backbone = SwinForImageClassification(config), SwinBackbone(config)
    elif c["type"] == "pvt":
        classifier, backbone = pvt.make_pvt(c, classes), None
    else:
        sizes = dict(hidden_size=c["dim"], num_hidden_layers=c["depth"], num_attention_heads=c["heads"],
                     intermediate_size=int(c["dim"] * c["mlp_ratio"]), image_size=c["image_size"], patch_size=c["patch"],
                     num_labels=classes, layer_norm_eps=1e-6, attn_implementation="eager")
        backbone = None
        if c["distilled"]:
            classifier = DeiTForImageClassificationWithTeacher(DeiTConfig(**sizes))
        else:
            classifier = ViTForImageClassification(ViTConfig(**sizes))
    return classifier.eval(), backbone and backbone.eval()


def official_names(state):
    """transformers' state -> the official names, with query, key and value fused"""
    if any(name.startswith("pvt.") for name in state):
        return pvt.official_names(state)
    out = {}
    for name, value in state.items():
        if "relative_position_index" in name:
            continue
        for old, new in (("hidden_states_norms.stage", "norm@"), ("relative_position_bias.relative", "relative"),
                         ("swin.embeddings.norm", "patch_embed.norm"), ("swin.embeddings.", ""), ("swin.encoder.", ""),
                         ("swin.layernorm", "norm"),
                         ("vit.layers", "blocks"), ("deit.layers", "blocks"), ("vit.embeddings.", ""),
                         ("deit.embeddings.", ""), ("vit.layernorm", "norm"), ("deit.layernorm", "norm"),
                         ("position_embeddings", "pos_embed"), ("distillation_token", "dist_token"),
                         ("patch_embeddings.projection", "patch_embed.proj"), ("attention.", "attn."),
                         ("o_proj", "proj"), ("layernorm_before", "norm1"), ("layernorm_after", "norm2"),
                         ("cls_classifier", "head"), ("distillation_classifier", "head_dist"), ("classifier", "head")):
            name = name.replace(old, new)
        if name.startswith("norm@"):
            number, rest = name[5:].split(".")
            name = f"norm{int(number) - 1}.{rest}"
        out[name] = value
    fused = {}
    for name, value in out.items():
        if ".q_proj." in name:
            parts = [out[name.replace("q_proj", part)] for part in ("q_proj", "k_proj", "v_proj")]
            fused[name.replace("q_proj", "qkv")] = torch.cat(parts)
        elif ".k_proj." not in name and ".v_proj." not in name:
            fused[name] = value
    return fused


def model_text(c, classes):
    """The model section of a configuration, in textproto."""
    def arg(key, value):
        kind = {bool: "bool", int: "int", float: "float", list: "ints"}[type(value)]
        return f'arg {{ key: "{key}" {kind}: {str(value).lower()} }}'
    arguments = " ".join(arg(k, v) for k, v in c.items() if k != "type")
    return f'type: "classifier" num_classes: {classes} backbone {{ type: "{c["type"]}" {arguments} }}'


def patch_of(c):
    return c.get("patch", 4)


def pixels(images):
    return (images.double() / 64 - 2).permute(0, 3, 1, 2)


def classify(c, classifier, x):
    """A fresh copy: transformers' Swin keeps the window chosen for the first image size."""
    if c["type"] == "swin":
        return copy.deepcopy(classifier)(x).logits
    if c["type"] == "pvt":
        return classifier(x).logits
    p = patch_of(c)
    x = torch.nn.functional.pad(x, (0, -x.shape[3] % p, 0, -x.shape[2] % p))
    return classifier(x, interpolate_pos_encoding=True).logits


def maps(c, classifier, backbone, x):
    if c["type"] == "swin":
        return [m.permute(0, 2, 3, 1) for m in backbone(x).feature_maps]
    if c["type"] == "pvt":
        return pvt.maps(classifier, x)
    p = patch_of(c)
    x = torch.nn.functional.pad(x, (0, -x.shape[3] % p, 0, -x.shape[2] % p))
    body = classifier.deit if c["distilled"] else classifier.vit
    tokens = body(x, interpolate_pos_encoding=True).last_hidden_state[:, 2 if c["distilled"] else 1:]
    return [tokens.reshape(x.shape[0], x.shape[2] // p, x.shape[3] // p, -1)]


def random_images(g, n, h, w):
    coarse = torch.randn(n, 3, 5, 6, generator=g)
    smooth = torch.nn.functional.interpolate(coarse, size=(h, w), mode="bilinear", align_corners=False)
    x = 128 + 50 * (smooth + 0.5 * torch.randn(n, 3, h, w, generator=g))
    return x.clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def training_names(classifier, gradients):
    parameters = dict(classifier.named_parameters())
    return official_names({k: gradients(p) for k, p in parameters.items()})


def loss_of(c, classifier, images, labels):
    p = pixels(images)
    if c["type"] in ("swin", "pvt"):
        logits = classifier(p).logits
    else:
        logits = classifier(p, interpolate_pos_encoding=True).logits
    return torch.nn.functional.cross_entropy(logits, labels)


def make(name, c, folder, full):
    torch.manual_seed(1)
    g = torch.Generator().manual_seed(2)
    classes = 1000 if full else 5
    classifier, backbone = make_model(c, classes)
    with torch.no_grad():
        for k, p in classifier.named_parameters():  # nothing zero or symmetric by accident
            p += (0.01 if full else 0.05) * torch.randn(p.shape, generator=g)
            if "relative_position_bias_table" in k:
                p += 0.3 * torch.randn(p.shape, generator=g)
    classifier = classifier.double()
    arrays = {"w." + k: v.float().numpy() for k, v in official_names(classifier.state_dict()).items()}
    if backbone is not None:
        with torch.no_grad():
            for k, p in backbone.named_parameters():
                if k.startswith("hidden_states_norms"):
                    p += 0.1 * torch.randn(p.shape, generator=g)
        backbone = backbone.double()
        shared = {k: v for k, v in classifier.state_dict().items() if k.startswith("swin.")}
        missing = [k for k in backbone.load_state_dict(shared, strict=False).missing_keys if "index" not in k]
        assert all(k.startswith("hidden_states_norms") for k in missing), missing
        norms = {k: v for k, v in backbone.state_dict().items() if k.startswith("hidden_states_norms")}
        arrays.update({"w." + k: v.float().numpy() for k, v in official_names(norms).items()})

    if full:
        sizes = [(1, 224, 224), (1, 250, 333)]
    else:
        sizes = {"swin": [(2, 48, 48), (1, 41, 55)], "pvt": [(2, 32, 32), (1, 41, 55)],
                 "vit": [(2, 16, 16), (1, 22, 29)]}[c["type"]]
    for i, size in enumerate(sizes):
        images = random_images(g, *size)
        arrays[f"c{i}.images"] = images.numpy()
        with torch.no_grad():
            arrays[f"c{i}.logits"] = classify(c, classifier, pixels(images)).float().numpy()
            for s, m in enumerate(maps(c, classifier, backbone, pixels(images))):
                arrays[f"c{i}.map{s}"] = m.float().contiguous().numpy()
    if not full:
        if not c.get("distilled"):
            images, (h, w) = random_images(g, 2, 48, 56), (37, 50)
            x = pixels(images)
            x[1, :, h:] = 0
            x[1, :, :, w:] = 0
            arrays["padded.images"], arrays["padded.sizes"] = images.numpy(), np.array([[48, 56], [h, w]])
            with torch.no_grad():
                for s, m in enumerate(maps(c, classifier, backbone, x)):
                    arrays[f"padded.map{s}"] = m.float().contiguous().numpy()
        side = {"swin": 36, "pvt": 32, "vit": 16}[c["type"]]
        batches = [(random_images(g, 3, side, side), torch.randint(0, classes, (3,), generator=g)) for _ in range(4)]
        model = copy.deepcopy(classifier)
        loss = loss_of(c, model, *batches[0])
        loss.backward()
        arrays["step.loss"] = np.array([loss.item()])
        arrays.update({"grad." + k: v.float().numpy() for k, v in training_names(model, lambda p: p.grad).items()})
        model.zero_grad()
        optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05), []
        for step in range(STEPS):
            loss = loss_of(c, model, *batches[step % 4])
            losses.append(loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"{name}: losses {losses[0]:.4f} ... {losses[-1]:.4f}")
        arrays["losses"] = np.array(losses)
        for i, (images, labels) in enumerate(batches):
            arrays[f"batch{i}.images"], arrays[f"batch{i}.labels"] = images.numpy(), labels.numpy()
    path = os.path.join(folder, name + ".safetensors")
    save(path, arrays, {"model": model_text(c, classes)})
    print(f"{path}: {os.path.getsize(path)} bytes")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", metavar="FOLDER")
    parser.add_argument("names", metavar="NAME", nargs="*", help="only these models")
    arguments = parser.parse_args()
    full = arguments.full
    torch.set_num_threads(1)
    folder = full or FOLDER
    os.makedirs(folder, exist_ok=True)
    for name, c in (FULL if full else REDUCED).items():
        if not arguments.names or name in arguments.names:
            make(name, c, folder, bool(full))


if __name__ == "__main__":
    main()
