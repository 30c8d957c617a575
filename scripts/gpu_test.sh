#!/usr/bin/env bash
# The tests of the CUDA backend on the GPU of this machine: every op, every attention layer and tiny models of every kind
# against the CPU, whole training steps in f32, tf32 and bf16, the detections of a checkpoint, two runs with equal bits, and the
# op table once more under compute-sanitizer where that is installed. Runs from the folder that scripts/package.sh makes, or
# from a checkout with a build in build/ (BUILD=...).
# Usage: scripts/gpu_test.sh [--quick | --rehearse]
#   --quick: without compute-sanitizer     --rehearse: few steps of a tiny model, for the emulated GPU
set -euo pipefail
cd "$(dirname "$0")/.."

sanitize=1 steps=50 small=()
for argument in "$@"; do
  case "$argument" in
    --quick) sanitize=0 ;;
    --rehearse)
      sanitize=0 steps=3
      small=(--set model.transformer.hidden_dim=32 --set model.transformer.heads=4 --set model.transformer.ffn_dim=32
        --set model.backbone.width=8 --set data.augment.height=64 --set data.augment.width=64) ;;
    *) echo "error: gpu_test.sh: unknown argument $argument, expected --quick or --rehearse" >&2; exit 2 ;;
  esac
done
if [ -x bin/saccade ]; then bin=bin; else bin=${BUILD:-build}; fi
for program in saccade test_autograd test_layers test_models test_train; do
  [ -x "$bin/$program" ] || { echo "error: gpu_test.sh: no $bin/$program; build the checkout first" >&2; exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_WAIT_POLICY=passive
step() { printf '\n== %s (%d s so far)\n' "$*" "$SECONDS"; }
# A test that is skipped has not passed: on this machine the GPU is what is tested.
tests() { # program, filter
  "$bin/$1" --gtest_brief=1 --gtest_filter="$2" > "$work/log" 2>&1 || { tail -n 60 "$work/log"; exit 1; }
  if grep -q 'SKIPPED' "$work/log"; then grep -m 3 'SKIPPED' -A 1 "$work/log"; exit 1; fi
  tail -n 2 "$work/log"
}

step "the GPU"
date -u
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2> /dev/null || echo "no nvidia-smi"

step "op table"
tests test_autograd '*.cuda*'
step "layer table"
tests test_layers '*uda*'
step "models: forward and backward of one of each kind"
tests test_models 'Cuda*'
step "training, eval and predict: CPU against GPU, f32, bf16, equal bits"
tests test_train 'Cuda*-CudaErrors*'

step "$steps steps from one seed, CPU against GPU"
"$bin/saccade" data shapes --output "$work/data" --images 16 --seed 1 > /dev/null
run() { # name, device, precision
  "$bin/saccade" train --config configs/quickstart.textproto --output "$work/$1" --device "$2" --max-steps "$steps" "${small[@]}" \
    --set "precision=$3" --set data.batch_size=2 --set train.log_every=1 --set schedule.warmup_steps=10 \
    --set "data.train.annotations=$work/data/annotations.json" --set "data.train.images=$work/data/images" \
    --set "data.val.annotations=$work/data/annotations.json" --set "data.val.images=$work/data/images" > "$work/$1.log" 2>&1 ||
    { tail -n 5 "$work/$1.log"; exit 1; }
}
losses() { sed -n 's/.*"loss": \([-0-9.e+]*\),.*/\1/p' "$work/$1/metrics.jsonl"; }
compare() { # two runs, the largest relative difference of their losses that is allowed
  paste <(losses "$1") <(losses "$2") | awk -v limit="$3" -v names="$1, $2" '
    { d = $1 - $2; if (d < 0) d = -d; d /= ($1 < 0 ? -$1 : $1); if (d > most) most = d; n++ }
    END { printf "%s: %d steps, largest difference of the losses %.2g, allowed %g\n", names, n, most, limit
          exit !(n > 0 && most <= limit) }'
}
run cpu cpu f32
run gpu cuda f32
run again cuda f32
compare cpu gpu 1e-3
cmp "$work/gpu/checkpoints/last.safetensors" "$work/again/checkpoints/last.safetensors"
echo "two runs on the GPU: equal bytes"
# tf32 keeps 10 bits of a product's factors, bf16 7 of everything: the curves stay near, no more.
run tf32 cuda tf32
compare gpu tf32 0.02
run cpu16 cpu bf16
run gpu16 cuda bf16
compare cpu16 gpu16 0.05

if [ $sanitize = 1 ] && command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck; do
    step "compute-sanitizer $tool: op table"
    SACCADE_FAST=1 compute-sanitizer --tool "$tool" --error-exitcode 1 --log-file "$work/$tool" \
      "$bin/test_autograd" --gtest_brief=1 --gtest_filter='*.cuda' > "$work/log" 2>&1 ||
      { tail -n 20 "$work/$tool" "$work/log"; exit 1; }
    tail -n 1 "$work/$tool"
  done
elif [ $sanitize = 1 ]; then
  echo "compute-sanitizer is not installed: its checks did not run"
fi
printf '\n== passed in %d s\n' "$SECONDS"
