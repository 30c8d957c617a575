"""Writes the golden files of tests/golden/small_deformable_detr/ (safetensors) from the independent PyTorch
model.

    /usr/bin/python3 scripts/golden/make_small_deformable_detr.py [--search N] [--only NAME]

Four tiny models (d 32, 4 heads, 2 + 2 layers, 2 points, FFN 64, 12 queries, 5 classes, small ResNet of width
8 with 2, 1, 1, 1 basic blocks, dropout 0), every parameter moved away from its initial value by noise so that
nothing is zero or symmetric by accident:

    plain       3 levels, trained batch norm in training mode, shared heads, nothing frozen
    refine      4 levels, frozen batch norm with random constants, box refinement (a head for each layer)
    two_stage   4 levels, frozen batch norm, refinement and proposals from the encoder; conv1 and layer1 not
                trained
    dc5         1 level from a dilated last stage of bottleneck blocks (width 4; 2, 1, 1, 2 blocks), frozen
                batch norm; conv1 and layer1 not trained

NAME.weights.safetensors holds the state under the official names, aliases included, without
num_batches_tracked.
NAME.golden.safetensors holds
    input.images [N,H,W,3] f32 (normalised, zero where padded), input.mask [N,H,W] (True where padded),
    target.I.labels [T] i64, target.I.boxes [T,4] f32 (cx, cy, w, h relative to the image without its
        padding),
    output.logits [layers,N,Q,C], output.boxes [layers,N,Q,4],
    and output.enc_logits, output.enc_boxes [N,S,.] (two_stage),
    matchS.I [2,T] i64: (query, target) indices; S is empty for the last layer, else _0 or _enc,
    loss.total, loss.{class,bbox,giou}S (parts without weights; weights 2, 5, 2),
    grad.NAME for every trained parameter, under each of its names,
    after.NAME: running statistics after the forward pass (plain).
plain.training.safetensors holds
    batchB.images, .mask, .I.labels, .I.boxes for four batches (one image has no object),
    losses [50] f64, grad_norms [50] f64 (before clipping) of AdamW (rate 2e-4, decay 1e-4 on everything,
    betas 0.9 and 0.999, epsilon 1e-8, global norm clipped to 0.1) from plain.weights with batch (step mod 4),
    batch norm in training mode.

All values were computed in f64 and rounded once, so they are the truth that an f32 program approaches.
Compare a gradient g with its golden value r by
    max|g - r| <= 1e-4 (max|r| + 2e-3 largest |r| of all parameters):
the second term is for gradients that are zero by symmetry, such as a bias in front of a normalisation of one
channel. The seed is the first for which, by this measure, PyTorch's own f32 comes within 3e-5 and 1e-6
relative noise on the weights moves the values by less than 1e-4: no assignment, top-k choice, ReLU or
bilinear cell sits on an edge.
"""
import argparse
import copy
import os

import numpy as np
import torch

from criterion import criterion
from safetensors_io import save
from small_deformable_detr import Config, DeformableDetr

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden", "small_deformable_detr")
COMMON = dict(d=32, heads=4, encoder_layers=2, decoder_layers=2, ffn=64, encoder_points=2, decoder_points=2, queries=12,
              classes=5, blocks=(2, 1, 1, 1), width=8, bottleneck=False)
VARIANTS = {
    "plain": (Config(**COMMON, levels=3, frozen_bn=False, frozen_stages=0), (64, 80), (56, 72)),
    "refine": (Config(**COMMON, levels=4, refine=True, frozen_stages=0), (96, 128), (80, 100)),
    "two_stage": (Config(**COMMON, levels=4, refine=True, two_stage=True), (96, 128), (96, 104)),
    "dc5": (Config(**{**COMMON, "blocks": (2, 1, 1, 2), "width": 4, "bottleneck": True}, levels=1, dilation=True),
            (96, 128), (80, 112)),
}
STEPS = 50


