#!/usr/bin/env bash
# Fourth call: the time of each kernel in one training step, the counters of deformable attention, and
# compute-sanitizer over the op table.
# Usage: scripts/gpu/4_profile.sh LOGS
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
logs=${1:?}
mkdir -p "$logs/sanitizer"
export OMP_WAIT_POLICY=passive PATH=$PATH:/usr/local/cuda/bin
timeout 150 ncu --clock-control none --metrics gpu__time_duration.sum --launch-skip 3000 --launch-count 1300 --print-summary per-kernel \
  bin/detector_bench --config configs/deformable_detr_r50.textproto --device cuda --precision bf16 --batch 4 --steps 5 \
  > "$logs/step.txt" 2>&1
# A round is 20 forward calls in f32, then 20 backward calls with five such kernels each, then the same with
# atomics, then in bf16.
for part in 'f32 38' 'bf16 318'; do
  timeout 70 ncu --clock-control none --set full -k regex:'gather|add_tiles|place|count|sum_tiles' --launch-skip "${part#* }" \
    --launch-count 12 -o "$logs/msda_${part% *}" bin/gpu_msda_bench 1
done > "$logs/ncu.txt" 2>&1
scripts/gpu/kernel_times.py "$logs/step.txt" 40 | tee "$logs/kernels.txt"
tail -n 3 "$logs/ncu.txt"
timeout 330 scripts/gpu_test.sh --limit 160 --log "$logs/sanitizer" memcheck racecheck
status=$?
tar -C "$logs" -czf "$logs/sanitizer.tgz" sanitizer && rm -rf "$logs/sanitizer"
exit $status
