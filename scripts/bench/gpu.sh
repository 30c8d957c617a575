#!/usr/bin/env bash
# The same detectors side by side with PyTorch on the GPU of this machine, in turns, and a table of ratios: training steps and
# inference of Deformable DETR R50 and DETR R50 at 800 x 1066 in f32, tf32 and bf16, peak memory, and the time of
# multi-scale deformable attention. Needs a Python with torch and transformers (PYTHON, default python3) and a build with
# -DSACCADE_BENCH=ON, or the folder that scripts/package.sh makes.
# Usage: scripts/bench/gpu.sh [--log FOLDER] [--rounds 2] [--steps 25] [--only train,infer,msda] [--rehearse]
#   --log: keeps the raw lines there     --rehearse: tiny sizes on the CPU, to try the script
set -euo pipefail
cd "$(dirname "$0")/../.."

log='' rounds=2 steps=25 only=train,infer,msda device=cuda size=(--height 800 --width 1066) batches="1 8" train_batch=4
while [ $# -gt 0 ]; do
  case "$1" in
    --log) log=${2:?} ; shift 2 ;;
    --rounds) rounds=${2:?} ; shift 2 ;;
    --steps) steps=${2:?} ; shift 2 ;;
    --only) only=${2:?} ; shift 2 ;;
    --rehearse) device=cpu rounds=1 steps=2 size=(--height 64 --width 96) batches=1 train_batch=1 ; shift ;;
    *) echo "error: gpu.sh: unknown argument $1" >&2; exit 2 ;;
  esac
done
if [ -x bin/saccade ]; then bin=bin; else bin=${BUILD:-build}; fi
python=${PYTHON:-python3}
if [ ! -x "$bin/detector_bench" ]; then
  echo "error: gpu.sh: no $bin/detector_bench (configure with -DSACCADE_BENCH=ON)" >&2
  exit 2
fi
if [ -z "$log" ]; then
  log=$(mktemp -d)
  trap 'rm -rf "$log"' EXIT
fi
mkdir -p "$log"
raw=$log/detectors.jsonl
: > "$raw"

{
  date -u
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2> /dev/null || echo "no nvidia-smi"
  "$python" -c 'import torch, transformers
print("torch", torch.__version__, "cudnn", torch.backends.cudnn.version(), "transformers", transformers.__version__)'
} | tee "$log/machine.txt"

# One line of JSON: what was run, and the program's own line, or the last line of its errors.
record() { # name, program...
  local name=$1 out
  shift
  if out=$("$@" 2> "$log/stderr"); then
    printf '{"run": "%s", "result": %s}\n' "$name" "$(tail -n 1 <<< "$out")"
  else
    printf '{"run": "%s", "error": "%s"}\n' "$name" "$(tail -n 1 "$log/stderr" | tr -d '"\134' | cut -c 1-200)"
  fi | tee -a "$raw"
}
pair() { # name, model, precision, flags...
  local name=$1 model=$2 precision=$3
  shift 3
  record "$name|$precision|saccade" "$bin/detector_bench" --config "configs/${model}_r50.textproto" --device "$device" \
    --precision "$precision" --steps "$steps" "${size[@]}" "$@"
  record "$name|$precision|torch" "$python" scripts/bench/torch_detector.py --model "$model" --device "$device" \
    --precision "$precision" --steps "$steps" "${size[@]}" "$@"
}
has() { [[ ,$only, == *,$1,* ]]; }

for _ in $(seq "$rounds"); do
  for model in deformable_detr detr; do
    for precision in f32 tf32 bf16; do
      if has train; then pair "$model, training, batch $train_batch" "$model" "$precision" --batch "$train_batch"; fi
      for batch in $batches; do
        if has infer; then pair "$model, inference, batch $batch" "$model" "$precision" --batch "$batch" --infer; fi
      done
    done
  done
done
if has msda && [ $device = cuda ]; then
  for kind in "" bf16 compile "bf16 compile"; do
    # shellcheck disable=SC2086
    "$python" scripts/bench/msda_torch.py 20 cuda $kind || echo "msda_torch.py $kind failed"
  done 2>&1 | tee "$log/msda_torch.txt"
  "$bin/gpu_msda_bench" | tee "$log/msda.txt"
fi

"$python" - "$raw" << 'EOF'
import collections
import json
import sys

best, failed = collections.defaultdict(dict), []
for line in open(sys.argv[1]):
    entry = json.loads(line)
    what, precision, who = entry["run"].split("|")
    if "error" in entry:
        failed.append(f'{entry["run"]}: {entry["error"]}')
        continue
    row, result = best[what, precision], entry["result"]
    if who not in row or result["ms"] < row[who]["ms"]:
        row[who] = result
if best:
    print("| | precision | PyTorch ms | saccade ms | faster | PyTorch GiB | saccade GiB | share |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
for (what, precision), row in best.items():
    if len(row) == 2:
        s, t = row["saccade"], row["torch"]
        share = f'{100 * s["peak_bytes"] / t["peak_bytes"]:.0f} %' if t["peak_bytes"] else "-"
        print(f'| {what} | {precision} | {t["ms"]:.2f} | {s["ms"]:.2f} | **{t["ms"] / s["ms"]:.2f}x** | '
              f'{t["peak_bytes"] / 2**30:.2f} | {s["peak_bytes"] / 2**30:.2f} | {share} |')
for line in failed:
    print("failed:", line)
sys.exit(1 if failed else 0)
EOF
