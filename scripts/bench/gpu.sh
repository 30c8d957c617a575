#!/usr/bin/env bash
# Runs the same detectors here and in PyTorch on this machine's GPU, in turn, and prints a table of ratios:
# training steps and inference of Deformable DETR R50 and DETR R50, with all auxiliary losses, at 800 x 1066
# and over padded batches of varying sizes, with PyTorch eager and compiled, of which the faster counts; peak
# memory; and the time of multi-scale deformable attention. Needs a Python with torch and transformers
# (PYTHON, default python3) and a build with -DSACCADE_BENCH=ON, or the folder that scripts/package.sh makes.
# Usage: scripts/bench/gpu.sh [--log FOLDER] [--stages train,infer,varying,compiled,msda]
#                             [--models deformable_detr,detr,rt_detr_r18] [--precisions bf16,tf32,f32]
#                             [--rounds 1] [--steps 25] [--limit 540] [--rehearse]
#   --log: keeps the raw lines there; a later call with the same folder adds to them, and its table shows all
#   --limit: seconds per stage; runs that do not fit are reported as not run
#   --rehearse: tiny sizes on the CPU, to try the script
set -euo pipefail
cd "$(dirname "$0")/../.."

log='' rounds=1 steps=25 stages=train,infer,varying,compiled,msda models=deformable_detr,detr precisions=bf16,tf32,f32 limit=540
device=cuda size=(--height 800 --width 1066) batches="1 8" train_batch=4 sizes=scripts/bench/coco_batches.txt
while [ $# -gt 0 ]; do
  case "$1" in
    --log) log=${2:?} ; shift ;;
    --rounds) rounds=${2:?} ; shift ;;
    --steps) steps=${2:?} ; shift ;;
    --stages) stages=${2:?} ; shift ;;
    --models) models=${2:?} ; shift ;;
    --precisions) precisions=${2:?} ; shift ;;
    --limit) limit=${2:?} ; shift ;;
    --rehearse) device=cpu rounds=1 steps=2 size=(--height 64 --width 96) batches=1 train_batch=1 sizes=rehearsal ;;
    *)
      echo "error: gpu.sh: unknown argument $1, expected --log, --stages, --models, --precisions, --rounds, --steps, --limit or" \
        "--rehearse" >&2
      exit 2 ;;
  esac
  shift
