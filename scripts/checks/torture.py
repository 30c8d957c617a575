#!/usr/bin/env python3
"""Ends trainings in every bad way and resumes them: the resumed run must end with the bytes of one that never
stopped.

Usage: scripts/checks/torture.py [--program build/saccade] [--model mask_rcnn] [--trials 100] [--seed 1]
       [--keep FOLDER]

The faults, in turn: SIGKILL at a random moment; SIGKILL within the k-th system call that writes, syncs,
renames, links or removes a file (half of a write is done); SIGKILL, or a signal that saves, while every such
call is slow; chains of these; damage to the newest checkpoint after a kill. Prints a table; exit status 1 if
a byte was lost."""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

BACKBONE = "backbone { blocks: [1, 1, 1, 1] width: 16 frozen_batch_norm: false frozen_stages: 0"
MODELS = {
    "deformable_detr": BACKBONE + """ outputs: [4] }
  transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 16 queries: 5 levels: 1 }""",
    "mask_rcnn": "type: \"mask_rcnn\" " + BACKBONE + """ }
  rcnn {
    channels: 16 head_dim: 16 mask_channels: 8 mask_layers: 1
    anchor_scale: 4 rpn_samples: 32 samples: 16 proposals: 30
  }""",
}
CONFIG = """
model { MODEL }
data {
  train { annotations: "shapes/annotations.json" images: "shapes/images" }
  val { annotations: "shapes/annotations.json" images: "shapes/images" }
  batch_size: 2 workers: 2 augment { height: 64 width: 64 } val_height: 64 val_width: 64
}
schedule { type: "cosine" warmup_steps: 3 }
train { epochs: 5 eval_every_epochs: 2 log_every: 1 checkpoint_every_steps: 2 ema_decay: 0.9 }
"""

