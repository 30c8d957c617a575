"""transformers' RF-DETR, RF-DETR-Seg and LW-DETR as references of the forward pass, and the losses from the
papers: two independent pieces.

Written to FOLDER/rf_detr, FOLDER/rf_detr_seg and FOLDER/lw_detr: model.safetensors and config.json (as
save_pretrained writes them, the weights in bf16), golden.safetensors (logits, boxes and masks in evaluation of
the images of transformers_rt_detr.py), training.safetensors (targets, the parts of the loss of one step with
all groups of queries, the losses of 30 AdamW steps) and gradients.safetensors; rf_detr/official/model.pth is
the same model in the official container.

Differences of transformers from the official code, which is followed here:
  * RF-DETR's windows of rectangles: transformers uses the width as the height.
  * The channel norms of RF-DETR's projector have an epsilon of 1e-6, not that of the other norms.
  * The losses: transformers' encoder losses of LW-DETR's groups differ, so the losses are written here from
    the papers: IA-BCE (background weights with gradient), L1 and GIoU, with each group matched separately,
    divided by the objects times the groups; for masks the cross entropy and Dice at uncertain points, whose
    random numbers are Saccade's.
  * The masks of RF-DETR-Seg's proposals are made from projected pixels, as in version 1.11.2 of the official
    code.

tests/train/checkpoints/rf_detr_transformers_test.cpp reads tests/golden.

Usage: python scripts/golden/published/transformers_rf_detr.py [--folder F]
       needs torch, transformers, safetensors, scipy
"""
import argparse
import collections
import copy
import os
import shutil
import sys
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from scipy.optimize import linear_sum_assignment
from transformers import (LwDetrConfig, LwDetrForObjectDetection, LwDetrViTConfig, RfDetrConfig, RfDetrDinov2Config,
                          RfDetrForInstanceSegmentation, RfDetrForObjectDetection)
from transformers.models.lw_detr import modeling_lw_detr
from transformers.models.rf_detr import modeling_rf_detr

from transformers_d_fine import overlaps
from transformers_rt_detr import GOLDEN, NOISE_KEY, batches, draw, targets_of, train, wide

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from denoising import fnv1a, mix, philox, uniform

CLASSES, QUERIES, GROUPS, LAYERS, WIDTH = 5, 12, 3, 2, 16
STEPS, RATE, SEED = 30, 1e-4, 21
WEIGHTS = {"class": 1.0, "bbox": 5.0, "giou": 2.0, "point_mask": 5.0, "point_dice": 5.0}
SHARE = 16  # cells of a mask for a point


