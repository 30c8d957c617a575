"""Writes the golden files of tests/golden/small_detr/ (see detr_files.py).

    /tmp/venv/bin/python scripts/golden/make_small_detr.py [--search N]

Tiny DETRs (d 16, 4 heads, 1 or 2 + 2 layers, FFN 24, 8 queries, 5 classes, a ResNet of width 2, frozen batch
norms with random constants, dropout 0) with random weights:

    sine, learned, dc5   transformers' DetrForObjectDetection in f64, its weights under the official names;
                         two images of different sizes, one padded. The same weights in small_detr.py give the
                         same numbers, checked here.
    pre_norm             small_detr.py alone (transformers has no pre-norm layers): pre-norm and learned
                         positions
    anchors              small_detr.py alone: boxes as queries

Losses come from criterion.py (checked here against transformers' own); gradients from autograd. The weights
of the stem and of layer1 are not trained. sine.training.safetensors: batchB.images, .mask, .I.labels,
.I.boxes of four batches (one image has no object), and losses [30], grad_norms [30] (before clipping), f64,
of AdamW (rate 5e-3, decay 1e-4 on everything, global norm clipped to 0.1) from sine.weights with batch (step
mod 4).

All values were computed in f64 and rounded once. Gradients are compared by the rule of
make_small_deformable_detr.py, and the seed is the first for which, by that rule, f32 strays from f64 by less
than 3e-5 and no assignment sits on an edge.
"""
import argparse
import copy
import os

import numpy as np
import torch

import detr_files
import transformers_detr
from criterion import criterion
from make_small_deformable_detr import deviation
from safetensors_io import save
from small_detr import Config, Detr

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden", "small_detr")
COMMON = dict(d=16, heads=4, encoder_layers=2, decoder_layers=2, ffn=24, queries=8, classes=5, blocks=(1, 1, 1, 1), width=2,
              bottleneck=False)
VARIANTS = {
    "sine": (Config(**COMMON), [(96, 128), (70, 100)]),
    "learned": (Config(**{**COMMON, "encoder_layers": 1}, learned=True), [(64, 96), (96, 60)]),
    "dc5": (Config(**{**COMMON, "blocks": (1, 1, 1, 2), "bottleneck": True, "encoder_layers": 1}, dilation=True),
            [(64, 96), (50, 64)]),
    "pre_norm": (Config(**COMMON, pre_norm=True, learned=True), [(64, 96), (60, 70)]),
    "anchors": (Config(**{**COMMON, "encoder_layers": 1}, anchors=True), [(96, 64), (60, 50)]),
}
STEPS = 30


def shake(model, g):
    """Moves everything away from its initial value, so that nothing is zero or symmetric by accident."""
    with torch.no_grad():
        for p in model.parameters():
            p += 0.05 * torch.randn(p.shape, generator=g)
        for name, b in model.named_buffers():
            noise = torch.randn(b.shape, generator=g)
            if name.endswith("running_mean"):
                b += 0.1 * noise
            elif name.endswith("running_var"):
                b *= (0.3 * noise).exp()
            elif name.endswith(("weight", "bias")):
                b += 0.2 * noise
    return model


def step(model, predict, batch):
    """One forward and backward pass -> (everything to compare under official names, the pairs)"""
    images, mask, targets = batch
    dtype = next(model.parameters()).dtype
    model.zero_grad(set_to_none=True)
    layers = predict(model, images.to(dtype), mask)
    total, parts, pairs = criterion(layers, None, [(l, b.to(dtype)) for l, b in targets], softmax=True)
    total.backward()
    values = {"output.logits": torch.stack([l for l, _ in layers]), "output.boxes": torch.stack([b for _, b in layers]),
              "loss.total": total}
    values.update({"loss." + k: v for k, v in parts.items()})
    gradients = {k: p.grad for k, p in model.named_parameters() if p.grad is not None}
    values.update({"grad." + k: v for k, v in transformers_detr.official(gradients).items()})
    return {k: v.detach().double().clone() for k, v in values.items()}, pairs