done
for stage in ${stages//,/ }; do
  [[ " train infer varying compiled msda " == *" $stage "* ]] || { echo "error: gpu.sh: no stage $stage" >&2; exit 2; }
done
if [ -x bin/saccade ]; then bin=bin; else bin=${BUILD:-build}; fi
python=${PYTHON:-python3}
if [ ! -x "$bin/detector_bench" ]; then
  echo "error: gpu.sh: no $bin/detector_bench (configure with -DSACCADE_BENCH=ON)" >&2
  exit 2
fi
work=$(mktemp -d)
[ -n "$log" ] || log=$work
mkdir -p "$log"
raw=$log/detectors.jsonl
touch "$raw"
if [ "$sizes" = rehearsal ]; then
  sizes=$work/sizes.txt
  printf '64 96\n96 64\n' > "$sizes"
fi

# Also after an interrupted run or a failed stage: shows what was measured.
table() {
  "$python" scripts/bench/gpu_table.py "$raw" | tee "$log/table.md" || true
  rm -rf "$work"
}
trap table EXIT

{
  date -u
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2> /dev/null || echo "no nvidia-smi"
  "$python" -c 'import torch, transformers
print("torch", torch.__version__, "cudnn", torch.backends.cudnn.version(), "transformers", transformers.__version__)'
} 2>&1 | tee -a "$log/machine.txt" || true

# Writes one line of JSON: what was run, and the program's own line, or the last line of its errors.
status=0
record() { # name, program...
  local name=$1 out left=$((begin + limit - SECONDS))
  shift
  if [ "$left" -le 0 ]; then
    printf '{"run": "%s", "error": "not run: the %d seconds of its stage were over"}\n' "$name" "$limit"
    status=1
  elif out=$(timeout -k 5 "$left" "$@" 2> "$log/stderr"); then
    printf '{"run": "%s", "result": %s}\n' "$name" "$(tail -n 1 <<< "$out")"
  else
    local code=$?
    printf '{"run": "%s", "error": "exit status %d: %s"}\n' "$name" "$code" \
      "$(tail -n 1 "$log/stderr" | tr -d '"\134' | cut -c 1-200)"
    status=1
  fi > "$work/line"
  tee -a "$raw" < "$work/line"
}
config_of() { [[ $1 == *_r[0-9]* ]] && echo "$1" || echo "$1_r50"; }
ours() { # what, model, precision, flags...
  record "$1|$3|saccade" "$bin/detector_bench" --config "configs/$(config_of "$2").textproto" --device "$device" --precision "$3" --steps "$steps" \
    "${@:4}"
}
torch() { # the same
  record "$1|$3|torch" "$python" scripts/bench/torch_detector.py --model "$2" --device "$device" --precision "$3" --steps "$steps" \
    "${@:4}"
}
compiled() { # the same
  record "$1|$3|torch compiled" "$python" scripts/bench/torch_detector.py --compile --model "$2" --device "$device" --precision "$3" \
    --steps "$steps" "${@:4}"
}
each() { # function of a model and a precision
  local model precision
  for model in ${models//,/ }; do
    for precision in ${precisions//,/ }; do "$1" "$model" "$precision"; done
  done
}
train() {
  local flags=("$1, training, batch $train_batch" "$1" "$2" --batch "$train_batch" "${size[@]}")
  ours "${flags[@]}"
  torch "${flags[@]}"
}
infer() {
  local batch
  for batch in $batches; do
    local flags=("$1, inference, batch $batch" "$1" "$2" --batch "$batch" --infer "${size[@]}")
    ours "${flags[@]}"
    torch "${flags[@]}"
  done
}
varying() {
  local flags=("$1, training, padded batches of $train_batch" "$1" "$2" --batch "$train_batch" --sizes "$sizes")
  ours "${flags[@]}"
  torch "${flags[@]}"
}
# After the others, since each takes a minute to start; batch 1 stands for inference.
compiled_runs() {
  compiled "$1, training, batch $train_batch" "$1" "$2" --batch "$train_batch" "${size[@]}"
  compiled "$1, inference, batch 1" "$1" "$2" --batch 1 --infer "${size[@]}"
}
msda() {
  [ $device = cuda ] || { echo "deformable attention alone: on a GPU only"; return; }
  left() { echo $((begin + limit > SECONDS ? begin + limit - SECONDS : 1)); }
  local kind
  for kind in "" bf16 compile "bf16 compile"; do
    # shellcheck disable=SC2086
    timeout "$(left)" "$python" scripts/bench/msda_torch.py 20 cuda $kind || { echo "msda_torch.py $kind failed"; status=1; }
  done > "$log/msda_torch.txt" 2>&1
  cat "$log/msda_torch.txt"
  timeout "$(left)" "$bin/gpu_msda_bench" > "$log/msda.txt" 2>&1 || { echo "gpu_msda_bench failed"; status=1; }
  timeout "$(left)" "$bin/gpu_msda_bench" 20 cold >> "$log/msda.txt" 2>&1 || { echo "gpu_msda_bench failed"; status=1; }
  cat "$log/msda.txt"
}

for stage in ${stages//,/ }; do
  printf '\n== %s (%d s so far)\n' "$stage" "$SECONDS"
  begin=$SECONDS
  for _ in $(seq "$rounds"); do
    case "$stage" in
      compiled) each compiled_runs ;;
      msda) msda ;;
      *) each "$stage" ;;
    esac
  done
done
echo
exit $status
