#!/usr/bin/env bash
# Second call: training against PyTorch, at one size and over padded batches, and deformable attention alone.
# The log folder of an earlier call may be given again: the table then shows both.
# Usage: scripts/gpu/2_speed.sh LOGS
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
export OMP_WAIT_POLICY=passive
scripts/bench/gpu.sh --log "${1:?}" --stages train --limit 240
scripts/bench/gpu.sh --log "$1" --stages varying,msda --models deformable_detr --precisions bf16 --limit 150
