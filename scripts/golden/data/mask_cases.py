"""Random evaluation cases whose objects and detections have masks in every form of COCO's files: polygons,
lists of run lengths and their compressed text; crowds, empty masks, masks that touch, and detections with and
without a box of their own."""
import math
import random

import numpy as np
from pycocotools import mask as masks


def polygon(r, width, height):
    """A star around a point, which may extend beyond the image."""
    x, y = r.uniform(0, width), r.uniform(0, height)
    radius, points = r.uniform(1, 0.4 * width), r.randrange(3, 9)
    out = []
    for k in range(points):
        angle, length = 2 * math.pi * k / points, radius * r.uniform(0.4, 1)
        out += [round(x + length * math.cos(angle), 2), round(y + length * math.sin(angle), 2)]
    return out


def bitmap_of(segmentation, width, height):
    if isinstance(segmentation, list):
        runs = masks.merge(masks.frPyObjects(segmentation, height, width))
    elif isinstance(segmentation["counts"], list):
        runs = masks.frPyObjects(segmentation, height, width)
    else:
        runs = {"size": segmentation["size"], "counts": segmentation["counts"].encode()}
    return masks.decode(runs)


def text_runs(bitmap):
    runs = masks.encode(np.asfortranarray(bitmap))
    return {"size": [int(n) for n in runs["size"]], "counts": runs["counts"].decode()}


def list_runs(bitmap):
    flat = bitmap.flatten(order="F")
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flat])))
    counts = np.diff(np.concatenate([[0], edges, [flat.size]]))
    return {"size": list(bitmap.shape), "counts": [int(n) for n in counts]}


def moved(bitmap, x, y):
    out = np.zeros_like(bitmap)
    height, width = bitmap.shape
    out[max(y, 0):height + min(y, 0), max(x, 0):width + min(x, 0)] = bitmap[max(-y, 0):height + min(-y, 0),
                                                                          max(-x, 0):width + min(-x, 0)]
    return out


def make(seed, images=6, categories=3, objects=5, detections=10, width=48, height=36, crowd=0.2, decimals=1, scale=8):
    """Sizes are in units of `scale` pixels, so that all area ranges have objects and shifts are by many
    pixels."""
    r = random.Random(seed)
    width, height = width * scale, height * scale
    ids = [7 * i + 1 for i in range(images)]
    gt = {"images": [{"id": i, "file_name": f"{i}.jpg", "width": width, "height": height} for i in ids],
          "categories": [{"id": 3 * c + 1, "name": f"class{c}"} for c in range(categories)], "annotations": []}
    dt = []

    def rectangle(x, y, w, h):
        bitmap = np.zeros((height, width), np.uint8)
        bitmap[y:y + h, x:x + w] = 1
        return bitmap

    for image in ids:
        own = []
        for _ in range(r.randrange(objects + 1)):
            is_crowd = r.random() < crowd
            kind = r.choice(["polygons", "list", "text", "empty", "touching"])
            if kind == "polygons":
                segmentation = [polygon(r, width, height) for _ in range(r.choice([1, 1, 2]))]
            elif kind == "touching":  # its left neighbour ends where it begins
                x, w = r.randrange(1, width // 2), r.randrange(1, width // 2)
                y, h = r.randrange(height // 2), r.randrange(1, height // 2)
                segmentation = text_runs(rectangle(x, y, w, h))
                own.append((1, rectangle(0, y, x, h)))
            else:
                drawn = bitmap_of([polygon(r, width, height)], width, height) * (kind != "empty")
                segmentation = text_runs(drawn) if kind == "text" else list_runs(drawn)
            bitmap = bitmap_of(segmentation, width, height)
            category = 3 * r.randrange(categories) + 1
            own.append((category, bitmap))
            x, y, w, h = (float(v) for v in masks.toBbox(masks.encode(np.asfortranarray(bitmap))))
            gt["annotations"].append({
                "id": len(gt["annotations"]) + 1, "image_id": image, "category_id": category, "bbox": [x, y, w, h],
                "area": r.choice([1, 0.7]) * float(bitmap.sum()), "iscrowd": int(is_crowd), "segmentation": segmentation})
        for _ in range(r.randrange(detections + 1)):
            if own and r.random() < 0.8:
                category, bitmap = r.choice(own)
                step = scale * r.choice([0, 1, 1, 2])
                bitmap = moved(bitmap, r.choice([0, step, -step]), r.choice([0, step, -step]))
                if r.random() < 0.2:
                    category = 3 * r.randrange(categories) + 1
            else:
                category = 3 * r.randrange(categories) + 1
                bitmap = bitmap_of([polygon(r, width, height)], width, height) * (r.random() < 0.8)
            dt.append({"image_id": image, "category_id": category, "score": round(r.random(), decimals),
                       "segmentation": text_runs(bitmap)})
    r.shuffle(dt)
    # pycocotools only checks whether the first entry has a box; if not, areas are those of masks.
    for entry in dt[1:]:
        if r.random() < 0.3:
            entry["bbox"] = [round(r.uniform(low, side / 2), 1) for low in (0, 1) for side in (width, height)]
    return gt, dt
