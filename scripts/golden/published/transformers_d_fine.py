"""transformers' D-FINE as a reference of the forward pass, and the losses from the paper's formulas: two
independent pieces.

transformers' own loss is no reference: it has no united matches, and pairs the boxes of one layer with the
distributions of another. So the losses here are written from the paper and the official configuration,
image by image where the official code takes a batch for one image (its distillation and the number of united
pairs), see docs/models.md.

Written to FOLDER: small.safetensors (as save_pretrained writes it), small.golden.safetensors (logits and
boxes in evaluation of the images of transformers_rt_detr.py), small.training.safetensors (targets, the parts
of the loss of one step with denoising, the losses of 20 AdamW steps without) and small.gradients.safetensors.

tests/train/checkpoints/d_fine_transformers_test.cpp reads tests/golden/d_fine.

Usage: python scripts/golden/published/transformers_d_fine.py [--folder F]
       needs torch, transformers, safetensors, scipy
"""
import argparse
import collections
import copy
import os
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from scipy.optimize import linear_sum_assignment
from transformers import DFineConfig, DFineForObjectDetection, HGNetV2Config
from transformers.models.d_fine import modeling_d_fine

from transformers_rt_detr import GOLDEN, batches, draw, our_noise, targets_of, train, wide

CLASSES, QUERIES, LAYERS, BINS, SCALE, UP = 5, 12, 3, 8, 4.0, 0.5
STEPS, RATE, NOISE_QUERIES, SEED = 20, 5e-6, 6, 9
POINTS = [1, 2, 1]  # of each level
WEIGHTS = {"class": 1.0, "bbox": 5.0, "giou": 2.0, "fgl": 0.15, "ddf": 1.5}


def make_model(denoising=0):
    channels = [8, 8, 12, 16]
    backbone = HGNetV2Config(stem_channels=[3, 4, 6], stage_in_channels=[6] + channels[:3], stage_mid_channels=[4, 4, 6, 6],
                             stage_out_channels=channels, stage_num_blocks=[1, 1, 2, 1], stage_numb_of_layers=[2] * 4,
                             hidden_sizes=channels, depths=[1, 1, 2, 1], use_learnable_affine_block=True,
                             out_features=["stage2", "stage3", "stage4"])
    return DFineForObjectDetection(DFineConfig(
        backbone_config=backbone, freeze_backbone_batch_norms=False, encoder_hidden_dim=16, encoder_in_channels=channels[1:],
        encoder_ffn_dim=32, encoder_attention_heads=4, hidden_expansion=0.5, depth_mult=0.67, d_model=16, num_queries=QUERIES,
        decoder_in_channels=[16] * 3, decoder_ffn_dim=24, decoder_layers=LAYERS, decoder_attention_heads=4,
        decoder_n_points=POINTS, num_denoising=denoising, num_labels=CLASSES, max_num_bins=BINS, reg_scale=SCALE, up=UP))


@torch.no_grad()
def draw_all(model, seed):
    draw(model, seed)
    g = torch.Generator().manual_seed(seed + 50)
    for name, t in model.state_dict().items():
        if name.endswith("lab.scale"):
            t.copy_((torch.rand(t.shape, generator=g) * 0.5 + 0.75).to(torch.bfloat16))
        elif name.endswith("decoder.up"):
            t.fill_(UP)
        elif name.endswith("reg_scale"):
            t.fill_(SCALE)
        elif name.endswith("num_points_scale"):
            t.copy_(torch.tensor([1 / n for n in POINTS for _ in range(n)]))


# ---- the losses, image by image ----------------------------------------------------------------------------
def corners_of(boxes):
    c, s = boxes[..., :2], boxes[..., 2:]
    return torch.cat([c - s / 2, c + s / 2], -1)


def overlaps(a, b):
    """IoU and GIoU of pairs."""
    a, b = corners_of(a), corners_of(b)
    area = lambda x: (x[..., 2] - x[..., 0]) * (x[..., 3] - x[..., 1])  # noqa: E731
    inner = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0)
    outer = torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])
    common, hull = inner[..., 0] * inner[..., 1], outer[..., 0] * outer[..., 1]
    union = area(a) + area(b) - common
    return common / union, common / union - (hull - union) / hull


def match(logits, boxes, target):
    """(query, object) pairs of least cost: focal class cost 2, L1 5, GIoU 2."""
    if len(target["class_labels"]) == 0:
        return []
    p = logits.detach().sigmoid()[:, target["class_labels"]]
    positive, negative = 0.25 * (1 - p) ** 2 * -(p + 1e-8).log(), 0.75 * p ** 2 * -(1 - p + 1e-8).log()
    b, t = boxes.detach()[:, None], target["boxes"][None]
    cost = 2 * (positive - negative) + 5 * (b - t).abs().sum(-1) - 2 * overlaps(b, t)[1]
    return list(zip(*linear_sum_assignment(cost.numpy())))