def make_model(config, g):
    model = DeformableDetr(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p += 0.03 * torch.randn(p.shape, generator=g)
            if name.endswith("sampling_offsets.bias"):
                p += 0.6 * torch.rand(p.shape, generator=g) - 0.3
        for name, b in model.named_buffers():
            noise = torch.randn(b.shape, generator=g)
            if name.endswith("running_mean"):
                b += 0.1 * noise
            elif name.endswith("running_var"):
                b *= (0.3 * noise).exp()
            elif name.endswith("weight") or name.endswith("bias"):  # of a frozen batch norm
                b += 0.2 * noise
    return model.double()


def make_batch(sizes, counts, g):
    """Images of the given sizes, padded to the largest, with blobs of colour; and as many random objects
    each."""
    h, w = max(s[0] for s in sizes), max(s[1] for s in sizes)
    images = torch.zeros(len(sizes), 3, h, w)
    mask = torch.ones(len(sizes), h, w, dtype=torch.bool)
    targets = []
    for i, ((ih, iw), count) in enumerate(zip(sizes, counts)):
        coarse = torch.randn(1, 3, 5, 6, generator=g)
        smooth = torch.nn.functional.interpolate(coarse, size=(ih, iw), mode="bilinear", align_corners=False)[0]
        images[i, :, :ih, :iw] = smooth + 0.3 * torch.randn(3, ih, iw, generator=g)
        mask[i, :ih, :iw] = False
        size = 0.1 + 0.4 * torch.rand(count, 2, generator=g)
        centre = size / 2 + torch.rand(count, 2, generator=g) * (1 - size)
        targets.append((torch.randint(0, COMMON["classes"], (count,), generator=g), torch.cat((centre, size), -1)))
    return images, mask, targets


def run(model, batch):
    """One forward and backward pass in the model's dtype -> (everything to compare, the pairs)"""
    dtype = next(model.parameters()).dtype
    images, mask, targets = batch
    model.zero_grad(set_to_none=True)
    layers, encoder_output = model(images.to(dtype), mask)
    total, parts, pairs = criterion(layers, encoder_output, [(l, b.to(dtype)) for l, b in targets])
    total.backward()
    out = {"output.logits": torch.stack([l for l, _ in layers]), "output.boxes": torch.stack([b for _, b in layers])}
    if encoder_output is not None:
        out["output.enc_logits"], out["output.enc_boxes"] = encoder_output
    out["loss.total"] = total
    out.update({"loss." + k: v for k, v in parts.items()})
    for name, p in all_names(model):
        if p.grad is not None:
            out["grad." + name] = p.grad
    return {k: v.detach().double().clone() for k, v in out.items()}, pairs


def all_names(model):
    """(name, parameter), aliases included."""
    state = {id(p): p for p in model.parameters()}
    for prefix, module in model.named_modules(remove_duplicate=False):
        for name, p in module._parameters.items():
            if p is not None and id(p) in state:
                yield (prefix + "." if prefix else "") + name, p


def deviation(a, b):
    """Largest relative difference of two results, by the rule in the head of this file."""
    largest = max(float(v.abs().max()) for k, v in a.items() if k.startswith("grad."))
    worst = 0.0
    for k, v in a.items():
        scale = float(v.abs().max()) + (2e-3 * largest if k.startswith("grad.") else 0.0)
        worst = max(worst, float((v - b[k]).abs().max()) / max(scale, 1e-12))
    return worst


def steady(model, batch, result, g):
    """Whether the values are the same in f32 (to 3e-5), hardly change under noise, and no assignment
    changes."""
    if "output.enc_logits" in result[0]:
        top = result[0]["output.enc_logits"][..., 0].sort(-1, descending=True)[0][:, :model.c.queries + 1]
        gap = float((top[:, :-1] - top[:, 1:]).min())
        print(f"  smallest gap between chosen proposals: {gap:.1e}")
        if gap < 2e-4:
            return False
    for trial in range(4):
        other = copy.deepcopy(model)
        if trial == 0:
            other = other.float()
        else:
            with torch.no_grad():
                for p in other.parameters():
                    p *= 1 + 1e-6 * torch.randn(p.shape, generator=g, dtype=torch.float64)
        values, pairs = run(other, batch)
        for key in pairs:
            if any(not torch.equal(torch.stack(x), torch.stack(y)) for x, y in zip(pairs[key], result[1][key])):
                print("  an assignment changes in", key)
                return False
        moved = deviation(result[0], values)
        print(f"  {'f32' if trial == 0 else 'noise'} moves the values by {moved:.1e}")
        if moved > (3e-5 if trial == 0 else 1e-4):
            return False
    return True


def train(model, batches, dtype):
    model = copy.deepcopy(model).to(dtype).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=1e-4)
    losses, norms = [], []
    for step in range(STEPS):
        values, _ = run(model, batches[step % len(batches)])
        losses.append(float(values["loss.total"]))
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)))
        optimizer.step()
    return np.array(losses), np.array(norms)