def windows_of(embeddings, tokens, height, width):
    """In place of RF-DETR's partition: [CLS] and the patches of each window."""
    n, rows, columns = tokens.config.num_windows, height // tokens.patch_size, width // tokens.patch_size
    cls, grid = embeddings[:, :1], embeddings[:, 1:]
    grid = grid.unflatten(1, (n, rows // n, n, columns // n)).transpose(2, 3).flatten(3, 4)
    return torch.cat([cls[:, None, None].expand(-1, n, n, -1, -1), grid], 3).flatten(0, 2)


def joined(hidden, backbone, height, width):
    n, p = backbone.config.num_windows, backbone.config.patch_size
    rows, columns = height // p // n, width // p // n
    return hidden.unflatten(0, (-1, n, n)).unflatten(3, (rows, columns)).transpose(2, 3).flatten(1, 2).flatten(2, 3)


def make_rf(kind=RfDetrForObjectDetection):
    backbone = RfDetrDinov2Config(hidden_size=WIDTH, num_hidden_layers=3, num_attention_heads=2, mlp_ratio=2, image_size=64,
                                  patch_size=8, num_windows=2, out_indices=[1, 3])
    return kind(RfDetrConfig(
        backbone_config=backbone, c2f_num_blocks=2, d_model=WIDTH, decoder_layers=LAYERS, decoder_ffn_dim=24, dropout=0.0,
        num_queries=QUERIES, group_detr=GROUPS, decoder_n_points=2, decoder_self_attention_heads=4,
        decoder_cross_attention_heads=8, num_labels=CLASSES, intermediate_size=4 * WIDTH))


def make_lw():
    backbone = LwDetrViTConfig(hidden_size=WIDTH, num_hidden_layers=3, num_attention_heads=2, mlp_ratio=2, image_size=64,
                               pretrain_image_size=32, patch_size=8, num_windows=4, window_block_indices=[0, 2],
                               out_indices=[1, 3])
    return LwDetrForObjectDetection(LwDetrConfig(
        backbone_config=backbone, c2f_num_blocks=1, d_model=WIDTH, decoder_layers=LAYERS,
        decoder_ffn_dim=24, num_queries=QUERIES,
        group_detr=GROUPS, decoder_n_points=2, decoder_self_attention_heads=4, decoder_cross_attention_heads=8,
        num_labels=CLASSES, projector_scale_factors=[2.0, 0.5], num_feature_levels=2))


@torch.no_grad()
def prepare(model, seed):
    draw(model, seed)
    for name, t in model.state_dict().items():
        if name.endswith("reference_point_embed.weight"):
            t.mul_(0.5)
        elif "query_features_proj" in name:
            t.mul_(2)  # masks that vary
    for module in model.modules():
        if isinstance(module, modeling_rf_detr.RfDetrConvNormLayer):
            module.norm.eps = 1e-6


def class_loss(logits, boxes, pairs, target):
    """IA-BCE: the target of a match is p^0.25 IoU^0.75 (at least 0.01), and the weight of all others p^2."""
    p, goal = logits.sigmoid(), torch.zeros_like(logits)
    is_match = torch.zeros_like(logits, dtype=torch.bool)
    for q, o in pairs:
        k = target["class_labels"][o]
        overlap = overlaps(boxes[q].detach(), target["boxes"][o])[0]
        goal[q, k] = (p[q, k].detach() ** 0.25 * overlap ** 0.75).clamp(min=0.01)
        is_match[q, k] = True
    log_p, log_rest = F.logsigmoid(logits), F.logsigmoid(-logits)
    return torch.where(is_match, -goal * log_p - (1 - goal) * log_rest, -p ** 2 * log_rest).sum()


def outputs_of(model, images):
    """(suffix, logits, boxes, masks) of all layers and of the proposals, in training those of all groups."""
    is_seg = isinstance(model, RfDetrForInstanceSegmentation)
    detector = model.model if is_seg else model
    inner, out = detector.model, detector.model(images)
    refine = modeling_lw_detr.refine_bboxes if isinstance(model, LwDetrForObjectDetection) else modeling_rf_detr.refine_bboxes
    hidden, reference = out.intermediate_hidden_states, out.init_reference_points
    masks = [None] * (LAYERS + 1)
    if is_seg:
        masks = model.segmentation_head(out.backbone_features, hidden, images.shape[-2:])
        size = masks[0].shape[-2:]
        pixels = F.interpolate(out.backbone_features, size=size, mode="bilinear", align_corners=False)
        masks.append(model.get_mask_logits(out.enc_outputs_class, model.spatial_features_proj(pixels)))
    outputs = []
    for l in range(LAYERS):
        suffix = "" if l == LAYERS - 1 else f"_{l}"
        outputs.append((suffix, detector.class_embed(hidden[l]), refine(reference, detector.bbox_embed(hidden[l])), masks[l]))
    groups = out.enc_outputs_class.chunk(GROUPS, 1)
    outputs.append(("_enc", torch.cat([inner.enc_out_class_embed[g](x) for g, x in enumerate(groups)], 1),
                    out.enc_outputs_coord_logits, masks[-1]))
    return outputs


def random_points(image, number, count, key):
    """(x, y) of one row; image is its id."""
    bits = [b for block in range((count + 1) // 2) for b in philox(key, image, number << 32 | block)]
    return torch.tensor([float(uniform(b)) for b in bits[:2 * count]], dtype=torch.float64).view(count, 2)


def sampled(maps, points, mode):
    """maps [M, h, w], points [P, 2] or [M, P, 2] -> [M, P]"""
    grid = (points * 2 - 1).expand(len(maps), -1, -1)[:, None]
    return F.grid_sample(maps[:, None], grid, mode=mode, padding_mode="border", align_corners=False)[:, 0, 0]


def mask_losses(logits, truth):
    """For rows of points: mean cross entropy and Dice."""
    p = logits.sigmoid()
    dice = 1 - (2 * (p * truth).sum(-1) + 1) / (p.sum(-1) + truth.sum(-1) + 1)
    return F.binary_cross_entropy_with_logits(logits, truth, reduction="none").mean(-1), dice


@torch.no_grad()
def match(logits, boxes, masks, target, image):
    """(query, object) pairs of least cost: class 2, L1 5, GIoU 2, of masks cross entropy 5 and Dice 5
    at points of the image."""
    if len(target["class_labels"]) == 0:
        return []
    p = logits.sigmoid()[:, target["class_labels"]]
    positive, negative = 0.25 * (1 - p) ** 2 * -(p + 1e-8).log(), 0.75 * p ** 2 * -(1 - p + 1e-8).log()
    b, t = boxes[:, None], target["boxes"][None]
    cost = 2 * (positive - negative) + 5 * (b - t).abs().sum(-1) - 2 * overlaps(b, t)[1]
    if masks is not None:
        points = random_points(image, 0, masks[0].numel() // SHARE, mix(NOISE_KEY, fnv1a("mask matching")))
        x, y = sampled(masks.double(), points, "bilinear"), sampled(target["masks"].double(), points, "nearest")
        entropy, dice = mask_losses(x[:, None].expand(-1, len(y), -1), y[None].expand(len(x), -1, -1))
        cost = cost + 5 * entropy + 5 * dice
    return list(zip(*linear_sum_assignment(cost.numpy())))


def of_masks(masks, pairs, target, image, layer):
    """The sums of both losses over the pairs (query among all groups, object)."""
    h, w = masks.shape[-2:]
    count = max(h, h * w // SHARE)
    uncertain, key = int(0.75 * count), mix(NOISE_KEY, fnv1a("mask points"))
    total = [0.0, 0.0]
    for q, o in pairs:
        number = layer << 20 | q
        drawn = random_points(image, number, 3 * count, mix(key, 0))
        scores = -sampled(masks[q][None].detach().double(), drawn, "bilinear")[0].abs()
        spread = random_points(image, number, count - uncertain, mix(key, 1))
        points = torch.cat([drawn[scores.topk(uncertain).indices], spread])
        x = sampled(masks[q][None], points.to(masks.dtype), "bilinear")
        y = sampled(target["masks"][o][None].to(masks.dtype), points.to(masks.dtype), "nearest")
        for i, value in enumerate(mask_losses(x, y)):
            total[i] = total[i] + value.sum()
    return total


def losses_of(model, images, targets):
    parts, count = collections.defaultdict(float), max(sum(len(t["boxes"]) for t in targets), 1) * GROUPS
    for index, (suffix, logits, boxes, masks) in enumerate(outputs_of(model, images)):
        for n, t in enumerate(targets):
            for g in range(GROUPS):
                rows = slice(g * QUERIES, (g + 1) * QUERIES)
                a, b, m = logits[n, rows], boxes[n, rows], None if masks is None else masks[n, rows]
                pairs = match(a, b, m, t, n)
                parts["class" + suffix] += class_loss(a, b, pairs, t) / count
                for q, o in pairs:
                    parts["bbox" + suffix] += (b[q] - t["boxes"][o]).abs().sum() / count
                    parts["giou" + suffix] += (1 - overlaps(b[q], t["boxes"][o])[1]) / count
                if masks is not None:
                    layer = 0 if suffix == "_enc" else index
                    both = of_masks(masks[n], [(g * QUERIES + int(q), o) for q, o in pairs], t, n, layer)
                    parts["point_mask" + suffix] += both[0] / count
                    parts["point_dice" + suffix] += both[1] / count
    parts = {k: torch.as_tensor(v) * next(w for name, w in WEIGHTS.items() if k.startswith(name)) for k, v in parts.items()}
    return sum(parts.values()), parts


def with_masks(generator, targets):
    """An ellipse in each box, over 64 x 64 pixels, and another one outside all boxes."""
    y, x = torch.meshgrid(torch.arange(64) + 0.5, torch.arange(64) + 0.5, indexing="ij")
    for t in targets:
        masks = []
        for cx, cy, w, h in (t["boxes"] * 64).tolist():
            stray = torch.rand(2, generator=generator) * 64
            masks.append(((x - cx) / w) ** 2 + ((y - cy) / h) ** 2 <= 0.25)
            masks[-1] |= (x - stray[0]) ** 2 + (y - stray[1]) ** 2 <= 9
        t["masks"] = torch.stack(masks).to(torch.uint8) if masks else torch.zeros(0, 64, 64, dtype=torch.uint8)
    return targets


def with_official_names(model, tensors):
    """As save_pretrained writes them, in the places of the weights."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for n, p in other.named_parameters():
            p.copy_(tensors.get(n, torch.tensor(float("nan"))))
    with tempfile.TemporaryDirectory() as d:
        other.save_pretrained(d)
        return {n: t for n, t in load_file(d + "/model.safetensors").items() if not t.isnan().any()}


def make(name, model, folder):
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    prepare(model, SEED)
    with tempfile.TemporaryDirectory() as d:
        model.save_pretrained(d)
        published = load_file(d + "/model.safetensors")
        shutil.copy(d + "/config.json", path)
    small = {k: v.to(torch.bfloat16) if v.is_floating_point() else v for k, v in published.items()}
    save_file(small, path + "/model.safetensors", metadata={"format": "pt"})
    if name == "rf_detr":  # as the official program saves it
        os.makedirs(path + "/official", exist_ok=True)
        torch.save({"model": small, "args": argparse.Namespace(num_windows=2, resolution=64, sa_nheads=4, ca_nheads=8)},
                   path + "/official/model.pth")
    reference, arrays = copy.deepcopy(model).double().eval(), {}
    for b, images in enumerate(batches()):
        with torch.no_grad():
            out = reference(images.double())
        arrays[f"{b}.logits"], arrays[f"{b}.boxes"] = out.logits.float().contiguous(), out.pred_boxes.float().contiguous()
        if name == "rf_detr_seg":
            arrays[f"{b}.masks"] = out.pred_masks.float().contiguous()
    save_file(arrays, path + "/golden.safetensors")
    print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters, logits vary by {float(out.logits.std()):.2f}, "
          f"boxes by {float(out.pred_boxes.std()):.3f}")

    g, arrays = torch.Generator().manual_seed(SEED + 100), {}
    data = [(torch.randn(2, 3, 64, 64, generator=g).to(torch.bfloat16).float(), with_masks(g, targets_of(g, 2)))
            for _ in range(2)]
    for b, (images, targets) in enumerate(data):
        arrays[f"{b}.images"] = images.permute(0, 2, 3, 1).contiguous().to(torch.bfloat16)
        for n, t in enumerate(targets):
            arrays[f"{b}.{n}.labels"], arrays[f"{b}.{n}.boxes"] = t["class_labels"], t["boxes"]
            if name == "rf_detr_seg":
                arrays[f"{b}.{n}.masks"] = t["masks"]
    trained = copy.deepcopy(model).double().train()
    total, parts = losses_of(trained, data[0][0].double(), wide(data[0][1]))
    total.backward()
    for part, value in parts.items():
        arrays["loss." + part] = value.detach().float()
    arrays["loss.total"] = total.detach().float()
    gradients = {n: p.grad.float().contiguous() for n, p in trained.named_parameters() if p.grad is not None}
    if name == "rf_detr_seg":
        gradients = with_official_names(model, gradients)
    save_file(gradients, path + "/gradients.safetensors")
    losses = train(copy.deepcopy(model).double().train(), [(i.double(), wide(t)) for i, t in data], losses_of, STEPS, RATE)
    narrow = train(copy.deepcopy(model).train(), data, losses_of, STEPS, RATE)
    arrays["curve"] = torch.tensor(losses, dtype=torch.float32)
    save_file(arrays, path + "/training.safetensors")
    strays = max(abs(a - b) / a for a, b in zip(losses, narrow))
    print({k: round(float(v), 4) for k, v in sorted(parts.items())})
    print(f"losses {losses[0]:.4f} ... {losses[-1]:.4f}, f32 strays by {strays:.1e}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default=os.path.dirname(GOLDEN))
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    modeling_rf_detr.RfDetrDinov2Embeddings.window_partition = lambda self, x, h, w: windows_of(x, self, h, w)
    modeling_rf_detr.RfDetrDinov2Backbone.window_unpartition = lambda self, x, h, w: joined(x, self, h, w)
    make("rf_detr", make_rf(), folder)
    make("rf_detr_seg", make_rf(RfDetrForInstanceSegmentation), folder)
    make("lw_detr", make_lw(), folder)


if __name__ == "__main__":
    main()
