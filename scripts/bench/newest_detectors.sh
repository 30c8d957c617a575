#!/usr/bin/env bash
# Measures D-FINE N and S at 640 pixels and RF-DETR N at 384, f32 on two threads: inference of one image
# against onnxruntime and OpenVINO on the exported file (scripts/bench/onnx_runtimes.py) and against PyTorch;
# and a training step of 2 images (D-FINE S, RF-DETR N) against PyTorch. All programs have the weights of one
# random model of transformers; those of PyTorch run in both layouts.
# Usage: scripts/bench/newest_detectors.sh [BUILD] [PYTHON] [PYTHON_OF_RUNTIMES]
#   PYTHON has torch and transformers, the other onnxruntime and openvino. ROUNDS (3) and TRAINING_STEPS (6)
#   may be set.
set -euo pipefail
build=${1:-build} python=${2:-python3} runtimes=${3:-${2:-python3}}
rounds=${ROUNDS:-3} steps=${TRAINING_STEPS:-6}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=2

torch() {  # name of the row, then arguments
  local row=$1
  shift
  for layout in "" --contiguous; do
    "$python" scripts/bench/torch_detector.py --device cpu $layout "$@" 2> "$folder/err" | sed "s/^/$row, PyTorch ${layout:---channels-last}: /" ||
      { cat "$folder/err" >&2; exit 1; }
  done
}

uptime
for model in dfine_n:640 dfine_s:640 rf_detr_n:384; do
  name=${model%:*} side=${model#*:}
  "$python" scripts/bench/torch_detector.py --model "$name" --device cpu --infer --batch 1 --height "$side" --width "$side" --steps 1 \
    --save "$folder/hf" > /dev/null 2>&1
  "$build/saccade" convert "$folder/hf/model.safetensors" "$folder/$name.safetensors" > /dev/null
  "$runtimes" scripts/bench/onnx_runtimes.py --saccade "$build/saccade" --threads 2 --rounds "$rounds" --seconds 2 "$folder/$name.safetensors"
  for ((i = 0; i < 2; ++i)); do
    torch "$name inference" --model "$name" --infer --batch 1 --height "$side" --width "$side" --steps 10
  done
done
for model in dfine_s:640 rf_detr_n:384; do
  name=${model%:*} side=${model#*:}
  for ((i = 0; i < 2; ++i)); do
    "$build/detector_bench" --config "configs/$name.textproto" --batch 2 --height "$side" --width "$side" --steps "$steps" |
      sed "s/^/$name step, saccade: /"
    torch "$name step" --model "$name" --batch 2 --height "$side" --width "$side" --steps "$steps"
  done
done
uptime
