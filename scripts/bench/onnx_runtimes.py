#!/usr/bin/env python3
"""Times `saccade bench` next to onnxruntime and OpenVINO on the file that `saccade export` makes of the same
checkpoint.

Images of bytes in, logits and boxes (ours: detections) out, f32, one image at a time, with the same number of
threads. The programs take turns, and the best round's median of each counts: on a machine with other work
only the ratios are meaningful. Start-up is the time from opening the file to the first result.

Usage: scripts/bench/onnx_runtimes.py [--saccade build/saccade] [--threads 2] [--rounds 5] [--seconds 3]
       [--height H --width W] CHECKPOINT...
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time


ROOT = pathlib.Path(__file__).resolve().parents[2]
# Each runtime is measured in a process of its own.
WORKER = """
import json, resource, sys, time
import numpy as np
runtime, path, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
begin = time.perf_counter()
if runtime == "onnxruntime":
    import onnxruntime
    begin = time.perf_counter()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape
    run = lambda images: session.run(None, {"images": images})
else:
    import openvino
    begin = time.perf_counter()
    hints = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    model = openvino.Core().compile_model(path, "CPU", hints)
    shape = list(model.inputs[0].shape)
    run = lambda images: model({"images": images})
images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
run(images)
print(json.dumps([time.perf_counter() - begin]), flush=True)
for line in sys.stdin:
    end, times = time.perf_counter() + float(line), []
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run(images)
        times.append(time.perf_counter() - start)
    print(json.dumps([sorted(times)[len(times) // 2], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]), flush=True)
"""


class Worker:
    def __init__(self, runtime, path, threads):
        command = [sys.executable, "-c", WORKER, runtime, str(path), str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        (self.startup,) = json.loads(self.process.stdout.readline())
        self.medians = []

    def round(self, seconds):
        print(seconds, file=self.process.stdin, flush=True)
        median, self.peak = json.loads(self.process.stdout.readline())
        self.medians.append(median)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def peak_of(command):
    """For one process. RUSAGE_CHILDREN would be the largest of all that have ended, including the export."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_maxrss / 1e3


def compare(checkpoint, arguments, folder):
    onnx, figures = folder / "model.onnx", folder / "bench.json"
    size = []
    for flag, value in (("--height", arguments.height), ("--width", arguments.width)):
        size += [flag, value] if value else []
    subprocess.run(
        [arguments.saccade, "export", checkpoint, str(onnx), "--input", "bytes", *size], check=True, stdout=subprocess.DEVNULL
    )
    workers = {name: Worker(name, onnx, arguments.threads) for name in ("onnxruntime", "openvino")}
    ours = []
    bench = [arguments.saccade, "bench", checkpoint, "--threads", str(arguments.threads), "--json", str(figures), *size]
    for _ in range(arguments.rounds):
        subprocess.run([*bench, "--seconds", str(arguments.seconds)], check=True, stdout=subprocess.DEVNULL)
        ours.append(json.loads(figures.read_text())["latency_ms"]["p50"])
        for worker in workers.values():
            worker.round(arguments.seconds)
    begin = time.perf_counter()
    peak = peak_of([*bench, "--seconds", "0"])
    runs = 13 * json.loads(figures.read_text())["latency_ms"]["p50"] / 1e3  # 3 warm-up runs and 10 more
    startup = max(0, time.perf_counter() - begin - runs)
    print(f"{checkpoint}, {arguments.threads} threads:")
    print(f"  saccade      {min(ours):8.1f} ms, start-up {startup:.2f} s, at most {peak:.0f} MB")
    for name, worker in workers.items():
        median = min(worker.medians) * 1e3
        ratios = statistics.median(m * 1e3 / o for m, o in zip(worker.medians, ours, strict=True))
        print(
            f"  {name:12} {median:8.1f} ms, start-up {worker.startup:.2f} s, at most {worker.peak / 1e3:.0f} MB; "
            f"ours is {median / min(ours):.2f} times as fast (median of the rounds {ratios:.2f})",
            flush=True,
        )
        worker.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--saccade", default=str(ROOT / "build/saccade"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--height")
    parser.add_argument("--width")
    parser.add_argument("checkpoints", nargs="+")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for checkpoint in arguments.checkpoints:
            compare(checkpoint, arguments, pathlib.Path(folder))


if __name__ == "__main__":
    main()
