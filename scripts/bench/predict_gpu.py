#!/usr/bin/env python3
"""Predicts the times of docs/gpu.md from counts alone, for an H100, in bf16. The emulated GPU counts; nothing
runs there.

    ms = sum over ops of max(multiply-accumulates / F, bytes / W)  +  launches * L

The bytes of an op are those of its inputs and its output. In the backward pass an op reads its inputs and the
output's gradient, and writes as much as it reads; products do so twice, as each of their two gradients reads
the output's. AdamW touches 38 bytes per parameter. On N GPUs a step also takes the part of the gradients' sum
that the backward pass does not hide (scaling.py), and the gathers of batch norm's statistics, which all ranks
wait for. Launches with ranks are counted with two.
Usage: predict_gpu.py BUILD     the folder of an emulated build with detector_bench
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

MACS = 0.6 * 989e12 / 2  # F, per second: the share of the card's bf16 that large products reach
SAMPLED_MACS = 6.8e12    # of deformable attention, whose reads are scattered
BYTES = 2.4e12           # W, per second: a copy reaches 3.0e12
LAUNCH = 4e-6            # L: the shortest kernels of the profile take 4.6 us
GATHER = 20e-6           # a small gather over NVLink, from the first rank to arrive to the last
PRODUCTS = ("linear", "conv2d", "conv2d_add_relu", "matmul", "attention")
ADAMW_BYTES = 28 + 10    # per parameter: four reads and three writes of f32, the bf16 copy and the gradient norm
RANKS, LINK, BLOCK, MESSAGE = 8, 350e9, 4 * 2**20, 1e-6  # NVLink 4, as in scaling.py


def bench(build, recipe, batch, size, *options, ranks=1, ops=None):
    port = random.randrange(29100, 29900)
    environment = dict(os.environ, SACCADE_EMULATOR_DRY="1", SACCADE_EMULATOR_GPUS=str(ranks), OMP_NUM_THREADS="1")
    command = [f"{build}/detector_bench", "--config", f"configs/{recipe}.textproto", "--device", "cuda", "--precision", "bf16",
               "--batch", str(batch), "--height", str(size[0]), "--width", str(size[1]), "--steps", "4", *options]
    if ops:
        command += ["--ops", ops]
    runs = []
    for rank in range(ranks):
        own = ["--rank", str(rank), "--ranks", str(ranks), "--master", f"127.0.0.1:{port}"] if ranks > 1 else []
        runs.append(subprocess.Popen(command + own, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [run.communicate()[0] for run in runs]
    if any(run.returncode for run in runs):
        sys.exit(f"error: predict_gpu.py: {' '.join(command)} failed")
    return json.loads(outputs[0])


def seconds(name, macs, bytes_):
    return max(macs / (SAMPLED_MACS if name == "ms_deform_attn" else MACS), bytes_ / BYTES)


def reduction(parameters, backward):
    """The part of the gradients' sum that the backward pass does not hide: at least the last block."""
    blocks = -(-4 * parameters // BLOCK)
    all_ = 2 * (RANKS - 1) / RANKS * 4 * parameters / LINK + 2 * (RANKS - 1) * blocks * MESSAGE
    return max(all_ - backward, all_ / blocks)


def row(build, folder, title, recipe, batch, size, trains):
    ops_file = str(pathlib.Path(folder) / "ops.tsv")
    counts = bench(build, recipe, batch, size, *([] if trains else ["--infer"]), ops=ops_file)
    forward = backward = macs = moved = gathers = 0
    for line in pathlib.Path(ops_file).read_text().splitlines():
        name, op_macs, read, written = line.split("\t")
        op_macs, read, written = int(op_macs), int(read), int(written)
        forward += seconds(name, op_macs, read + written)
        macs += op_macs
        moved += read + written
        if trains:
            again = 2 * read + written * (2 if name in PRODUCTS else 1)
            backward += seconds(name, 2 * op_macs, again)
            macs += 2 * op_macs
            moved += again
            gathers += 2 * (name == "batch_norm")
    update = ADAMW_BYTES * counts["parameters"] if trains else 0
    moved += update
    alone = forward + backward + update / BYTES + counts["launches"] * LAUNCH
    launches, together = str(counts["launches"]), "the same"
    if trains:
        of_ranks = bench(build, recipe, batch, size, ranks=2)["launches"]
        launches += f", {of_ranks} with ranks"
        more = reduction(counts["parameters"], backward) + gathers * GATHER + (of_ranks - counts["launches"]) * LAUNCH
        together = f"{(alone + more) * 1e3:.1f}"
    print(f"| {title} | {macs / 1e9:,.0f} | {moved / 1e9:.2f} | {launches} | {alone * 1e3:.2f} | {together} |", flush=True)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(f"| | 10^9 MACs | GB | launches | ms, one GPU | ms, {RANKS} GPUs |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for title, recipe, batch, size, trains in (
                ("RT-DETR R18, one image", "rt_detr_r18", 1, (640, 640), False),
                ("RT-DETR R18, 32 images", "rt_detr_r18", 32, (640, 640), False),
                ("RT-DETR R50, one image", "rt_detr_r50", 1, (640, 640), False),
                ("RT-DETR R50, 32 images", "rt_detr_r50", 32, (640, 640), False),
                ("RT-DETR R18, a step of 16 a GPU", "rt_detr_r18", 16, (640, 640), True),
                ("Deformable DETR R50, a step of 4 a GPU", "deformable_detr_r50", 4, (800, 1066), True)):
            row(sys.argv[1], folder, title, recipe, batch, size, trains)


if __name__ == "__main__":
    main()
