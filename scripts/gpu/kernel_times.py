#!/usr/bin/env python3
"""Prints the time of each kernel, largest first, from the output of ncu --metrics gpu__time_duration.sum
--print-summary per-kernel: kernel_times.py FILE [MOST]. One line per kernel: microseconds of all its
launches, launches, the mean; launches of one kernel with several grids are added up."""
import collections
import re
import sys

MICROSECONDS = {"ns": 1e-3, "us": 1.0, "ms": 1e3}
times, launches = collections.Counter(), collections.Counter()
name = None
with open(sys.argv[1]) as file:
    for line in file:
        if kernel := re.match(r"  (\S.*?) \(\d+, \d+, \d+\)x\(.*Invocations (\d+)", line):
            name, count = kernel[1], int(kernel[2])
        elif (time := re.search(r"gpu__time_duration\.sum\s+(ns|us|ms)\s+\S+\s+\S+\s+([\d.,]+)", line)) and name:
            short = re.sub(r"kernels::|saccade::|<unnamed>::|void ", "", name).split("(")[0]
            times[short] += MICROSECONDS[time[1]] * float(time[2].replace(",", "")) * count
            launches[short] += count
            name = None
print(f"{sum(times.values()):10.1f} {sum(launches.values()):5d}            all")
for kernel, time in times.most_common(int(sys.argv[2]) if len(sys.argv) > 2 else 60):
    print(f"{time:10.1f} {launches[kernel]:5d} {time / launches[kernel]:8.2f}   {kernel[:110]}")
