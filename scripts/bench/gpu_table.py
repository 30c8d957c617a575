#!/usr/bin/env python3
"""Prints the table of scripts/bench/gpu.sh from its raw lines: gpu_table.py detectors.jsonl. Of several
rounds the fastest counts, of PyTorch eager and compiled the faster."""
import collections
import json
import sys

best, failed = collections.defaultdict(dict), []
with open(sys.argv[1]) as file:
    for line in file:
        entry = json.loads(line)
        what, precision, who = entry["run"].split("|")
        if "error" in entry:
            failed.append(f'{entry["run"].replace("|", ", ")}: {entry["error"]}')
            continue
        row, result = best[what, precision], entry["result"]
        if who not in row or result["ms"] < row[who]["ms"]:
            row[who] = result
if best:
    print("| | precision | PyTorch ms | compiled ms | saccade ms | faster | PyTorch GiB | saccade GiB | share |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")


def cell(result, key, scale=1.0):
    return f"{result[key] / scale:.2f}" if result else "-"


for (what, precision), row in best.items():
    ours, eager, compiled = (row.get(who) for who in ("saccade", "torch", "torch compiled"))
    torch = min((r for r in (eager, compiled) if r), key=lambda r: r["ms"], default=None)
    faster = f'**{torch["ms"] / ours["ms"]:.2f}x**' if ours and torch else "-"
    share = f'{100 * ours["peak_bytes"] / torch["peak_bytes"]:.0f} %' if ours and torch and torch["peak_bytes"] else "-"
    print(f'| {what} | {precision} | {cell(eager, "ms")} | {cell(compiled, "ms")} | {cell(ours, "ms")} | {faster} | '
          f'{cell(torch, "peak_bytes", 2**30)} | {cell(ours, "peak_bytes", 2**30)} | {share} |')
for line in failed:
    print("failed:", line)
