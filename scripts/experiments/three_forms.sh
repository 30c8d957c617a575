#!/usr/bin/env bash
# Trains on one data set as COCO, YOLO and Pascal VOC, under one name, and compares the checkpoints byte for
# byte.
# Usage: scripts/experiments/three_forms.sh FOLDER OUT [STEPS]
#   FOLDER/annotations/{train,val}.json and FOLDER/images; SACCADE: the program
set -euo pipefail
folder=$(realpath "$1") out=$2 steps=${3:-20}
saccade=$(realpath "${SACCADE:-build/saccade}")
"$(dirname "$0")/coco_forms.py" "$folder" "$out"
ln -sfn "$folder" "$out/coco"
cd "$out"
for form in coco yolo voc; do
  ln -sfn "$form" data  # its name is part of the configuration, and so of a checkpoint
  rm -rf "run_$form"
  "$saccade" train --data data --model quickstart --output "run_$form" --max-steps "$steps" --quiet
  sha256sum "run_$form/checkpoints/last.safetensors"
done
cmp run_coco/checkpoints/last.safetensors run_yolo/checkpoints/last.safetensors
cmp run_coco/checkpoints/last.safetensors run_voc/checkpoints/last.safetensors
echo "the checkpoints are equal"
