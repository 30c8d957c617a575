"""The training step of configs/bench_small.textproto in PyTorch: the peer of scripts/bench/cpu.sh.

4.2 million parameters, batch 4, 256 x 256 pixels, 4 levels (strides 8 to 64), d 128, FFN 512, 50 queries, 20
classes, 2 + 2 layers; matching, losses of both decoder layers, gradient clipping and AdamW, all on one batch
that stays in memory. Prints one JSON object: milliseconds of each step, parameters, losses.
"""
import argparse
import contextlib
import json
import os
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
from criterion import criterion
from small_deformable_detr import Config, DeformableDetr

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--size", type=int, default=256)
parser.add_argument("--threads", type=int, default=os.cpu_count())
parser.add_argument("--channels-last", action="store_true", help="the memory format of the backbone")
parser.add_argument("--bf16", action="store_true", help="under torch.autocast")
parser.add_argument("--compile", action="store_true", help="through torch.compile (needs a C++ compiler)")
args = parser.parse_args()

torch.set_num_threads(args.threads)
torch.manual_seed(0)
config = Config(d=128, heads=8, encoder_layers=2, decoder_layers=2, ffn=512, levels=4, queries=50, classes=20,
                blocks=(2, 2, 2, 2), width=32, bottleneck=False, frozen_bn=False, frozen_stages=0)
model = DeformableDetr(config).train()
images = torch.rand(args.batch, 3, args.size, args.size)
if args.channels_last:
    model.backbone.to(memory_format=torch.channels_last)
    images = images.to(memory_format=torch.channels_last)
targets = []
for _ in range(args.batch):
    size = torch.rand(8, 2) * 0.3 + 0.05
    centre = torch.rand(8, 2) * (1 - size) + size / 2
    targets.append((torch.randint(0, config.classes, (8,)), torch.cat((centre, size), 1)))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=1e-4)
run = torch.compile(model) if args.compile else model


def step():
    with torch.autocast("cpu", torch.bfloat16) if args.bf16 else contextlib.nullcontext():
        layers, _ = run(images)
    loss = criterion([(logits.float(), boxes.float()) for logits, boxes in layers], None, targets)[0]
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    return float(loss.detach())


times, losses = [], []
for _ in range(args.steps):
    start = time.perf_counter()
    losses.append(step())
    times.append((time.perf_counter() - start) * 1e3)
print(json.dumps({"step_ms": times, "parameters": sum(p.numel() for p in model.parameters()), "losses": losses,
                  "torch": torch.__version__}))
