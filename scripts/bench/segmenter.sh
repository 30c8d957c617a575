#!/usr/bin/env bash
# Times the training step of UperNet with Swin-T at 512 pixels on the CPU, ours against that of transformers,
# in turn; PyTorch in both memory formats.
# Needs -DSACCADE_BENCH=ON and a Python with torch and transformers.
# Usage: scripts/bench/segmenter.sh PYTHON [ROUNDS (2)] [--infer] [--batch N] [--steps N]
#                                   [--precision f32|bf16]
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1 rounds=2
shift
if [ $# -gt 0 ] && [[ $1 != --* ]]; then
  rounds=$1
  shift
fi
for round in $(seq "$rounds"); do
  echo "round $round, ours:            $(build/segmenter_bench --config configs/upernet_swin_t.textproto "$@")"
  echo "round $round, transformers:    $("$python" scripts/bench/torch_segmenter.py "$@" 2> /dev/null | tail -1)"
  echo "round $round, channels last:   $("$python" scripts/bench/torch_segmenter.py --channels-last "$@" 2> /dev/null | tail -1)"
done
