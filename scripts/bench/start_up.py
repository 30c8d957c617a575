#!/usr/bin/env python3
"""Measures how long `saccade train` takes to its first step on a YOLO set of 5,000 JPEGs, whose sizes must be
read from the files, in processor time and by the clock; and, with strace, how many bytes of each file it
reads for that. Needs Pillow and numpy. The set takes 5 GB.
Usage: scripts/bench/start_up.py FOLDER [--program build/saccade] [--images 5000] [--rounds 3]
"""
import argparse
import collections
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import numpy as np
from PIL import Image


def make(folder, images):
    """40 files of noise in turn: a quarter like a phone's, 3.6 MB with an EXIF block of 40 KB, half 640 x
    480, others small."""
    random = np.random.default_rng(1)
    for split in ("train", "val"):
        for kind in ("images", "labels"):
            os.makedirs(f"{folder}/{kind}/{split}")
    for k in range(40):
        height, width, quality = ((1512, 2016, 95), (480, 640, 95), (480, 640, 95), (240, 320, 80))[k % 4]
        exif = Image.Exif()
        if k % 4 == 0:
            exif[0x0112], exif[0x9286] = 6, b"x" * 40000
        Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(
            f"{folder}/source.jpg", quality=quality, exif=exif)
        for i in range(k, images, 40):
            name = f"{'val' if i % 10 == 9 else 'train'}/{i:05}"
            shutil.copyfile(f"{folder}/source.jpg", f"{folder}/images/{name}.jpg")
            with open(f"{folder}/labels/{name}.txt", "w") as labels:
                labels.write(f"{i % 3} 0.3 0.5 0.2 0.2\n")
    with open(f"{folder}/data.yaml", "w") as file:
        file.write("train: images/train\nval: images/val\nnames: [a, b, c]\n")


def start(command, run):
    """Runs until the first step is in metrics.jsonl; returns the seconds by the clock and of the
    processor."""
    begin = time.time()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    path = f"{run}/metrics.jsonl"
    while process.poll() is None and not (os.path.exists(path) and os.path.getsize(path)):
        time.sleep(0.01)
    clock = time.time() - begin
    with open(f"/proc/{process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    ticks = os.sysconf("SC_CLK_TCK")
    return clock, int(fields[11]) / ticks, int(fields[12]) / ticks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--program", default="build/saccade")
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if not os.path.exists(args.folder):
        make(args.folder, args.images)
    with tempfile.TemporaryDirectory() as scratch:
        def command(run):
            return [os.path.abspath(args.program), "train", "--model", "quickstart", "--data", args.folder, "--output", run,
                    "--threads", "1", "--quiet", "--set", "train.log_every=1"]
        for i in range(args.rounds):
            run = f"{scratch}/{i}"
            clock, user, system = start(command(run), run)
            print(f"first step after {clock:.2f} s, {user:.2f} s of user and {system:.2f} s of system time")
        if shutil.which("strace"):
            log, run = f"{scratch}/strace", f"{scratch}/traced"
            start(["strace", "-f", "-y", "-o", log, "-e", "trace=read,pread64"] + command(run), run)
            read = collections.Counter()
            with open(log, errors="replace") as lines:
                for line in lines:
                    if call := re.search(r" (?:read|pread64)\(\d+<([^>]*\.jpg)>.* = (\d+)$", line):
                        read[call[1]] += int(call[2])
            heads = [size for size in read.values() if size <= 65536]
            print(f"{len(read)} files: {len(heads)} up to {max(heads)} bytes, {np.median(heads):.0f} in the median; "
                  f"{len(read) - len(heads)} more, which the first steps read")


if __name__ == "__main__":
    main()
