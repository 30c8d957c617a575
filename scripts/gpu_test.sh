#!/usr/bin/env bash
# The tests of the CUDA backend on the GPU of this machine: every op, every attention layer and tiny models of every kind
# against the CPU, whole training steps in f32, tf32 and bf16, the detections of a checkpoint, two runs with equal bits, and the
# op table once more under compute-sanitizer where that is installed. Runs from the folder that scripts/package.sh makes, or
# from a checkout with a build in build/ (BUILD=...). All parts run, also after one that fails; a table at the end says what
# happened, and the exit status is 0 when all passed.
# Usage: scripts/gpu_test.sh [--quick | --rehearse] [PART...]
#   --quick: without compute-sanitizer     --rehearse: few steps of a tiny model, for the emulated GPU
#   PART: only these of kernels, ops, layers, models, training, steps, memcheck, racecheck
set -euo pipefail
cd "$(dirname "$0")/.."

all=(kernels ops layers models training steps memcheck racecheck)
parts=() left_out=() steps=20 small=()
for argument in "$@"; do
  case "$argument" in
    --quick) left_out=(memcheck racecheck) ;;
    --rehearse)
      left_out=(memcheck racecheck) steps=3
      small=(--set model.transformer.hidden_dim=32 --set model.transformer.heads=4 --set model.transformer.ffn_dim=32
        --set model.backbone.width=8 --set data.augment.height=64 --set data.augment.width=64) ;;
    kernels | ops | layers | models | training | steps | memcheck | racecheck) parts+=("$argument") ;;
    *)
      echo "error: gpu_test.sh: unknown argument $argument, expected --quick, --rehearse or one of ${all[*]}" >&2
      exit 2 ;;
  esac
done
[ ${#parts[@]} -gt 0 ] || parts=("${all[@]}")
if [ -x bin/saccade ]; then bin=bin; else bin=${BUILD:-build}; fi
for program in saccade test_core test_autograd test_layers test_models test_train; do
  [ -x "$bin/$program" ] || { echo "error: gpu_test.sh: no $bin/$program; build the checkout first" >&2; exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A test that is skipped has not passed, and neither has a filter that finds none: on this machine the GPU is what is tested.
tests() { # program, filter
  local status=0
  "$bin/$1" --gtest_brief=1 --gtest_filter="$2" > "$work/log" 2>&1 || status=$?
  grep -A 12 -m 5 'Failure' "$work/log" || true
  grep -E '^\[  (FAILED|SKIPPED)|^ *[0-9]+ FAILED| ran\. |PASSED' "$work/log" | head -n 40
  if [ "$status" -ne 0 ]; then
    tail -n 5 "$work/log"
    return 1
  fi
  ! grep -q 'SKIPPED' "$work/log" && grep -q 'PASSED.*[1-9]' "$work/log"
}
kernels() { tests test_core 'RawKernels.*:Tf32Attention.*'; }
ops() { tests test_autograd '*.cuda*:MsDeformAttnOnGpu.*'; }
layers() { tests test_layers '*Cuda*'; }
models() { tests test_models 'Cuda*'; }
training() { tests test_train 'Cuda*-CudaErrors*'; }

run() { # name, device, precision
  "$bin/saccade" train --config configs/quickstart.textproto --output "$work/$1" --device "$2" --max-steps "$steps" "${small[@]}" \
    --set "precision=$3" --set data.batch_size=2 --set train.log_every=1 --set schedule.warmup_steps=10 \
    --set "data.train.annotations=$work/data/annotations.json" --set "data.train.images=$work/data/images" \
    --set "data.val.annotations=$work/data/annotations.json" --set "data.val.images=$work/data/images" > "$work/$1.log" 2>&1 ||
    { tail -n 5 "$work/$1.log"; return 1; }
}
losses() { sed -n 's/.*"loss": \([-0-9.e+]*\),.*/\1/p' "$work/$1/metrics.jsonl"; }
compare() { # two runs, the largest relative difference of their losses that is allowed
  paste <(losses "$1") <(losses "$2") | awk -v limit="$3" -v names="$1, $2" -v steps="$steps" '
    { d = $1 - $2; if (d < 0) d = -d; d /= ($1 < 0 ? -$1 : $1); if (!(d <= most)) most = d; n++ }
    END { printf "%s: %d steps, largest difference of the losses %.2g, allowed %g\n", names, n, most, limit
          exit !(n == steps && most <= limit) }'
}
steps() {
  local status=0
  "$bin/saccade" data shapes --output "$work/data" --images 16 --seed 1 > /dev/null &&
    run cpu cpu f32 && run gpu cuda f32 && run again cuda f32 || return 1
  compare cpu gpu 1e-3 || status=1
  if cmp "$work/gpu/checkpoints/last.safetensors" "$work/again/checkpoints/last.safetensors"; then
    echo "two runs on the GPU: equal bytes"
  else
    status=1
  fi
  # tf32 keeps 10 bits of a product's factors, bf16 7 of everything: the curves stay near, no more.
  { run tf32 cuda tf32 && compare gpu tf32 0.02; } || status=1
  { run cpu16 cpu bf16 && run gpu16 cuda bf16 && compare cpu16 gpu16 0.05; } || status=1
  return "$status"
}
sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer) || sanitizer=
sanitize() { # tool
  SACCADE_FAST=1 "$sanitizer" --tool "$1" --error-exitcode 1 --log-file "$work/$1" \
    "$bin/test_autograd" --gtest_brief=1 --gtest_filter='*.cuda' > "$work/log" 2>&1 ||
    { tail -n 20 "$work/$1" "$work/log"; return 1; }
  tail -n 1 "$work/$1"
}
memcheck() { sanitize memcheck; }
racecheck() { sanitize racecheck; }

date -u
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2> /dev/null || echo "no nvidia-smi"
summary=() status=0
for part in "${parts[@]}"; do
  printf '\n== %s (%d s so far)\n' "$part" "$SECONDS"
  begin=$SECONDS
  if [[ " ${left_out[*]} " == *" $part "* ]]; then
    verdict="left out"
  elif [[ $part == *check && -z $sanitizer ]]; then
    verdict="not run: compute-sanitizer is not installed"
  elif "$part"; then
    verdict="passed"
  else
    verdict="FAILED" status=1
  fi
  summary+=("$(printf '%-10s %4d s  %s' "$part" $((SECONDS - begin)) "$verdict")")
done
printf '\n== %d s\n' "$SECONDS"
printf '%s\n' "${summary[@]}"
exit $status
