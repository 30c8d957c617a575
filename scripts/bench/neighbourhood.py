#!/usr/bin/env python3
"""Neighbourhood attention next to formulations of it in PyTorch, at the stages of DAT-T++ (224 pixels, 8
images, f32), in turn in one run:

    python3 scripts/bench/neighbourhood.py [--rounds 2] [--stages 1,2,3] [--bench build/neighbourhood_bench]

Forward without a graph, and forward with backward to the projection's output and the bias table. Needs a
Python with torch and a build with -DSACCADE_BENCH=ON. The formulations, which are first compared with each
other:
    unfold   every query's window of keys and values copied beside it (Tensor.unfold), small products
    taps     49 times: keys shifted by one tap, multiplied and summed; the same for the values
    tiles    blocks of 8 x 8 (7 x 7) queries with the keys around them copied together, products with a mask:
             the best known
    dense    scaled_dot_product_attention of all tokens with a mask
    flex     torch.compile(flex_attention) with a block mask, where it runs
"""
import argparse
import os
import re
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

N, D, WINDOW = 8, 32, 7
STAGES = {1: (56, 2), 2: (28, 4), 3: (14, 8)}  # tokens per side, heads


def first(size):
    return (torch.arange(size) - WINDOW // 2).clamp(0, size - WINDOW)


def split(qkv, heads):
    """[N, H, W, 3 C] -> three times [N, heads, H, W, D]"""
    n, h, w, _ = qkv.shape
    return qkv.view(n, h, w, 3, heads, D).permute(3, 0, 4, 1, 2, 5).unbind(0)


def join(y):
    return y.permute(0, 2, 3, 1, 4).flatten(3)


def bias_of(table, side):
    """[heads, H, W, 7, 7]"""
    place = first(side)[:, None] + torch.arange(WINDOW) - torch.arange(side)[:, None] + WINDOW - 1
    return table[:, place[:, None, :, None], place[None, :, None, :]]


def unfold(qkv, table, heads):
    q, k, v = split(qkv, heads)
    start = first(qkv.shape[1])

    def windows(t):  # [N, heads, H, W, 49, D]
        t = t.unfold(2, WINDOW, 1).unfold(3, WINDOW, 1)[:, :, start][:, :, :, start]
        return t.permute(0, 1, 2, 3, 5, 6, 4).flatten(4, 5)

    scores = (q * D ** -0.5)[..., None, :] @ windows(k).transpose(-1, -2)
    weights = (scores + bias_of(table, qkv.shape[1]).flatten(3)[..., None, :]).softmax(-1)
    return join((weights @ windows(v)).squeeze(-2))


def taps(qkv, table, heads):
    q, k, v = split(qkv, heads)
    q, start = q * D ** -0.5, first(qkv.shape[1])
    places = [(start + i, start + j) for i in range(WINDOW) for j in range(WINDOW)]

    def shifted(t, place):
        return t.index_select(2, place[0]).index_select(3, place[1])

    scores = torch.stack([(q * shifted(k, p)).sum(-1) for p in places], -1)
    weights = (scores + bias_of(table, qkv.shape[1]).flatten(3)).softmax(-1)
    return join(sum(weights[..., i, None] * shifted(v, p) for i, p in enumerate(places)))


def tiles(qkv, table, heads):
    n, side = qkv.shape[:2]
    q, k, v = split(qkv, heads)
    block = 8 if side % 8 == 0 else 7
    count, span = side // block, min(block + WINDOW - 1, side)
    begin = (torch.arange(count) * block - WINDOW // 2).clamp(0, side - span)

    def blocks(t):  # [N, heads, count, count, block^2, D]
        return t.view(n, heads, count, block, count, block, D).transpose(3, 4).flatten(4, 5)

    def patches(t):
        t = t.unfold(2, span, 1).unfold(3, span, 1)[:, :, begin][:, :, :, begin]
        return t.permute(0, 1, 2, 3, 5, 6, 4).flatten(4, 5)

    key = begin[:, None] + torch.arange(span)  # [count, span]
    query = torch.arange(side).view(count, block)
    offset = key[:, None] - query[..., None] + WINDOW - 1  # [count, block, span]
    ahead = key[:, None] - first(side).view(count, block)[..., None]
    seen = (ahead >= 0) & (ahead < WINDOW)
    offset = offset.clamp(0, 2 * WINDOW - 2)
    rows, columns = offset[:, None, :, None, :, None], offset[None, :, None, :, None, :]
    bias = table[:, rows, columns]  # [heads, count, count, block, block, span, span]
    bias = bias.masked_fill(~(seen[:, None, :, None, :, None] & seen[None, :, None, :, None, :]), float("-inf"))
    y = F.scaled_dot_product_attention(blocks(q), patches(k), patches(v), attn_mask=bias.flatten(5, 6).flatten(3, 4))
    y = y.unflatten(4, (block, block)).transpose(3, 4).reshape(n, heads, side, side, D)
    return join(y)


def dense(qkv, table, heads):
    side = qkv.shape[1]
    q, k, v = (t.flatten(2, 3) for t in split(qkv, heads))
    ahead = torch.arange(side)[None] - first(side)[:, None]
    seen = (ahead >= 0) & (ahead < WINDOW)
    offset = (torch.arange(side)[None] - torch.arange(side)[:, None] + WINDOW - 1).clamp(0, 2 * WINDOW - 2)
    bias = table[:, offset[:, None, :, None], offset[None, :, None, :]]
    bias = bias.masked_fill(~(seen[:, None, :, None] & seen[None, :, None, :]), float("-inf"))
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.flatten(3, 4).flatten(1, 2))
    return join(y.unflatten(2, (side, side)))


class Flex:
    def __init__(self):
        self.run, self.masks = torch.compile(flex_attention), {}

    def __call__(self, qkv, table, heads):
        side = qkv.shape[1]

        def start(at):
            return (at - WINDOW // 2).clamp(0, side - WINDOW)

        def seen(b, h, query, key):
            y, x = key // side - start(query // side), key % side - start(query % side)
            return (y >= 0) & (y < WINDOW) & (x >= 0) & (x < WINDOW)

        def with_bias(score, b, h, query, key):
            y, x = key // side - query // side + WINDOW - 1, key % side - query % side + WINDOW - 1
            return score + table[h, y.clamp(0, 2 * WINDOW - 2), x.clamp(0, 2 * WINDOW - 2)]

        if side not in self.masks:
            self.masks[side] = create_block_mask(seen, None, None, side * side, side * side, device="cpu")
        q, k, v = (t.flatten(2, 3) for t in split(qkv, heads))
        y = self.run(q.contiguous(), k.contiguous(), v.contiguous(), score_mod=with_bias, block_mask=self.masks[side])
        return join(y.unflatten(2, (side, side)))


FORMULATIONS = {"unfold": unfold, "taps": taps, "tiles": tiles, "dense": dense, "flex": Flex()}


def inputs(stage):
    side, heads = STAGES[stage]
    torch.manual_seed(stage)
    qkv = torch.randn(N, side, side, 3 * heads * D, requires_grad=True)
    return qkv, torch.randn(heads, 13, 13, requires_grad=True), heads, torch.randn(N, side, side, heads * D)


def once(f, both, stage):
    """-> its result, and milliseconds"""
    qkv, table, heads, dy = inputs(stage)
    start = time.perf_counter()
    if both:
        f(qkv, table, heads).backward(dy)
        out = (qkv.grad, table.grad)
    else:
        with torch.no_grad():
            out = (f(qkv, table, heads),)
    return out, (time.perf_counter() - start) * 1e3


def first_line(error):
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:100]}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--stages", default="1,2,3")
    parser.add_argument("--bench", default="build/neighbourhood_bench")
    arguments = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count())))
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    stages = [int(s) for s in arguments.stages.split(",")]
    programs, times = {}, {}
    for stage in stages:
        wanted = {}
        for name, f in FORMULATIONS.items():
            for both in (False, True):
                try:
                    got, _ = once(f, both, stage)
                except Exception as error:
                    print(f"stage {stage}: {name} does not run {'backward' if both else 'forward'}: {first_line(error)}")
                    continue
                for a, b in zip(got, wanted.setdefault(both, got)):
                    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
                programs[stage, name, both] = f
    for _ in range(arguments.rounds):
        for (stage, name, both), f in programs.items():
            times.setdefault((stage, name, both), []).extend(once(f, both, stage)[1] for _ in range(arguments.repeats))
        for dtype in ("f32", "bf16"):
            text = subprocess.run([arguments.bench, "21", dtype], check=True, capture_output=True, text=True).stdout
            for match in re.finditer(r"stage (\d): saccade \w+: forward ([\d.]+) ms, sum ([\d.]+) ms", text):
                for both in (False, True):
                    times.setdefault((int(match[1]), f"saccade {dtype}", both), []).append(float(match[3 if both else 2]))
    for stage in stages:
        best = {}
        side, heads = STAGES[stage]
        print(f"\nstage {stage}: {side} x {side} tokens, {heads} heads of {D}, {N} images: median ms"
              f"\n{'':14}{'forward':>10}{'and backward':>14}")
        for name in [*FORMULATIONS, "saccade f32", "saccade bf16"]:
            keys = [(stage, name, both) for both in (False, True)]
            best[name] = [statistics.median(times[key]) if key in times else None for key in keys]
            texts = ["none" if m is None else f"{m:.2f}" for m in best[name]]
            print(f"{name:14}{texts[0]:>10}{texts[1]:>14}")
        for both, what in ((False, "forward"), (True, "forward and backward")):
            there = [name for name in FORMULATIONS if best[name][both] is not None]
            ratios = [f"{best[name][both] / best['saccade f32'][both]:.1f}x {name}" for name in there]
            print(f"saccade f32, {what}: " + ", ".join(ratios))


if __name__ == "__main__":
    main()