def own_predict(model, images, mask):
    return model(images, mask)


def check_transformers_loss(model, batch, values):
    """transformers' own loss of the last layer, which runs in f32 only."""
    images, mask, targets = batch
    labels = [{"class_labels": l, "boxes": b} for l, b in targets]
    result = copy.deepcopy(model).float()(images.float(), pixel_mask=(~mask).long(), labels=labels)
    for ours, theirs in (("class", "loss_ce"), ("bbox", "loss_bbox"), ("giou", "loss_giou")):
        difference = abs(float(values["loss." + ours]) - float(result.loss_dict[theirs].detach()))
        assert difference < 1e-5, (ours, difference)


def same_pairs(a, b):
    return all(torch.equal(torch.stack(x), torch.stack(y)) for key in a for x, y in zip(a[key], b[key]))


def train(model, batches, dtype):
    model = copy.deepcopy(model).to(dtype)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3, weight_decay=1e-4)
    losses, norms = [], []
    for i in range(STEPS):
        values, _ = step(model, own_predict, batches[i % len(batches)])
        losses.append(float(values["loss.total"]))
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)))
        optimizer.step()
    return np.array(losses), np.array(norms)


def write_training(path, own, g):
    """False if f32 deviates from f64."""
    batches = [detr_files.make_images([(48, 64), other], counts, g) for other, counts in
               (((48, 64), [3, 2]), ((40, 64), [5, 1]), ((48, 50), [2, 0]), ((36, 52), [1, 4]))]
    losses, norms = train(own, batches, torch.float64)
    strays = float(np.abs(train(own, batches, torch.float32)[0] / losses - 1).max())
    print(f"  training: losses {losses[0]:.4f} ... {losses[-1]:.4f}; f32 strays by {strays:.1e}")
    if strays > 1e-4:
        return False
    arrays = {"losses": losses, "grad_norms": norms}
    for i, batch in enumerate(batches):
        arrays.update(detr_files.batch_arrays(batch, f"batch{i}.", f"batch{i}."))
    save(path + ".training.safetensors", arrays)
    return True


def make(name, seed):
    """Writes the files of one variant, or returns False if the seed is unstable."""
    config, sizes = VARIANTS[name]
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    batch = detr_files.make_images(sizes, [4, 3], g)
    own = Detr(config)
    if config.pre_norm or config.anchors:
        model, predict, state = shake(own, g).double(), own_predict, own.state_dict()
    else:
        model, predict = shake(transformers_detr.build(config), g).double(), transformers_detr.predict
        transformers_detr.train_as_official(model)
        state = transformers_detr.official(model.state_dict())
    values, pairs = step(model, predict, batch)
    own = own.double()
    own.load_state_dict(state, strict=True)
    if not (config.pre_norm or config.anchors):
        again, _ = step(own, own_predict, batch)
        assert again.keys() == values.keys(), again.keys() ^ values.keys()
        assert deviation(values, again) < 1e-9, deviation(values, again)
        check_transformers_loss(model, batch, values)
    rough, rough_pairs = step(copy.deepcopy(own).float(), own_predict, batch)
    print(f"{name}, seed {seed}: loss {float(values['loss.total']):.4f}, f32 strays by {deviation(values, rough):.1e}")
    if not same_pairs(pairs, rough_pairs) or deviation(values, rough) > 3e-5:
        return False
    path = os.path.join(FOLDER, name)
    if name == "sine" and not write_training(path, own, g):
        return False
    if name in ("learned", "dc5"):  # outputs only: pre_norm and the small Deformable DETR have these gradients
        values = {k: v for k, v in values.items() if k.startswith("output.")}
    detr_files.write(path, config, state, batch, values)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--search", type=int, default=30, help="seeds to try for each variant")
    search = parser.parse_args().search
    torch.set_num_threads(1)
    os.makedirs(FOLDER, exist_ok=True)
    for name in VARIANTS:
        if not any(make(name, seed) for seed in range(1, search + 1)):
            raise SystemExit(f"{name}: no steady seed among {search}")


if __name__ == "__main__":
    main()
