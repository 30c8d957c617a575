#!/usr/bin/env bash
# Third call: inference, and PyTorch compiled. Usage: scripts/gpu/3_more_speed.sh LOGS
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
export OMP_WAIT_POLICY=passive
scripts/bench/gpu.sh --log "${1:?}" --stages infer --limit 200
scripts/bench/gpu.sh --log "$1" --stages compiled --precisions bf16,tf32 --limit 340