# Loaded before the program: counts the calls that change files, makes them slow, and kills the process within
# one.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
static long count, fatal, delay;
static const char* report;
__attribute__((constructor)) static void begin(void) {
  if (getenv("TORTURE_FATAL")) fatal = atol(getenv("TORTURE_FATAL"));
  if (getenv("TORTURE_DELAY")) delay = atol(getenv("TORTURE_DELAY"));
  report = getenv("TORTURE_REPORT");
}
__attribute__((destructor)) static void end(void) {
  FILE* f = report ? fopen(report, "w") : NULL;
  if (f) { fprintf(f, "%ld", count); fclose(f); }
}
static int is_fatal(void) {
  if (delay) usleep(delay);
  return __sync_add_and_fetch(&count, 1) == fatal;
}
static int is_file(int fd) { struct stat s; return fstat(fd, &s) == 0 && S_ISREG(s.st_mode); }
static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
ssize_t write(int fd, const void* p, size_t n) {
  if (is_file(fd) && is_fatal()) { REAL(write)(fd, p, n / 2); die(); }
  return REAL(write)(fd, p, n);
}
ssize_t pwrite(int fd, const void* p, size_t n, off_t at) {
  if (is_fatal()) { REAL(pwrite)(fd, p, n / 2, at); die(); }
  return REAL(pwrite)(fd, p, n, at);
}
ssize_t pwrite64(int fd, const void* p, size_t n, off_t at) { return pwrite(fd, p, n, at); }
#define AROUND(call) if (is_fatal()) { if (count & 1) { int ignored = call; (void)ignored; } die(); } return call
int fsync(int fd) { AROUND(REAL(fsync)(fd)); }
int rename(const char* a, const char* b) { AROUND(REAL(rename)(a, b)); }
int link(const char* a, const char* b) { AROUND(REAL(link)(a, b)); }
int unlink(const char* a) { AROUND(REAL(unlink)(a)); }
int truncate(const char* a, off_t n) { AROUND(REAL(truncate)(a, n)); }
"""


class Torture:
    def __init__(self, program, model, folder, seed):
        self.program, self.folder, self.random = str(pathlib.Path(program).resolve()), folder, random.Random(seed)
        (folder / "f.textproto").write_text(CONFIG.replace("MODEL", MODELS[model]))
        (folder / "shim.c").write_text(SHIM)
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", "shim.so", "shim.c", "-ldl"], cwd=folder, check=True)
        shapes = ["data", "shapes", "--output", "shapes", "--images", "8", "--seed", "1", "--size", "64"]
        subprocess.run([self.program, *shapes], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        self.seconds = float("inf")
        for run in ("whole", "again", "once_more"):  # the machine may have been busy
            started = time.monotonic()
            self.finish(self.start(run, TORTURE_REPORT="calls"), 0)
            self.seconds = min(self.seconds, time.monotonic() - started)
        self.calls = int((folder / "calls").read_text())

    def start(self, run, **shim):
        environment = dict(os.environ, LD_PRELOAD=str(self.folder / "shim.so"))
        environment |= {name: str(value) for name, value in shim.items()}
        words = ["train", "--config", "f.textproto", "--output", run, "--resume"]
        return subprocess.Popen([self.program, *words], cwd=self.folder, env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, process, expected=None):
        out, err = process.communicate(timeout=600)
        if expected is not None and process.returncode != expected:
            raise AssertionError(f"exit status {process.returncode}: {err or out}")
        return out

    def kill(self, run, number, factor=1.0, **shim):
        process = self.start(run, **shim)
        time.sleep(self.random.random() * self.seconds * factor)
        process.send_signal(number)
        self.finish(process)
        if number != signal.SIGKILL and process.returncode not in (0, 128 + number, -number):
            raise AssertionError(f"exit status {process.returncode} after signal {number}")

    # ---- the faults ----------------------------------------------------------------------------------------

    def killed(self, run):
        self.kill(run, signal.SIGKILL)

    def killed_in_a_call(self, run):
        self.finish(self.start(run, TORTURE_FATAL=self.random.randint(1, self.calls)))

    def killed_while_slow(self, run):
        self.kill(run, signal.SIGKILL, 2, TORTURE_DELAY=self.random.choice([100, 1000]))

    def signal_while_slow(self, run):
        number = self.random.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
        self.kill(run, number, 2, TORTURE_DELAY=self.random.choice([100, 1000]))

    def chain(self, run):
        for _ in range(self.random.randint(2, 5)):
            self.random.choice([self.killed, self.killed_in_a_call, self.killed_while_slow, self.signal_while_slow])(run)

    def damaged(self, run):
        self.killed_in_a_call(run)
        folder = self.folder / run / "checkpoints"
        last, before = folder / "last.safetensors", folder / "previous.safetensors"
        if not before.exists():
            return
        data = bytearray(last.read_bytes())
        half, kind = len(data) // 2, self.random.randrange(4)
        if kind == 0:
            data[half:] = bytes(len(data) - half)
        elif kind == 1:
            del data[self.random.randrange(len(data)):]
        else:
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        last.unlink()
        last.write_bytes(data)

    # ---- what must hold after them -------------------------------------------------------------------------

    def lines(self, run):
        text = (self.folder / run / "metrics.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        # A run that stopped between two lines of the log writes one more.
        return [(line["type"], line["step"]) for line in lines]

    def lost_bytes(self, run):
        out = self.finish(self.start(run), 0)
        lost = 0
        for name in ("last", "best"):
            a, b = ((self.folder / r / f"checkpoints/{name}.safetensors").read_bytes() for r in ("whole", run))
            lost += abs(len(a) - len(b)) + sum(x != y for x, y in zip(a, b)) if a != b else 0
        if self.lines(run) != self.lines("whole"):
            raise AssertionError(f"metrics of {run} differ")
        left = [p.name for p in (self.folder / run).rglob("*") if re.match(r"\.(saccade|last|lock|previous)", p.name)]
        if left:
            raise AssertionError(f"left over: {left}")
        return lost, re.search(r"after step (\d+)$", out, re.M) is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/saccade")
    parser.add_argument("--model", choices=sorted(MODELS), default="deformable_detr")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="work here and keep everything")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or pathlib.Path(temporary)
        folder.mkdir(exist_ok=True)
        torture = Torture(arguments.program, arguments.model, folder, arguments.seed)
        print(f"a whole run: {torture.seconds:.1f} s, {torture.calls} calls that change files")
        faults = [torture.killed, torture.killed_in_a_call, torture.killed_while_slow, torture.signal_while_slow,
                  torture.chain, torture.damaged]
        tried, survived, lost = (collections.Counter() for _ in range(3))
        for trial in range(arguments.trials):
            fault = faults[trial % len(faults)]
            name = fault.__name__.replace("_", " ")
            tried[name] += 1
            try:
                fault(f"run{trial}")
                lost[name] += torture.lost_bytes(f"run{trial}")[0]
                survived[name] += 1
            except AssertionError as fault_found:
                print(f"trial {trial} ({name}): {fault_found}")
        print("| fault | tried | survived | lost bytes |\n| --- | --- | --- | --- |")
        for name in tried:
            print(f"| {name} | {tried[name]} | {survived[name]} | {lost[name]} |")
        return 1 if tried != survived or sum(lost.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
