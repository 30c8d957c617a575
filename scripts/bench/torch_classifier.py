"""The training step of tests/bench/classifier_bench.cpp in PyTorch: DAT-T from scripts/golden/dat.py, or
Swin-T of torchvision or timm. Prints {"step_ms": [...], ...}.
"""
import argparse
import contextlib
import json
import os
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))

parser = argparse.ArgumentParser()
parser.add_argument("--type", choices=("dat", "swin"), default="dat")
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--size", type=int, default=224)
parser.add_argument("--threads", type=int, default=os.cpu_count())
parser.add_argument("--channels-last", action="store_true", help="the memory format of the convolutions' weights and images")
parser.add_argument("--timm", action="store_true", help="timm's Swin-T in place of torchvision's")
parser.add_argument("--bf16", action="store_true", help="under torch.autocast")
parser.add_argument("--compile", action="store_true", help="through torch.compile (needs a C++ compiler)")
args = parser.parse_args()

torch.set_num_threads(args.threads)
torch.manual_seed(0)
images = torch.randn(args.batch, 3, args.size, args.size)
if args.type == "dat":
    from dataclasses import replace

    from dat import DAT, T
    model = DAT(replace(T, drop_path=0.2)).train()
    images = images.permute(0, 2, 3, 1).contiguous()  # its maps are channels-last throughout
elif args.timm:
    import timm
    model = timm.create_model("swin_tiny_patch4_window7_224", drop_path_rate=0.2).train()
else:
    import torchvision
    model = torchvision.models.swin_t().train()
if args.channels_last:
    model = model.to(memory_format=torch.channels_last)
    if images.shape[1] == 3:
        images = images.to(memory_format=torch.channels_last)
labels = torch.arange(args.batch) * 37
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05, fused=True)
run = torch.compile(model) if args.compile else model


def step():
    with torch.autocast("cpu", torch.bfloat16) if args.bf16 else contextlib.nullcontext():
        logits = run(images)
    loss = F.cross_entropy(logits.float(), labels, label_smoothing=0.1)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5)
    optimizer.step()
    return loss.item()


times, losses = [], []
for _ in range(args.steps):
    start = time.perf_counter()
    losses.append(step())
    times.append((time.perf_counter() - start) * 1e3)
print(json.dumps({"step_ms": times, "losses": losses, "parameters": sum(p.numel() for p in model.parameters()),
                  "torch": torch.__version__}))
