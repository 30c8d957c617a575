#!/usr/bin/env python3
"""Images per second on one core, from JPEG files to augmented, normalised training batches: ours next to
Pillow and torchvision v2 transforms, in turn, one thread each.

    scripts/bench/loader.py --annotations A.json --images DIR [--build build] [--rounds 3]

Needs a build with -DSACCADE_BENCH=ON, and torch and torchvision in the Python that runs it. torchvision
transforms byte tensors, its fastest way; with PIL images throughout (--pil) it is slower.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def transforms(recipe, pil):
    import torch
    from torchvision.transforms import v2

    first = [] if pil else [v2.ToImage()]
    last = [*([v2.ToImage()] if pil else []), v2.SanitizeBoundingBoxes(), v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])]
    if recipe == "rt_detr_r18":
        return v2.Compose([*first, v2.RandomPhotometricDistort(p=0.5), v2.RandomZoomOut(fill=0),
                           v2.RandomApply([v2.RandomIoUCrop()], p=0.8), v2.RandomHorizontalFlip(),
                           v2.Resize((640, 640)), *last])

    class SizeCrop(torch.nn.Module):  # a window of 384 to 600 pixels a side, as DETR cuts it
        def forward(self, image, target):
            h, w = v2.functional.get_size(image)
            size = random.randint(min(h, 384), min(h, 600)), random.randint(min(w, 384), min(w, 600))
            return v2.RandomCrop(size)(image, target)

    sides = list(range(480, 801, 32))
    cut = v2.Compose([v2.RandomShortestSize([400, 500, 600]), SizeCrop(), v2.RandomShortestSize(sides, 1333)])
    return v2.Compose([*first, v2.RandomHorizontalFlip(),
                       v2.RandomChoice([v2.RandomShortestSize(sides, 1333), cut]), *last])


def torchvision_rate(recipe, annotations, folder, batch, epochs, pil):
    import torch
    from PIL import Image
    from torchvision import tv_tensors

    torch.set_num_threads(1)
    with open(annotations) as f:
        data = json.load(f)
    boxes = {}
    for a in data["annotations"]:
        boxes.setdefault(a["image_id"], []).append(a)
    transform = transforms(recipe, pil)
    best = 0
    for _ in range(epochs):
        start, images, count = time.perf_counter(), list(data["images"]), 0
        random.shuffle(images)
        for begin in range(0, len(images) - batch + 1, batch):
            made = []
            for image in images[begin:begin + batch]:
                own = boxes.get(image["id"], [])
                picture = Image.open(os.path.join(folder, image["file_name"])).convert("RGB")
                xywh = torch.tensor([a["bbox"] for a in own], dtype=torch.float32).reshape(-1, 4)
                size = picture.height, picture.width
                target = {"boxes": tv_tensors.BoundingBoxes(xywh, format="XYWH", canvas_size=size),
                          "labels": torch.tensor([a["category_id"] for a in own], dtype=torch.int64)}
                made.append(transform(picture, target)[0])
            h, w = max(t.shape[1] for t in made), max(t.shape[2] for t in made)
            joined = torch.zeros(batch, 3, h, w)
            for i, t in enumerate(made):
                joined[i, :, :t.shape[1], :t.shape[2]] = t
            count += batch
        best = max(best, count / (time.perf_counter() - start))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--annotations", required=True)
    parser.add_argument("--images", required=True)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pil", action="store_true")
    parser.add_argument("--side", nargs=2, metavar=("RECIPE", "BATCH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        recipe, batch = arguments.side
        print(torchvision_rate(recipe, arguments.annotations, arguments.images, int(batch), 2, arguments.pil))
        return
    for recipe, batch in (("deformable_detr_r50", 2), ("rt_detr_r18", 4)):
        ours = [os.path.join(arguments.build, "loader_bench"), f"{ROOT}/configs/{recipe}.textproto", arguments.annotations,
                arguments.images, str(batch), "2"]
        theirs = [sys.executable, __file__, "--annotations", arguments.annotations, "--images", arguments.images,
                  "--side", recipe, str(batch), *(["--pil"] if arguments.pil else [])]
        rates = ([], [])
        for _ in range(arguments.rounds):
            for rate, command in zip(rates, (ours, theirs)):
                rate.append(float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True,
                                                 env={**os.environ, "OMP_NUM_THREADS": "1"}).stdout))
        mine, other = max(rates[0]), max(rates[1])
        print(f"{recipe}, batches of {batch}: saccade {mine:.1f} images/s, torchvision {other:.1f}: {mine / other:.2f} times")


main()
