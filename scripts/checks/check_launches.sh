#!/usr/bin/env bash
# Bounds what a step of whole recipes asks of the GPU in bf16: launches (kernels, library calls, copies) and
# uploaded bytes. Counts on the emulated GPU with SACCADE_EMULATOR_DRY=1, where nothing runs, so that a
# ResNet-50 takes seconds. Images have 96 x 128 pixels: the launches hardly depend on the size. In an
# inference, post-processing included, the host waits only once: for the copy of the detections.
# Usage: scripts/checks/check_launches.sh BUILD     an emulated build with detector_bench
set -euo pipefail
cd "$(dirname "$0")/../.."

build=${1:?the folder of an emulated build}
height=96 width=128 failed=0

check() { # recipe, batch, most launches, more options
  local recipe=$1 batch=$2 most=$3 counts launches waits uploaded
  shift 3
  # The first steps set up what depends on the sizes, and are not counted.
  counts=$(SACCADE_EMULATOR_DRY=1 "$build/detector_bench" --config "configs/$recipe.textproto" --device cuda --precision bf16 \
    --batch "$batch" --height $height --width $width --steps 12 "$@")
  read -r launches waits uploaded < <(
    sed -E 's/.*"launches": ([0-9]+), "host_syncs": ([0-9]+), "uploaded_bytes": ([0-9]+).*/\1 \2 \3/' <<< "$counts")
  [[ $launches,$waits,$uploaded =~ ^[0-9]+,[0-9]+,[0-9]+$ ]] || {
    echo "error: check_launches.sh: $recipe: no counts in $counts" >&2
    exit 1
  }
  echo "$recipe${*:+ $*}, batch $batch: $launches launches (at most $most), $waits waits, $uploaded bytes uploaded"
  # Images are sent as bytes; the targets and all scalars of a step are less than 64 KB.
  if [ "$launches" -gt "$most" ] || [ "$uploaded" -ge $((batch * height * width * 3 + 65536)) ]; then
    echo "error: check_launches.sh: $recipe exceeds these limits" >&2
    failed=1
  fi
  if [[ " $* " = *" --infer "* ]] && [ "$waits" -gt 1 ]; then
    echo "error: check_launches.sh: the host waits $waits times for an inference of $recipe, expected once" >&2
    failed=1
  fi
}

check deformable_detr_r50 4 1300
check deformable_detr_r50_two_stage 4 1400
check detr_r50 4 1400
check deformable_detr_dat_t 4 1700
check deformable_detr_r50 1 400 --infer
check retinanet_r50 1 400 --infer
check mask_rcnn_r50 1 400 --infer
check rf_detr_seg_n 1 420 --infer
check rt_detr_r18 1 220 --infer
check rt_detr_r18 32 220 --infer
exit $failed
