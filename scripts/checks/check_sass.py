#!/usr/bin/env python3
"""Inspects the machine code that nvcc made of the tuned kernels (core/kernels/*/*_cuda*.cu) without a GPU:

    scripts/checks/check_sass.py BUILD            checks the objects of a CUDA build
    scripts/checks/check_sass.py BUILD --counts   and prints a kernel's instructions and loops
    scripts/checks/check_sass.py BUILD --only layer_norm   the files whose names begin so

No tuned kernel may use stack or local memory. Beyond that check_sass.tsv here lists, by file and kernel
(names with * and ?, the first line that fits), the most registers of a thread, the most bytes of stack where
some are allowed, the fewest 128-bit loads and stores of global memory, and the most instructions of the
longest innermost loop ("-": not checked). All values are for sm_90, and every line must match a kernel.
Without cuobjdump (CUDA toolkit, or PyPI's nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm, which
scripts/setup.sh --checks puts into .cache) or code for sm_90 it says so and checks nothing.
"""
import argparse
import collections
import csv
import fnmatch
import glob
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TABLE = os.path.join(ROOT, "scripts", "checks", "check_sass.tsv")


def find_cuobjdump():
    found = shutil.which("cuobjdump") or shutil.which("cuobjdump", path="/usr/local/cuda/bin")
    environments = [os.path.join(ROOT, ".cache", "cuobjdump"), os.environ.get("VIRTUAL_ENV", "")]
    folders = [p for p in sys.path + [os.path.join(e, "lib", "python3*", "site-packages") for e in environments] if p]
    for folder in folders:
        found = found or next(iter(glob.glob(os.path.join(folder, "nvidia", "*", "bin", "cuobjdump"))), None)
    return found


def run(*command, text=None):
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


def short(name):
    """The demangled name of a kernel without return type, namespaces and parameters."""
    name = re.sub(r"\((anonymous namespace|unnamed)\)::|\b(saccade|kernels|on_cuda|cuda)::", "", name)
    name = re.sub(r"^void ", "", name)
    depth = 0
    for i, c in enumerate(name):
        depth += (c == "<") - (c == ">")
        if c == "(" and depth == 0:
            return name[:i]
    return name


class Kernel:
    def __init__(self, name, registers, stack):
        self.name, self.registers, self.stack, self.code = name, registers, stack, []

    def count(self, pattern):
        return sum(bool(re.match(pattern, op)) for _, op, _ in self.code)

    def local(self):
        return self.count(r"(LDL|STL)\b")

    def size(self):
        """The code without the slow paths of collectives and divisions after the last EXIT, and the
        padding."""
        ends = [i for i, (_, op, _) in enumerate(self.code) if op == "EXIT"]
        return (ends[-1] + 1 if ends else len(self.code))

    def loops(self):
        """The innermost loops: (instructions, their kinds)."""
        ranges = []
        place = {address: i for i, (address, _, _) in enumerate(self.code)}
        for i, (_, op, rest) in enumerate(self.code[:self.size()]):
            target = re.search(r"0x([0-9a-f]+)$", rest)
            if op == "BRA" and target and place.get(int(target[1], 16), i) < i:
                ranges.append((place[int(target[1], 16)], i + 1))
        inner = [a for a in ranges if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in ranges)]
        kinds = [op.split(".")[0] for _, op, _ in self.code]
        return [(end - begin, collections.Counter(kinds[begin:end])) for begin, end in inner]


def kernels_of(cuobjdump, path):
    usage = re.findall(r"Function ([^\s:]+):\s+REG:(\d+) STACK:(\d+)", run(cuobjdump, "-arch", "sm_90", "-res-usage", path))
    demangled = run("c++filt", text="\n".join(name for name, _, _ in usage)).splitlines()
    kernels = {m: Kernel(short(d), int(r), int(s)) for (m, r, s), d in zip(usage, demangled)}
    kernel = None
    for line in run(cuobjdump, "-arch", "sm_90", "-sass", path).splitlines():
        if match := re.match(r"\s+Function : (\S+)", line):
            kernel = kernels.get(match[1])
        elif kernel and (match := re.match(r"\s+/\*([0-9a-f]{4,6})\*/\s+(?:@!?U?P\w+ )?(\S+)\s*(.*?)\s*;", line)):
            kernel.code.append((int(match[1], 16), match[2], match[3]))
    return list(kernels.values())


