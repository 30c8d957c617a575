#!/bin/bash
# Deformable attention against PyTorch's grid_sample formulation on the same cores, in turns (A B A B), with
# the ratio of the best medians. PyTorch runs at its best settings: OpenMP build of OpenBLAS, malloc that
# keeps freed memory. Needs a build with -DSACCADE_BENCH=ON in BUILD (default: build) and a Python with torch
# in PYTHON (default: /usr/bin/python3).
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build} PYTHON=${PYTHON:-/usr/bin/python3} ROUNDS=${ROUNDS:-2}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(nproc)}
export OPENBLAS_NUM_THREADS=$OMP_NUM_THREADS
best() {
  env LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/openblas-openmp MALLOC_MMAP_THRESHOLD_=4294967296 \
    MALLOC_TRIM_THRESHOLD_=34359738368 MALLOC_TOP_PAD_=268435456 "$@"
}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
for _ in $(seq "$ROUNDS"); do
  best "$PYTHON" scripts/bench/msda_torch.py 3 | tee -a "$out"
  "$BUILD/msda_bench" 9 | tee -a "$out"
  "$BUILD/msda_bench" 9 bf16 | tee -a "$out"
done
# The smallest median of each (shape, program), then the ratios.
awk '{
  split($0, half, ": "); name = $1 " " $2; who = /torch/ ? "torch" : / bf16 / ? "bf16" : "f32"
  match($0, /forward median [0-9.]+/); f = substr($0, RSTART + 15, RLENGTH - 15)
  match($0, /sum [0-9.]+/); s = substr($0, RSTART + 4, RLENGTH - 4)
  key = name SUBSEP who; names[name] = 1
  if (!(key in fwd) || f + 0 < fwd[key]) fwd[key] = f + 0
  if (!(key in all) || s + 0 < all[key]) all[key] = s + 0
} END {
  for (n in names) for (w in fwd) {
    split(w, part, SUBSEP)
    if (part[1] == n && part[2] != "torch")
      printf "%s, %s: forward %.1fx, forward+backward %.1fx faster than torch\n", n, part[2],
        fwd[n, "torch"] / fwd[w], all[n, "torch"] / all[w]
  }
}' "$out"
