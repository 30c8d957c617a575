#!/usr/bin/env bash
# First call on a new GPU: is it right? Runs three ops first, and the whole test only if they pass.
# Usage: scripts/gpu/1_correct.sh LOGS
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
logs=${1:?}
mkdir -p "$logs/correct"
export OMP_WAIT_POLICY=passive
if ! timeout 120 bin/test_autograd --gtest_brief=1 --gtest_filter='op_add.cuda:op_matmul.cuda:op_conv2d.cuda' > "$logs/correct/smoke.txt" 2>&1; then
  tail -n 30 "$logs/correct/smoke.txt"
  PATH=$PATH:/usr/local/cuda/bin SACCADE_CUDA_SYNC=1 timeout 120 compute-sanitizer bin/test_autograd --gtest_filter=op_add.cuda 2>&1 |
    tee "$logs/correct/sanitizer.txt" | head -n 60
  exit 1
fi
timeout 390 scripts/gpu_test.sh --quick --limit 150 --log "$logs/correct"
status=$?
tar -C "$logs" -czf "$logs/correct.tgz" correct && rm -rf "$logs/correct"
exit $status
