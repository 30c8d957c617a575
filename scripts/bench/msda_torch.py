#!/usr/bin/env python3
"""Times multi-scale deformable attention built from PyTorch's grid_sample (one call per level), forward and
forward+backward, at the shapes of tests/bench/msda_bench.cpp: msda_torch.py [repeats] [cuda] [bf16]
[compile]. Run by scripts/bench/msda.sh and scripts/bench/gpu.sh."""
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count())))
M, D, P = 8, 32, 4
DEVICE = "cuda" if "cuda" in sys.argv else "cpu"
DTYPE = torch.bfloat16 if "bf16" in sys.argv else torch.float32  # of the values; coordinates stay f32


def attention(value, levels, reference, offsets, logits):
    n, q = logits.shape[:2]
    sizes = torch.tensor([[w, h] for h, w in levels], dtype=offsets.dtype, device=offsets.device)
    loc = reference[None, :, None, None, None] + offsets / sizes[None, None, None, :, None]
    columns = []
    for level, (h, w) in enumerate(levels):
        part = value.split([a * b for a, b in levels], dim=1)[level]
        image = part.permute(0, 2, 3, 1).reshape(n * M, D, h, w)
        grid = (loc[:, :, :, level] * 2 - 1).permute(0, 2, 1, 3, 4).reshape(n * M, q, P, 2)
        columns.append(F.grid_sample(image, grid.to(image.dtype), mode="bilinear", padding_mode="zeros", align_corners=False))
    samples = torch.stack(columns, dim=3).flatten(3)
    weights = torch.softmax(logits, -1).permute(0, 2, 1, 3).reshape(n * M, 1, q, -1)
    return (samples * weights.to(samples.dtype)).sum(-1).view(n, M * D, q).transpose(1, 2)


def finish():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def times(f, repeats):
    f()
    finish()
    out = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        finish()
        out.append((time.perf_counter() - start) * 1e3)
    digits = 3 if DEVICE == "cuda" else 1
    return f"{statistics.median(out):.{digits}f} ms (best {min(out):.{digits}f})"


def bench(name, n, levels, repeats):
    torch.manual_seed(1)
    reference = torch.cat([
        torch.stack(torch.meshgrid((torch.arange(w) + 0.5) / w, (torch.arange(h) + 0.5) / h, indexing="xy"),
                    -1).reshape(-1, 2) for h, w in levels]).to(DEVICE)
    s, count = reference.shape[0], len(levels)
    value = torch.randn(n, s, M, D, device=DEVICE, dtype=DTYPE, requires_grad=True)
    offsets = (torch.randn(n, s, M, count, P, 2, device=DEVICE) * 2).requires_grad_()
    logits = torch.randn(n, s, M, count * P, device=DEVICE, requires_grad=True)
    dy = torch.randn(n, s, M * D, device=DEVICE, dtype=DTYPE)
    run = torch.compile(attention) if "compile" in sys.argv else attention

    def forward():
        with torch.no_grad():
            run(value, levels, reference, offsets, logits)

    def both():
        value.grad = offsets.grad = logits.grad = None
        run(value, levels, reference, offsets, logits).backward(dy)

    where = f"threads {torch.get_num_threads()}" if DEVICE == "cpu" else " ".join(sys.argv[2:])
    print(f"{name} torch {torch.__version__} {where}: forward median "
          f"{times(forward, repeats)}, sum {times(both, repeats)}", flush=True)


if __name__ == "__main__":
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    bench("small encoder B=1 Q=1360", 1, [(32, 32), (16, 16), (8, 8), (4, 4)], repeats * 5)
    bench("800px encoder B=2 Q=17821", 2, [(100, 134), (50, 67), (25, 34), (13, 17)], repeats)
