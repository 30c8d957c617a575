#!/usr/bin/env python3
"""Images per second of configs/bench_small.textproto by one process and by several, with one thread each, in
turn; and how much of the reduction the backward pass hides. The numbers of docs/scaling.md. Leave the machine
idle otherwise.
Usage: scripts/bench/ranks.py [--program build/saccade] [--ranks 1,2] [--rounds 3] [--steps 40] [--batch 4]
                              [--precision f32] [--set KEY=VALUE]...
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


def run(command, environment=None):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"error: {' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")


def train(program, data, ranks, options):
    """The times of each step."""
    folder = tempfile.mkdtemp()
    try:
        command = [program, "train", "--config", "configs/bench_small.textproto", "--output", folder + "/run", "--quiet",
                   "--trial-batch", "off", "--threads", "1", f"--max-steps={options.steps}", "--set=train.log_every=1",
                   f"--set=data.batch_size={options.batch}", f"--set=precision={options.precision}"]
        command += [f"--set={word}" for word in options.set]
        command += [f"--set=data.{s}.{k}={data}/{v}" for s in ("train", "val")
                    for k, v in (("annotations", "annotations.json"), ("images", "images"))]
        run(command + (["--processes", str(ranks), "--device", "cpu"] if ranks > 1 else ["--device", "cpu"]),
            dict(os.environ, OMP_NUM_THREADS="1"))
        with open(folder + "/run/metrics.jsonl") as file:
            lines = [json.loads(line) for line in file]
    finally:
        shutil.rmtree(folder)
    return [line for line in lines if line["type"] == "train"][SKIP:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/saccade")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--precision", default="f32")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    data = os.path.join(ROOT, "runs", "bench-data")
    if not os.path.exists(data + "/annotations.json"):
        run([options.program, "data", "shapes", "--output", data, "--images", "64", "--seed", "3"])
    counts = [int(n) for n in options.ranks.split(",")]
    found = {n: [] for n in counts}
    for _ in range(options.rounds):
        for n in counts:
            found[n] += train(options.program, data, n, options)

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


if __name__ == "__main__":
    main()