def batch_arrays(prefix, batch):
    images, mask, targets = batch
    out = {prefix + "images": images.permute(0, 2, 3, 1).contiguous().numpy(), prefix + "mask": mask.numpy()}
    separate = "target." if prefix == "input." else prefix
    for i, (labels, boxes) in enumerate(targets):
        out[f"{separate}{i}.labels"], out[f"{separate}{i}.boxes"] = labels.numpy(), boxes.numpy()
    return out


def make_training(model, seed):
    """-> (batches, losses, gradient norms), or None if f32 deviates from f64"""
    g = torch.Generator().manual_seed(1000 + seed)
    batches = [make_batch([(48, 64), other], counts, g) for other, counts in
               (((48, 64), [3, 2]), ((40, 64), [5, 1]), ((48, 56), [2, 0]), ((44, 52), [1, 4]))]
    losses, norms = train(model, batches, torch.float64)
    strays = float(np.abs(train(model, batches, torch.float32)[0] / losses - 1).max())
    print(f"  training: losses {losses[0]:.4f} ... {losses[-1]:.4f}; f32 strays by {strays:.1e}")
    return (batches, losses, norms) if strays < 1e-4 else None


def write(name, seed, before, after, batch, result, training):
    config = VARIANTS[name][0]
    values, pairs = result
    metadata = dict(vars(config), seed=seed)
    path = os.path.join(FOLDER, name)
    state = {k: v for k, v in before.state_dict().items() if not k.endswith("num_batches_tracked")}
    save(path + ".weights.safetensors", {k: v.float().numpy() for k, v in state.items()}, metadata)

    arrays = batch_arrays("input.", batch)
    for key, layer in pairs.items():
        arrays.update({f"{key}.{i}": torch.stack(pair).numpy() for i, pair in enumerate(layer)})
    arrays.update({k: v.float().numpy() for k, v in values.items()})
    if not config.frozen_bn:
        arrays.update({"after." + k: v.float().numpy() for k, v in after.state_dict().items()
                       if k.endswith(("running_mean", "running_var"))})
    save(path + ".golden.safetensors", arrays, metadata)

    if training:
        batches, losses, norms = training
        arrays = {"losses": losses, "grad_norms": norms}
        for i, b in enumerate(batches):
            arrays.update(batch_arrays(f"batch{i}.", b))
        save(path + ".training.safetensors", arrays, metadata)


def make(name, seed):
    """Writes the files of one variant, or returns False if the seed is unstable."""
    config, size, padded = VARIANTS[name]
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    model = make_model(config, g).train()
    before = copy.deepcopy(model)
    batch = make_batch([size, padded], [4, 3], g)
    result = run(model, batch)
    print(f"{name}, seed {seed}: loss {float(result[0]['loss.total']):.4f}", flush=True)
    if not steady(before, batch, result, g):
        return False
    training = make_training(before, seed) if name == "plain" else None
    if name == "plain" and training is None:
        return False
    write(name, seed, before, model, batch, result, training)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--search", type=int, default=60, help="seeds to try for each variant")
    parser.add_argument("--only", choices=list(VARIANTS), help="this variant alone")
    arguments = parser.parse_args()
    search = arguments.search
    os.makedirs(FOLDER, exist_ok=True)
    for name in [arguments.only] if arguments.only else VARIANTS:
        if not any(make(name, seed) for seed in range(1, search + 1)):
            raise SystemExit(f"{name}: no steady seed among {search}")


if __name__ == "__main__":
    main()
