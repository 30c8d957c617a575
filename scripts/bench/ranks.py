#!/usr/bin/env python3
"""Images per second of configs/bench_small.textproto by one process and by several, with one thread each, in
turn; and how much of the reduction the backward pass hides. The numbers of docs/scaling.md. Leave the machine
idle otherwise. With --shared also what processes lose that exchange nothing: the step of one with its part of
the batch alone and beside others, and how fast memory is copied by one and by all at once.
Usage: scripts/bench/ranks.py [--program build/saccade] [--ranks 1,2] [--rounds 3] [--steps 40] [--batch 4]
                              [--precision f32] [--set KEY=VALUE]... [--shared]
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIP = 5  # steps at the start that do not count
TIMES = ("step_ms", "data_ms", "backward_ms", "ranks_ms", "reduction_ms", "reduction_wait_ms")


def command_of(data, folder, batch, options):
    command = [options.program, "train", "--config", "configs/bench_small.textproto", "--output", folder + "/run", "--quiet",
               "--trial-batch", "off", "--threads", "1", f"--max-steps={options.steps}", "--set=train.log_every=1",
               f"--set=data.batch_size={batch}", f"--set=precision={options.precision}", "--device", "cpu"]
    command += [f"--set={word}" for word in options.set]
    return command + [f"--set=data.{s}.{k}={data}/{v}" for s in ("train", "val")
                      for k, v in (("annotations", "annotations.json"), ("images", "images"))]


def together(commands):
    """Runs them at once, each with one thread; returns what they print."""
    running = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=dict(os.environ, OMP_NUM_THREADS="1")) for command in commands]
    printed = []
    try:
        for command, process in zip(commands, running, strict=True):
            out, error = process.communicate()
            if process.returncode:
                sys.exit(f"error: {' '.join(command)} ended with {process.returncode}: {error[-2000:]}")
            printed.append(out)
    finally:
        for process in running:
            process.kill()  # does nothing to one that has ended
    return printed


def train(data, batch, options, ranks=1, processes=1):
    """The times of each step, of all processes: each with as many ranks and a batch of its own."""
    folders = [tempfile.mkdtemp() for _ in range(processes)]
    lines = []
    try:
        together([command_of(data, folder, batch, options) +
                  (["--processes", str(ranks)] if ranks > 1 else []) for folder in folders])
        for folder in folders:
            with open(folder + "/run/metrics.jsonl") as file:
                steps = [line for line in map(json.loads, file) if line["type"] == "train"]
            lines += steps[SKIP:]
    finally:
        for folder in folders:
            shutil.rmtree(folder)
    return lines


COPY = """
import time
a, b = memoryview(bytearray(1 << 28)), memoryview(bytearray(1 << 28))
b[:] = a
begin, copies = time.perf_counter(), 0
while time.perf_counter() - begin < 2:
    b[:] = a
    copies += 1
print(2 * copies * len(a) / (time.perf_counter() - begin) / 1e9)
"""


def print_shared(data, ranks, options):
    """What processes lose that exchange nothing."""
    part = options.batch // ranks
    alone, beside, one, all_of_them = [], [], [], []
    for _ in range(options.rounds):
        alone += train(data, part, options)
        beside += train(data, part, options, processes=ranks)
        one += map(float, together([[sys.executable, "-c", COPY]]))
        all_of_them.append(sum(map(float, together([[sys.executable, "-c", COPY]] * ranks))))
    steps = [statistics.median(line["step_ms"] for line in lines) for lines in (alone, beside)]
    rates = [statistics.median(values) for values in (one, all_of_them)]
    print(f"a process with {part} images: {steps[0]:.1f} ms a step alone, {steps[1]:.1f} beside "
          f"{ranks - 1} more; memory read and written by a copy: {rates[0]:.1f} GB/s by one process, "
          f"{rates[1]:.1f} by {ranks} at once")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/saccade")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--precision", default="f32")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--shared", action="store_true")
    options = parser.parse_args()
    data = os.path.join(ROOT, "runs", "bench-data")
    if not os.path.exists(data + "/annotations.json"):
        together([[options.program, "data", "shapes", "--output", data, "--images", "64", "--seed", "3"]])
    counts = [int(n) for n in options.ranks.split(",")]
    if options.shared and options.batch % max(counts) != 0:
        parser.error(f"--shared: {options.batch} images cannot be divided by {max(counts)}")
    found = {n: [] for n in counts}
    for _ in range(options.rounds):
        for n in counts:
            found[n] += train(data, options.batch, options, ranks=n)

    def median(ranks, name):
        return statistics.median(line.get(name, 0) for line in found[ranks])

    print("| ranks | images/s | times one | " + " | ".join(TIMES) + " | hidden |\n|" + " --- |" * (len(TIMES) + 4))
    for n in counts:
        rate = 1e3 * options.batch / median(n, "step_ms")
        first = 1e3 * options.batch / median(counts[0], "step_ms")
        busy = median(n, "reduction_ms")
        hidden = f"{100 * (1 - median(n, 'reduction_wait_ms') / busy):.0f} %" if busy else ""
        times = " | ".join(f"{median(n, name):.1f}" for name in TIMES)
        print(f"| {n} | {rate:.2f} | {rate / first:.2f} | {times} | {hidden} |")
    if options.shared:
        print_shared(data, max(counts), options)


if __name__ == "__main__":
    main()
