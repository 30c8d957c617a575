#!/usr/bin/env bash
# Runs the tests of the CUDA backend on this machine's GPU, in stages of at most nine minutes each: raw
# kernels, every op, every attention layer and tiny models of every kind against the CPU, whole training steps
# in f32, tf32 and bf16, the detections of a checkpoint, two runs with equal bits, and the op table again
# under compute-sanitizer if that is installed. Runs from the folder that scripts/package.sh makes, or from a
# checkout with a build in build/ (BUILD=...). Tests run in several processes at once, so that a crash costs
# one test; failed tests run again alone (scripts/gpu/run_tests.py, which needs python3). All stages run, also
# after a failed one. A table follows at the end, also of an interrupted run; the exit status is 0 if all
# passed.
# Usage: scripts/gpu_test.sh [--log FOLDER] [--quick | --rehearse] [--plant] [--jobs 8]
#                            [--limit 540] [STAGE...]
#   --log: keeps the table and every log there     --limit: seconds per stage
#   --quick: without compute-sanitizer             --rehearse: small samples and models, for the emulated GPU
#   --plant: with a test that fails and one that crashes, to check that they are reported
#   STAGE: only these of kernels, ops, layers, models, training, steps, memcheck, racecheck
set -euo pipefail
cd "$(dirname "$0")/.."

all=(kernels ops layers models training steps memcheck racecheck)
stages=() left_out=() steps=50 small=() log='' jobs=8 limit=540 plant=()
while [ $# -gt 0 ]; do
  case "$1" in
    --log) log=${2:?} ; shift ;;
    --jobs) jobs=${2:?} ; shift ;;
    --limit) limit=${2:?} ; shift ;;
    --plant) plant=(--plant) ;;
    --quick) left_out=(memcheck racecheck) ;;
    --rehearse)
      left_out=(memcheck racecheck) steps=3 jobs=2
      export SACCADE_FAST=1
      small=(--set model.transformer.hidden_dim=32 --set model.transformer.heads=4 --set model.transformer.ffn_dim=32
        --set model.backbone.width=8 --set data.augment.height=64 --set data.augment.width=64) ;;
    kernels | ops | layers | models | training | steps | memcheck | racecheck) stages+=("$1") ;;
    *)
      echo "error: gpu_test.sh: unknown argument $1, expected --log, --quick, --rehearse, --plant, --jobs, --limit or one of ${all[*]}" >&2
      exit 2 ;;
  esac
  shift
done
[ ${#stages[@]} -gt 0 ] || stages=("${all[@]}")
if [ -x bin/saccade ]; then bin=bin; else bin=${BUILD:-build}; fi
for program in saccade test_core test_autograd test_layers test_models test_train; do
  [ -x "$bin/$program" ] || { echo "error: gpu_test.sh: no $bin/$program; build the checkout first" >&2; exit 2; }
done
work=$(mktemp -d)
[ -n "$log" ] || log=$work/log
mkdir -p "$log"
summary=() status=0
# Also if the call is interrupted: findings must not be lost.
finish() {
  printf '\n== %d s\n' "$SECONDS"
  [ ${#summary[@]} -eq 0 ] || printf '%s\n' "${summary[@]}" | tee "$log/table.txt"
  rm -rf "$work"
}
trap finish EXIT
trap 'summary+=("cut short in stage $stage"); exit 130' INT TERM HUP

# A skipped test has not passed, nor has a filter that matches none: this machine's GPU is what is tested.
tests() { # name, program, filter, more arguments of run_tests.py
  local share=$((begin + limit - SECONDS))
  python3 scripts/gpu/run_tests.py --name "$1" --log "$log" --jobs "$jobs" --limit "$share" "${@:4}" "$bin/$2" "$3"
}
kernels() { tests kernels test_core 'RawKernels.*:Tf32Attention.*'; }
ops() { tests ops test_autograd '*.cuda*:MsDeformAttnOnGpu.*' "${plant[@]}"; }
layers() { tests layers test_layers '*Cuda*'; }
models() { tests models test_models 'Cuda*'; }
training() { tests training test_train 'Cuda*-CudaErrors*'; }

run() { # name, device, precision
  timeout --foreground $((begin + limit - SECONDS)) "$bin/saccade" train --config configs/quickstart.textproto --output "$work/$1" --device "$2" \
    --max-steps "$steps" "${small[@]}" \
    --set "precision=$3" --set data.batch_size=2 --set train.log_every=1 --set schedule.warmup_steps=10 --set optimizer.learning_rate=1e-4 \
    --set "data.train.annotations=$work/data/annotations.json" --set "data.train.images=$work/data/images" \
    --set "data.val.annotations=$work/data/annotations.json" --set "data.val.images=$work/data/images" > "$log/$1.log" 2>&1 ||
    { tail -n 5 "$log/$1.log"; return 1; }
  cp "$work/$1/metrics.jsonl" "$log/$1.jsonl"
}
# With the recipe's rate of 1e-3, two CPUs with and without AVX-512 differ by 1.8e-3 after 20 steps; with
# 1e-4, by 2.8e-4 after 50.
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
  # tf32 keeps 10 bits of a product's factors, bf16 keeps 7 of everything: the curves stay close, but no more.
  { run tf32 cuda tf32 && compare gpu tf32 0.02; } || status=1
  { run cpu16 cpu bf16 && run gpu16 cuda bf16 && compare cpu16 gpu16 0.05; } || status=1
  return "$status"
}
sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer) || sanitizer=
sanitize() { # tool
  SACCADE_FAST=1 tests "$1" test_autograd '*.cuda:MsDeformAttnOnGpu.EqualsTheCpu' --prefix "$sanitizer --tool $1 $2" \
    --bad '^=========  *(Invalid|Error|Race|Misaligned|Program hit|Warning)'
}
# Queries of events that have not happened yet are not errors.
memcheck() { sanitize memcheck '--report-api-errors no'; }
racecheck() { sanitize racecheck ''; }

{
  date -u
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2> /dev/null || echo "no nvidia-smi"
  "$bin/saccade" --version
} | tee "$log/machine.txt"
for stage in "${stages[@]}"; do
  printf '\n== %s (%d s so far)\n' "$stage" "$SECONDS"
  begin=$SECONDS
  if [[ " ${left_out[*]} " == *" $stage "* ]]; then
    verdict="left out"
  elif [[ $stage == *check && -z $sanitizer ]]; then
    verdict="not run: compute-sanitizer is not installed"
  elif "$stage" 2>&1 | tee "$log/$stage.txt"; then
    verdict="passed"
  else
    verdict="FAILED" status=1
  fi
  found=$(tail -n 1 "$log/$stage.txt" 2> /dev/null) || found=
  summary+=("$(printf '%-10s %4d s  %s%s' "$stage" $((SECONDS - begin)) "$verdict" "${found:+   $found}")")
done
exit $status
