"""The training step or inference of tests/bench/detector_bench.cpp in torchvision: RetinaNet or Mask R-CNN
with a ResNet-50 and a feature pyramid, random weights, frozen norms, stem and first stage, random images of
one size, ten objects each. Its own resizing is left out. An inference has as many candidates as Saccade's:
1,000 per level (RetinaNet) or 4,096 pairs of a region and a class (Mask R-CNN), of which 100 get masks.
Prints {"ms": ..., "images_per_second": ..., "peak_bytes": ...}, the last of the whole process or of the GPU.

Usage: python scripts/bench/torchvision_detector.py --model retinanet [--infer] [--batch N] [--height H]
       [--width W] [--steps N] [--contiguous] [--device cuda] [--bf16]
"""
import argparse
import contextlib
import json
import resource
import time

import torch
import torchvision
from torchvision.models import detection

parser = argparse.ArgumentParser()
parser.add_argument("--model", choices=("retinanet", "mask_rcnn"), required=True)
parser.add_argument("--infer", action="store_true")
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--height", type=int, default=800)
parser.add_argument("--width", type=int, default=1066)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--threads", type=int, default=0)
parser.add_argument("--contiguous", action="store_true", help="not channels last")
parser.add_argument("--device", default="cpu")
parser.add_argument("--bf16", action="store_true", help="under torch.autocast")
args = parser.parse_args()

torch.manual_seed(0)
if args.threads:
    torch.set_num_threads(args.threads)
build = {"retinanet": detection.retinanet_resnet50_fpn, "mask_rcnn": detection.maskrcnn_resnet50_fpn}[args.model]
model = build(weights=None, weights_backbone=None)
for name, parameter in model.backbone.body.named_parameters():  # without weights torchvision trains them
    if name.startswith(("conv1.", "layer1.")):
        parameter.requires_grad_(False)
for module in model.modules():
    if isinstance(module, torch.nn.BatchNorm2d):  # without weights torchvision does not freeze them
        module.eval().requires_grad_(False)
        module.train = lambda mode=True, m=module: m
model.transform.resize = lambda image, target=None: (image, target)
model.train(not args.infer)
model.to(args.device)
if not args.contiguous:
    model.to(memory_format=torch.channels_last)
parameters = [p for p in model.parameters() if p.requires_grad]
# At a larger rate random weights diverge, and the regions of a step change.
optimizer = torch.optim.SGD(parameters, lr=1e-12, momentum=0.9, weight_decay=1e-4)
images = [torch.rand(3, args.height, args.width).to(args.device) for _ in range(args.batch)]
targets = []
for _ in images:
    centre, half = 0.3 + 0.4 * torch.rand(10, 2), (0.05 + 0.45 * torch.rand(10, 2)) / 2
    boxes = torch.cat((centre - half, centre + half), 1) * torch.tensor([args.width, args.height] * 2)
    target = {"boxes": boxes, "labels": torch.randint(1, 91, (10,))}
    if args.model == "mask_rcnn":
        target["masks"] = torch.zeros(10, args.height, args.width, dtype=torch.uint8)
        for mask, (x1, y1, x2, y2) in zip(target["masks"], boxes.int().tolist()):
            mask[y1:y2, x1:x2] = 1
    targets.append({key: value.to(args.device) for key, value in target.items()})

if args.infer and args.model == "retinanet":
    model.score_thresh = 0.001
elif args.infer:
    def keep_candidates(_, __, output):
        scores = output[0].softmax(-1)[:, 1:].flatten()
        model.roi_heads.score_thresh = scores.topk(min(4096, len(scores))).values[-1].item()
    model.roi_heads.box_predictor.register_forward_hook(keep_candidates)


def forward():
    with torch.autocast(args.device, torch.bfloat16) if args.bf16 else contextlib.nullcontext():
        return model(images) if args.infer else sum(model(images, targets).values())


def step():
    if args.infer:
        with torch.no_grad():
            forward()
        return
    loss = forward()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def wait():
    if args.device != "cpu":
        torch.cuda.synchronize()


step()
wait()
times = []
for _ in range(args.steps):
    start = time.perf_counter()
    step()
    wait()
    times.append((time.perf_counter() - start) * 1e3)
ms = sorted(times)[len(times) // 2]
resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"ms": ms, "images_per_second": args.batch * 1e3 / ms,
                  "peak_bytes": resident if args.device == "cpu" else torch.cuda.max_memory_allocated(),
                  "parameters": sum(p.numel() for p in model.parameters()),
                  "torch": torch.__version__, "torchvision": torchvision.__version__}))
