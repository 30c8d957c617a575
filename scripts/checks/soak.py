#!/usr/bin/env python3
"""Trains for long with every option on: memory must not grow, steps must not slow down, and resumed pieces
end with the same bytes.

Usage: scripts/checks/soak.py [--program build/saccade] [--steps 5000] [--keep FOLDER]

Two small trainings, one of padded batches and one of square ones in changing sizes; each once in one piece
and once in ten. Prints a row for each tenth: resident memory, open descriptors, processor time per step.
Strong augmentation ends within the first tenth, so that the others have equal work. Exit status 1 if the last
tenth has 2 % (and 2 MB) more memory than the second, or another number of descriptors, if its steps take 5 %
more processor time than the median of the other tenths (which requires an otherwise idle machine), or if a
byte differs."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

CONFIG = """
model {
  backbone { blocks: [1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [2, 3] }
  transformer {
    hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 2 ffn_dim: 32 queries: 10 levels: 3 dropout: 0.1
    denoising { queries: 10 }
  }
  deformable_detr { box_refine: true two_stage: true }
}
criterion { class_loss: varifocal }
data {
  train { annotations: "train/annotations.json" images: "train/images" }
  val { annotations: "val/annotations.json" images: "val/images" }
  batch_size: 2 workers: 2 cache_mb: 8 sampling: repeat_factor repeat_threshold: 0.9 bad_images: skip
  SIZES
  augment {
    horizontal_flip: 0.5 vertical_flip: 0.2 rotate90: 0.2
    brightness: 0.2 contrast: 0.2 saturation: 0.2 hue: 0.05 color_probability: 0.8 photometric_distortion: 0.5
    zoom_out: 0.3 iou_crop: 0.5 mosaic: 0.3 mosaic_side: 64 min_box_side: 1 min_area_ratio: 0.1
    strong_start_epoch: 1 strong_stop_epoch: 3 mosaic_stop_epoch: 3
    AUGMENT
  }
}
optimizer {
  learning_rate: 1e-3 clip_norm: 0.5 weight_decay: 1e-3 no_decay_1d: true
  group { regex: "sampling_offsets" lr_mult: 0.3 }
  group { regex: "^backbone.*conv1" frozen: true }
}
schedule { type: "cosine" warmup_steps: 20 final_ratio: 0.1 }
precision: bf16
train {
  epochs: STEPS max_steps: STEPS eval_every_epochs: 5 ema_decay: 0.99 log_every: 5 accumulate: 2
  recompute: ["transformer.encoder"] checkpoint_every_steps: 50 best_metric: "AP50" patience: 100000
}
"""
KINDS = {
    "padded": ("group_by_shape: true val_short_side: 64 val_long_side: 96",
               "short_sides: [48, 56, 64] long_side: 96 "
               "crop_probability: 0.3 crop_short_sides: [64, 72] crop_min: 32 crop_max: 60"),
    "square": ("val_height: 64 val_width: 64", "height: 64 width: 64 multi_scale_heights: [48, 64, 80] batch_mixup: 0.3"),
}
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def train(program, folder, kind, run, *more):
    log = open(folder / f"{run}.log", "a")
    words = [program, "train", "--config", f"{kind}.textproto", "--output", run, "--threads", "1", *more]
    return subprocess.Popen(words, cwd=folder, stdout=log, stderr=log)


def must_end_well(process, folder, run):
    if process.wait() != 0:
        log = (folder / f"{run}.log").read_text()
        sys.exit(f"{run}: exit status {process.returncode}: {log[-500:]}")


def last_step(path):
    """The step of the last whole line of metrics.jsonl; 0 before there is one."""
    try:
        lines = path.read_bytes().rsplit(b"\n", 2)
    except FileNotFoundError:
        return 0
    return json.loads(lines[-2])["step"] if len(lines) > 1 and lines[-2] else 0


def watch(process, metrics):
    """-> [(step, bytes, descriptors, seconds of processor time)] until the process has ended"""
    samples, proc = [], pathlib.Path(f"/proc/{process.pid}")
    while process.poll() is None:
        try:
            step = last_step(metrics)
            times = (proc / "stat").read_text().rsplit(") ", 1)[1].split()
            memory = int((proc / "statm").read_text().split()[1]) * PAGE
            samples.append((step, memory, len(os.listdir(proc / "fd")), (int(times[11]) + int(times[12])) / TICK))
        except (FileNotFoundError, ProcessLookupError, PermissionError, IndexError):
            pass
        time.sleep(0.05)
    return samples


def tenths(samples, steps):
    """-> for each tenth of the steps: the largest memory, the median of the descriptors, processor time a
    step"""
    rows, edges = [], [steps * k // 10 for k in range(11)]
    for low, high in zip(edges, edges[1:]):
        part = [s for s in samples if low < s[0] <= high]
        if len(part) < 3 or part[-1][0] == part[0][0]:
            sys.exit("too few steps: a larger --steps is needed")
        files = sorted(s[2] for s in part)
        seconds = (part[-1][3] - part[0][3]) / (part[-1][0] - part[0][0])
        rows.append((max(s[1] for s in part), files[len(files) // 2], seconds))
    return rows


def soak(program, folder, kind, steps):
    """-> what is wrong"""
    sizes, augment = KINDS[kind]
    text = CONFIG.replace("SIZES", sizes).replace("AUGMENT", augment).replace("STEPS", str(steps))
    (folder / f"{kind}.textproto").write_text(text)
    whole, pieces = f"{kind}_whole", f"{kind}_pieces"
    process = train(program, folder, kind, whole)
    rows = tenths(watch(process, folder / whole / "metrics.jsonl"), steps)
    must_end_well(process, folder, whole)
    for k in range(1, 11):
        must_end_well(train(program, folder, kind, pieces, "--resume", "--max-steps", str(steps * k // 10)), folder, pieces)

    print(f"\n| {kind}: steps | memory, MB | descriptors | processor time per step, ms |\n| --- | --- | --- | --- |")
    for k, (memory, files, seconds) in enumerate(rows):
        print(f"| {steps * k // 10 + 1} to {steps * (k + 1) // 10} | {memory / 1e6:.1f} | {files} | {1e3 * seconds:.2f} |")
    faults = []
    if rows[-1][0] > max(1.02 * rows[1][0], rows[1][0] + 2e6):
        faults.append("memory grew")
    if rows[-1][1] != rows[1][1]:
        faults.append("the number of descriptors changed")
    if rows[-1][2] > 1.05 * statistics.median(row[2] for row in rows[1:-1]):
        faults.append("steps became slower")
    for name in ("last", "best"):
        files = [folder / run / "checkpoints" / f"{name}.safetensors" for run in (whole, pieces)]
        if files[0].read_bytes() != files[1].read_bytes():
            faults.append(f"{name}.safetensors of ten pieces differs")
    return [f"{kind}: {fault}" for fault in faults]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/saccade")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--keep", help="work in this folder and keep it")
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.program)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(arguments.keep or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for split, images, seed in (("train", 40, 1), ("val", 8, 2)):
            if not (folder / split).exists():
                words = ["data", "shapes", "--output", split, "--images", str(images), "--seed", str(seed)]
                subprocess.run([program, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        faults = [fault for kind in KINDS for fault in soak(program, folder, kind, arguments.steps)]
    print("\n".join(faults) or "\nno growth, no slow-down, and ten resumed pieces end with the same bytes")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