def check(kernel, limit):
    def number(key, default):
        return default if not limit or limit[key] == "-" else int(limit[key])

    faults = []
    if kernel.registers > number("registers", 255):
        faults.append(f"{kernel.registers} registers, at most {limit['registers']} allowed")
    if kernel.stack > number("stack", 0):
        faults.append(f"{kernel.stack} bytes of stack, at most {number('stack', 0)} allowed")
    if kernel.local() and number("stack", 0) == 0:
        faults.append(f"{kernel.local()} accesses of local memory")
    for key, op in (("loads", r"LDG\.E\.128"), ("stores", r"STG\.E\.128")):
        if kernel.count(op) < number(key, 0):
            faults.append(f"{kernel.count(op)} {key} of 128 bits, at least {limit[key]} expected")
    longest = max((size for size, _ in kernel.loops()), default=0)
    if longest > number("loop", 1 << 30):
        faults.append(f"{longest} instructions in a loop, at most {limit['loop']} allowed")
    return faults


def describe(kernel):
    print(f"  {kernel.name}: {kernel.size()} instructions, {kernel.registers} registers, {kernel.stack} stack, "
          f"{kernel.count(r'LDG.E.128')} wide loads, {kernel.count(r'STG.E.128')} wide stores")
    for size, kinds in kernel.loops():
        print(f"    loop of {size}: " + " ".join(f"{op} {n}" for op, n in kinds.most_common(10)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", help="a build folder, or one with cubins or objects")
    parser.add_argument("--counts", action="store_true", help="print the counts of every kernel")
    parser.add_argument("--only", default="", help="only files whose names begin with this")
    arguments = parser.parse_args()
    cuobjdump = find_cuobjdump()
    if not cuobjdump:
        print("SASS: not checked, cuobjdump was not found (CUDA toolkit, or pip install nvidia-cuda-cuobjdump)")
        return 0
    objects = {}
    for path in sorted(glob.glob(os.path.join(arguments.build, "**", "*_cuda*"), recursive=True)):
        if match := re.match(r"(\w+_cuda\w*)(\.cu\.o|\.cubin)$", os.path.basename(path)):
            objects[match[1]] = path
    objects = {name: path for name, path in objects.items() if name.startswith(arguments.only)}
    if not objects:
        print(f"SASS: not checked, {arguments.build} holds no objects of CUDA kernels")
        return 0
    with open(TABLE, newline="") as file:
        table = [row for row in csv.DictReader(file, delimiter="\t") if row["file"].startswith(arguments.only)]
    met, failed, total, without = set(), 0, 0, []
    for name, path in objects.items():
        if arguments.counts:
            print(name)
        kernels = kernels_of(cuobjdump, path)
        if not kernels:
            without.append(path)
        for kernel in kernels:
            total += 1
            limit = None
            for i, row in enumerate(table):
                if row["file"] == name and fnmatch.fnmatchcase(kernel.name, row["kernel"]):
                    met.add(i)
                    limit = limit or row
            if arguments.counts:
                describe(kernel)
            for fault in check(kernel, limit):
                print(f"error: {name}: {kernel.name}: {fault}", file=sys.stderr)
                failed += 1
    if len(without) == len(objects):
        print(f"SASS: not checked, {arguments.build} holds no code for sm_90")
        return 0
    for path in without:
        print(f"error: {path}: no code for sm_90, which other files have", file=sys.stderr)
        failed += 1
    for i, row in enumerate(table):
        if i not in met:
            print(f"error: check_sass.tsv: {row['file']}: no kernel is called {row['kernel']}", file=sys.stderr)
            failed += 1
    print(f"SASS: {total} kernels of {len(objects)} files, {len(table)} with limits of their own, {failed} faults")
    return 1 if failed else 0


sys.exit(main())
