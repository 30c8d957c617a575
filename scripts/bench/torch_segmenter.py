"""The training step, or inference, of tests/bench/segmenter_bench.cpp in PyTorch: transformers' UperNet with
a Swin-T, random weights, images and label maps. Prints {"step_ms": [of each step but the first], ...}.
"""
import argparse
import contextlib
import json
import os
import time

import torch
import transformers
from transformers import SwinConfig, UperNetConfig, UperNetForSemanticSegmentation

parser = argparse.ArgumentParser()
parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
parser.add_argument("--infer", action="store_true")
parser.add_argument("--batch", type=int, default=2)
parser.add_argument("--size", type=int, default=512)
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--threads", type=int, default=os.cpu_count())
parser.add_argument("--channels-last", action="store_true")
parser.add_argument("--device", default="cpu")
args = parser.parse_args()

torch.set_num_threads(args.threads)
torch.manual_seed(0)
swin = SwinConfig(embed_dim=96, depths=[2, 2, 6, 2], num_heads=[3, 6, 12, 24], window_size=7, drop_path_rate=0.3,
                  out_features=["stage1", "stage2", "stage3", "stage4"])
model = UperNetForSemanticSegmentation(UperNetConfig(backbone_config=swin, num_labels=150))
model = model.train(not args.infer).to(args.device)
images = torch.randn(args.batch, 3, args.size, args.size).to(args.device)
if args.channels_last:
    model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
labels = torch.randint(0, 151, (args.batch, args.size, args.size)).to(args.device)
labels[labels == 150] = 255  # ignored
optimizer = torch.optim.AdamW(model.parameters(), lr=6e-5, weight_decay=0.01, fused=True)


def step():
    with torch.autocast(args.device, torch.bfloat16) if args.precision == "bf16" else contextlib.nullcontext():
        if args.infer:
            with torch.no_grad():
                return model(pixel_values=images).logits.sum().item()
        loss = model(pixel_values=images, labels=labels).loss
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.item()


times = []
for _ in range(args.steps):
    start = time.perf_counter()
    step()
    times.append((time.perf_counter() - start) * 1e3)
print(json.dumps({"step_ms": times[1:], "parameters": sum(p.numel() for p in model.parameters()),
                  "torch": torch.__version__, "transformers": transformers.__version__}))
