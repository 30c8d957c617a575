#!/usr/bin/env python3
"""Prints the table of docs/scaling.md: the cost of summing the gradients of N GPUs in a step, on paper.

    t(N) = 2 (N - 1) / N * G / w  +  2 (N - 1) B a

G: bytes of the gradients; w: bytes per second that a GPU sends over the slowest link between the ranks; B:
blocks; a: the cost of one message before its first byte. The first term is the bandwidth, that of a ring; the
second the messages: in each of two phases a rank sends N - 1 of them per block. What takes longer than the
backward pass is not hidden.
"""

PARAMETERS = 42e6
BLOCK_BYTES = 4 * 2**20
MESSAGE_SECONDS = 1e-6
BACKWARD_SECONDS = 0.120  # of a step of 0.200
LINKS = [("NVLink 4, 350 GB/s", 350e9), ("400 Gbit/s a GPU, 40 GB/s", 40e9), ("PCIe 4, 20 GB/s", 20e9),
         ("100 Gbit/s for 8 GPUs, 1.4 GB/s", 1.4e9)]


def reduction_seconds(ranks: int, bytes_per_second: float) -> float:
    gradient_bytes = 4 * PARAMETERS
    blocks = gradient_bytes / BLOCK_BYTES
    return 2 * (ranks - 1) / ranks * gradient_bytes / bytes_per_second + 2 * (ranks - 1) * blocks * MESSAGE_SECONDS


def main() -> None:
    counts = [8, 16, 64, 256, 1024]
    print("| slowest link | " + " | ".join(f"{n} GPUs" for n in counts) + " |")
    print("| --- |" + " --- |" * len(counts))
    for name, speed in LINKS:
        cells = []
        for ranks in counts:
            t = reduction_seconds(ranks, speed)
            shown = max(0.0, t - BACKWARD_SECONDS)
            cells.append(f"{t * 1e3:.0f} ms" + (f", {shown * 1e3:.0f} shown" if shown else ""))
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