def unite(matchings):
    """Every query with the object that it was matched with most often (the first of several)."""
    count = collections.Counter((int(q), int(o)) for pairs in matchings for q, o in pairs)
    united = {}
    for (q, o), _ in sorted(count.items(), key=lambda kv: (-kv[1], kv[0])):
        united.setdefault(q, o)
    return sorted(united.items())


def bins():
    half, end = BINS // 2 - 1, UP * SCALE
    step = (end + 1) ** (1 / half)
    inner = [step ** k - 1 for k in range(1, half + 1)]
    return torch.tensor([-2 * end] + [-v for v in reversed(inner)] + [0.0] + inner + [2 * end], dtype=torch.float64)


def varifocal(logits, boxes, pairs, target):
    q = torch.zeros_like(logits)
    for query, o in pairs:
        q[query, target["class_labels"][o]] = overlaps(boxes[query].detach(), target["boxes"][o])[0]
    one_hot = torch.zeros_like(logits)
    for query, o in pairs:
        one_hot[query, target["class_labels"][o]] = 1
    weight = (0.75 * logits.sigmoid() ** 2 * (1 - one_hot) + q).detach()
    return F.binary_cross_entropy_with_logits(logits, q, weight=weight, reduction="sum")


def localisation(sides, reference, boxes, pairs, target):
    """Each side's cross entropy with its two bins, weighted by the overlap."""
    places, total = bins(), 0.0
    for query, o in pairs:
        x1, y1, x2, y2 = corners_of(target["boxes"][o])
        cx, cy, w, h = reference[query]
        unit = [w / SCALE + 1e-16, h / SCALE + 1e-16] * 2
        distances = [(cx - x1) / unit[0] - SCALE / 2, (cy - y1) / unit[1] - SCALE / 2, (x2 - cx) / unit[2] - SCALE / 2,
                     (y2 - cy) / unit[3] - SCALE / 2]
        overlap = overlaps(boxes[query].detach(), target["boxes"][o])[0]
        for logits, d in zip(sides[query], distances):
            log_p, i = logits.log_softmax(-1), int((places <= d).sum()) - 1
            if i < 0:
                total = total - overlap * log_p[0]
            elif i >= BINS:
                total = total - overlap * log_p[BINS]
            else:
                right = (d - places[i]).abs() / ((d - places[i]).abs() + (places[i + 1] - d).abs())
                total = total - overlap * ((1 - right) * log_p[i] + right * log_p[i + 1])
    return total


def distillation(sides, teacher, logits_of_teacher, boxes, pairs, target, shared, queries):
    kl = F.kl_div((sides / 5).log_softmax(-1), (teacher.detach() / 5).softmax(-1), reduction="none").sum(-1) * 25  # [Q, 4]
    weight = logits_of_teacher.detach().sigmoid().max(-1).values.clone()
    matched = torch.zeros(len(weight), dtype=torch.bool)
    for query, o in pairs:
        weight[query], matched[query] = overlaps(boxes[query].detach(), target["boxes"][o])[0], True
    kl = kl * weight[:, None]
    one = kl[matched].mean() if matched.any() else 0.0
    other = kl[~matched].mean() if (~matched).any() else 0.0
    a, b = shared ** 0.5, (queries - shared) ** 0.5
    return (one * a + other * b) / (a + b)


