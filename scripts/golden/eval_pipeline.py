"""Evaluation as in the official PyTorch pipeline, next to `saccade convert` and `saccade eval`.

The pipeline: Pillow reads and resizes (short side 800, long side at most 1333, bilinear); images are
normalised, padded to the largest of their batch and masked; the models are the independent ones in this
folder, whose names are official; boxes and scores follow the official post-processing. The weights are random
(seeded, scaled so that scores and boxes vary).

  check   writes checkpoints as torch.save does, converts and evaluates them with the program on coco_cc_mini
          and bccd at batch sizes 1 and 4, and prints the greatest differences of boxes (pixels) and scores
  make    writes tests/golden/eval: two checkpoints, annotations of a few images, and their detections

Usage: python scripts/golden/eval_pipeline.py check [--saccade build/saccade] [--data ../shared/data]
              [--images N]
       python scripts/golden/eval_pipeline.py make  [--data ../shared/data]            needs torch, Pillow
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from PIL import Image

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import small_deformable_detr  # noqa: E402
import small_detr  # noqa: E402

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
GOLDEN = os.path.join(ROOT, "tests", "golden", "eval")
BOX_TOLERANCE, SCORE_TOLERANCE = 0.01, 1e-4  # pixels, probability


# ---- models ------------------------------------------------------------------------------------------------

@torch.no_grad()
def draw(model, seed):
    """All tensors random, with values that bf16 can hold, so that the files can be small."""
    g = torch.Generator().manual_seed(seed)
    seen = set()
    for name, t in model.state_dict().items():
        if t.data_ptr() in seen:
            continue
        seen.add(t.data_ptr())
        norm = t.dim() == 1 and name.endswith(("weight", "running_var"))
        if norm:
            value = torch.rand(t.shape, generator=g) + 0.5
        elif "embed" in name and t.dim() == 2 and "layers" not in name and "class" not in name:
            value = torch.randn(t.shape, generator=g)
        elif t.dim() >= 2:
            value = torch.randn(t.shape, generator=g) * (1.4 / (t[0].numel() ** 0.5))
        else:
            value = torch.randn(t.shape, generator=g) * 0.3
        # Smoother than random: with larger weights PyTorch's f32 boxes are 0.01 pixels from its own f64 ones,
        # since neighbouring pixels of random features are unrelated.
        if "output_proj.weight" in name or "bbox_embed" in name and "layers.2.weight" in name:
            value = value * 0.3
        t.copy_(value.to(torch.bfloat16).to(t.dtype))


def make_model(kind, classes, seed, width=4):
    common = dict(d=32, heads=4, encoder_layers=1, decoder_layers=2, ffn=32, queries=20, classes=classes,
                  blocks=(1, 1, 1, 1), width=width)
    if kind == "detr":
        model = small_detr.Detr(small_detr.Config(**common))
    else:
        model = small_deformable_detr.DeformableDetr(small_deformable_detr.Config(
            encoder_points=2, decoder_points=2, refine=True, **common))
    draw(model, seed)
    return model.eval()


def write(model, path, legacy):
    stored = {}
    state = collections.OrderedDict(
        (k, stored.setdefault(v.data_ptr(), v.to(torch.bfloat16))) for k, v in model.state_dict().items())
    arguments = argparse.Namespace(dilation=False, nheads=model.c.heads, dropout=0.1, position_embedding="sine",
                                   pre_norm=False, with_box_refine=True, two_stage=False, aux_loss=True)
    torch.save({"model": state, "epoch": 49, "args": arguments}, path, _use_new_zipfile_serialization=not legacy)


# ---- the pipeline ------------------------------------------------------------------------------------------

def load(path):
    """-> normalised [3, H, W], (height, width) of the file"""
    image = Image.open(path).convert("RGB")
    w, h = image.size
    short, longest = 800, 1333
    if max(w, h) / min(w, h) * short > longest:
        short = int(round(longest * min(w, h) / max(w, h)))
    if w < h:
        size = (short, int(short * h / w))
    else:
        size = (int(short * w / h), short)
    pixels = np.asarray(image.resize(size, Image.BILINEAR), dtype=np.float32) / np.float32(255)
    mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    return torch.from_numpy((pixels - mean) / std).permute(2, 0, 1), (h, w)


@torch.no_grad()
def detect(model, kind, annotations, folder, batch_size, ids, count=None):
    """-> {image id: [(category id, x, y, w, h, score)]}; `ids`: category id of each label"""
    images = sorted(annotations["images"], key=lambda i: i["id"])[:count]
    out = {}
    for begin in range(0, len(images), batch_size):
        part = images[begin:begin + batch_size]
        loaded = [load(os.path.join(folder, i["file_name"])) for i in part]
        height, width = (max(x.shape[d] for x, _ in loaded) for d in (1, 2))
        batch = torch.zeros(len(part), 3, height, width)
        mask = torch.ones(len(part), height, width, dtype=torch.bool)
        for n, (x, _) in enumerate(loaded):
            batch[n, :, :x.shape[1], :x.shape[2]] = x
            mask[n, :x.shape[1], :x.shape[2]] = False
        result = model(batch, mask)
        logits, boxes = (result if kind == "detr" else result[0])[-1]
        for n, (image, (_, (h, w))) in enumerate(zip(part, loaded)):
            if kind == "detr":
                scores, labels = logits[n].softmax(-1)[:, :-1].max(-1)
                chosen = boxes[n]
            else:
                probability = logits[n].sigmoid().flatten()
                scores, index = probability.topk(min(100, len(probability)))
                labels, chosen = index % logits.shape[-1], boxes[n][index // logits.shape[-1]]
            cx, cy, bw, bh = chosen.double().unbind(-1)
            xywh = torch.stack(((cx - bw / 2) * w, (cy - bh / 2) * h, bw * w, bh * h), -1)
            out[image["id"]] = [(ids[int(k)], *box, float(s))
                                for k, box, s in zip(labels, xywh.tolist(), scores)]
    return out


def compare(ours, theirs):
    """-> largest difference of a box, of a score, and detections without a partner (except ties at the
    cut)"""
    box = score = 0.0
    alone = 0
    grouped = collections.defaultdict(list)
    for d in ours:
        grouped[d["image_id"]].append((d["category_id"], *d["bbox"], d["score"]))
    for image, expected in theirs.items():
        left = list(grouped.pop(image, []))
        cut = min(e[5] for e in expected)
        alone += abs(len(left) - len(expected))
        for e in expected:
            same = [d for d in left if d[0] == e[0] and abs(d[5] - e[5]) < 1e-3]
            near = min(same, key=lambda d: max(abs(a - b) for a, b in zip(d[1:5], e[1:5])), default=None)
            if near is None or max(abs(a - b) for a, b in zip(near[1:5], e[1:5])) > 1:
                alone += e[5] > cut + SCORE_TOLERANCE
                continue
            left.remove(near)
            box = max([box] + [abs(a - b) for a, b in zip(near[1:5], e[1:5])])
            score = max(score, abs(near[5] - e[5]))
    return box, score, alone + len(grouped)


# ---- check -------------------------------------------------------------------------------------------------

# data set, annotations, model, outputs, arguments of convert next to the file
CASES = [
    ("coco_cc_mini", "detr", 91, False), ("coco_cc_mini", "deformable_detr", 91, False),
    ("bccd", "detr", 3, True), ("bccd", "deformable_detr", 4, True),
]


def check(a):
    failed = False
    with tempfile.TemporaryDirectory() as d:
        for seed, (name, kind, classes, named) in enumerate(CASES):
            base = os.path.join(a.data, name)
            annotations = json.load(open(os.path.join(base, "annotations", "val.json")))
            if a.images:
                annotations["images"] = sorted(annotations["images"], key=lambda i: i["id"])[:a.images]
                kept = {i["id"] for i in annotations["images"]}
                annotations["annotations"] = [x for x in annotations["annotations"] if x["image_id"] in kept]
            annotation_file = os.path.join(d, name + ".json")
            json.dump(annotations, open(annotation_file, "w"))
            model = make_model(kind, classes, seed + 1)
            path, converted = os.path.join(d, "x.pth"), os.path.join(d, "x.safetensors")
            write(model, path, legacy=kind == "detr")
            subprocess.run([a.saccade, "convert", path, converted]
                           + (["--annotations", annotation_file] if named else []), check=True, stdout=subprocess.DEVNULL)
            categories = sorted(c["id"] for c in annotations["categories"])
            ids = categories if classes == len(categories) else list(range(classes))
            for batch in (1, 4):
                found = os.path.join(d, "detections.json")
                subprocess.run([a.saccade, "eval", "--checkpoint", converted, "--annotations", annotation_file,
                                "--images", os.path.join(base, "images"), "--batch-size", str(batch),
                                "--detections", found], check=True, stdout=subprocess.DEVNULL)
                expected = detect(model, kind, annotations, os.path.join(base, "images"), batch, ids)
                box, score, alone = compare(json.load(open(found)), expected)
                ok = box <= BOX_TOLERANCE and score <= SCORE_TOLERANCE and alone == 0
                failed |= not ok
                print(f"{name}, {kind} with {classes} outputs, batch size {batch}, {len(expected)} images: boxes differ "
                      f"by at most {box:.1e} pixels, scores by {score:.1e}, {alone} without a partner: "
                      f"{'ok' if ok else 'NOT EQUAL'}", flush=True)
    raise SystemExit(failed)


# ---- make --------------------------------------------------------------------------------------------------

def make(a):
    os.makedirs(GOLDEN, exist_ok=True)
    base = os.path.join(a.data, "coco_cc_mini")
    everything = json.load(open(os.path.join(base, "annotations", "val.json")))
    few = {"images": [{k: i[k] for k in ("id", "file_name", "width", "height")}
                      for i in sorted(everything["images"], key=lambda i: i["id"])[:3]],
           "annotations": [], "categories": [{"id": c["id"], "name": c["name"]} for c in everything["categories"]]}
    kept = {i["id"] for i in few["images"]}
    few["annotations"] = [{k: x[k] for k in ("id", "image_id", "category_id", "bbox", "area", "iscrowd")}
                          for x in everything["annotations"] if x["image_id"] in kept]
    json.dump(few, open(os.path.join(GOLDEN, "annotations.json"), "w"))
    for seed, kind in enumerate(("detr", "deformable_detr")):
        model = make_model(kind, 91, seed + 1, width=1)
        write(model, os.path.join(GOLDEN, kind + ".pth"), legacy=True)  # the smaller format for many small tensors
        for batch in (1, 3):
            found = detect(model, kind, few, os.path.join(base, "images"), batch, list(range(91)))
            entries = [{"image_id": i, "category_id": x[0], "bbox": [round(v, 4) for v in x[1:5]],
                        "score": round(x[5], 6)} for i, part in found.items() for x in part]
            with open(os.path.join(GOLDEN, f"{kind}.batch{batch}.json"), "w") as f:
                f.write("[" + ",\n".join(json.dumps(e) for e in entries) + "]\n")
            scores = [e["score"] for e in entries]
            print(f"{kind}, batch size {batch}: {len(entries)} detections, scores {min(scores):.3f} to {max(scores):.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["check", "make"])
    parser.add_argument("--saccade", default=os.path.join(ROOT, "build", "saccade"))
    parser.add_argument("--data", default=os.path.join(ROOT, "..", "shared", "data"))
    parser.add_argument("--images", type=int)
    a = parser.parse_args()
    torch.set_num_threads(1)
    (check if a.command == "check" else make)(a)


if __name__ == "__main__":
    main()