def losses_of(model, images, targets):
    out = model.model(images, labels=targets)
    D = out.denoising_meta_values["dn_num_split"][0] if out.denoising_meta_values is not None else 0
    logits, boxes, sides = out.intermediate_logits, out.intermediate_reference_points, out.intermediate_predicted_corners
    sides = sides.unflatten(-1, (4, BINS + 1))
    first = out.initial_reference_points[:, 0].detach()
    N, objects = len(targets), max(sum(len(t["boxes"]) for t in targets), 1)
    parts = collections.defaultdict(float)

    def add(suffix, n, layer_logits, layer_boxes, own, shared, weight, count):
        t = targets[n]
        parts["class" + suffix] += varifocal(layer_logits, layer_boxes, own, t) / count
        for q, o in shared:
            parts["bbox" + suffix] += weight * (layer_boxes[q] - t["boxes"][o]).abs().sum() / count
            parts["giou" + suffix] += weight * (1 - overlaps(layer_boxes[q], t["boxes"][o])[1]) / count

    def add_sides(suffix, n, l, queries, own, weight, count, shared):
        t, s = targets[n], sides[n, :, queries]
        parts["fgl" + suffix] += weight * localisation(s[l], first[n, queries], boxes[n, l + 1, queries], own, t) / count
        parts["ddf" + suffix] += distillation(s[l], s[-1], logits[n, -1, queries], boxes[n, l + 1, queries], own, t, shared,
                                              QUERIES) / N

    name = lambda l: "" if l == LAYERS - 1 else f"_{l}"  # noqa: E731
    for n, t in enumerate(targets):
        rest = slice(D, None)
        outputs = [("_pre", logits[n, 0, rest], boxes[n, 0, rest])]
        outputs += [(name(l), logits[n, l + 1, rest], boxes[n, l + 1, rest]) for l in range(LAYERS)]
        outputs.append(("_enc", out.enc_topk_logits[n], out.enc_topk_bboxes[n]))
        own = [match(a, b, t) for _, a, b in outputs]
        united = unite(own)
        weight = len(t["boxes"]) / max(len(united), 1)
        for (suffix, a, b), pairs in zip(outputs, own):
            add(suffix, n, a, b, pairs, united, weight, objects)
        for l in range(LAYERS):
            add_sides(name(l), n, l, rest, united, weight, objects, len(united))
        if D > 0:
            dn = out.denoising_meta_values
            groups, positive = dn["dn_num_group"], dn["dn_positive_idx"][n].tolist()
            pairs = [(q, i % len(t["boxes"])) for i, q in enumerate(positive)]
            add("_dn_pre", n, logits[n, 0, :D], boxes[n, 0, :D], pairs, pairs, 1.0, objects * groups)
            for l in range(LAYERS):
                add("_dn" + name(l), n, logits[n, l + 1, :D], boxes[n, l + 1, :D], pairs, pairs, 1.0, objects * groups)
                add_sides("_dn" + name(l), n, l, slice(0, D), pairs, 1.0, objects * groups, len(united))
    parts = {k: torch.as_tensor(v) * WEIGHTS[k.split("_")[0]] for k, v in parts.items()}
    return sum(parts.values()), parts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default=os.path.join(os.path.dirname(GOLDEN), "d_fine"))
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    os.makedirs(folder, exist_ok=True)
    modeling_d_fine.get_contrastive_denoising_training_group = our_noise
    model, path = make_model(), os.path.join(folder, "small")
    draw_all(model, SEED)
    with tempfile.TemporaryDirectory() as d:
        model.save_pretrained(d)
        published = load_file(d + "/model.safetensors")
    save_file({k: v.to(torch.bfloat16) if v.is_floating_point() else v for k, v in published.items()}, path + ".safetensors",
              metadata={"format": "pt"})
    reference, arrays = copy.deepcopy(model).double().eval(), {}
    for b, images in enumerate(batches()):
        with torch.no_grad():
            out = reference(images.double())
        arrays[f"{b}.logits"], arrays[f"{b}.boxes"] = out.logits.float().contiguous(), out.pred_boxes.float().contiguous()
    save_file(arrays, path + ".golden.safetensors")
    print(f"{sum(p.numel() for p in model.parameters())} parameters, logits vary by {float(out.logits.std()):.2f}, boxes by "
          f"{float(out.pred_boxes.std()):.3f}")

    g, arrays = torch.Generator().manual_seed(101), {}
    data = [(torch.randn(2, 3, 64, 64, generator=g).to(torch.bfloat16).float(), targets_of(g, 2)) for _ in range(2)]
    for b, (images, targets) in enumerate(data):
        arrays[f"{b}.images"] = images.permute(0, 2, 3, 1).contiguous().to(torch.bfloat16)
        for n, t in enumerate(targets):
            arrays[f"{b}.{n}.labels"], arrays[f"{b}.{n}.boxes"] = t["class_labels"], t["boxes"]
    trained = make_model(NOISE_QUERIES)
    trained.load_state_dict(model.state_dict(), strict=False)
    with torch.no_grad():
        trained.model.denoising_class_embed.weight.normal_(generator=g)[CLASSES] = 0  # stands for no object
    arrays["denoising"] = trained.model.denoising_class_embed.weight.detach().clone()
    trained.double().train()
    total, parts = losses_of(trained, data[0][0].double(), wide(data[0][1]))
    total.backward()
    for name, value in parts.items():
        arrays["loss." + name] = value.detach().float()
    arrays["loss.total"] = total.detach().float()
    save_file({n: p.grad.float().contiguous() for n, p in trained.named_parameters() if p.grad is not None},
              path + ".gradients.safetensors")
    losses = train(copy.deepcopy(model).double().train(), [(i.double(), wide(t)) for i, t in data], losses_of, STEPS, RATE)
    narrow = train(copy.deepcopy(model).train(), data, losses_of, STEPS, RATE)
    arrays["curve"] = torch.tensor(losses, dtype=torch.float32)
    save_file(arrays, path + ".training.safetensors")
    strays = max(abs(a - b) / a for a, b in zip(losses, narrow))
    print({k: round(float(v), 4) for k, v in sorted(parts.items())})
    print(f"losses {losses[0]:.4f} ... {losses[-1]:.4f}, f32 strays by {strays:.1e}")


if __name__ == "__main__":
    main()
