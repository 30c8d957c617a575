#!/usr/bin/env bash
# The ablations of the DAT paper (Xia et al. 2022) on a small set: Table 6 (offsets on and off, the kinds of
# position encoding, and PVT's attention in the stages without offsets, row P) and Table 7 (which stages are
# deformable). Trains configs/sign_digits.textproto in every variation, one after the other, and prints the
# table.
# Usage: scripts/experiments/ablation.sh [--data FOLDER] [--steps N] [--seeds N] [--output FOLDER]
# The data folder holds train/ and val/ with one sub-folder of images per class.
set -euo pipefail
cd "$(dirname "$0")/../.."

data=../shared/data/sign_digits_cls steps=1500 seeds=1 output=runs/ablation
while [ $# -gt 0 ]; do
  case "$1" in
    --data | --steps | --seeds | --output)
      [ $# -gt 1 ] || { echo "error: ablation.sh: $1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2"
      shift 2
      ;;
    *) echo "error: ablation.sh: unknown argument $1, expected --data, --steps, --seeds or --output" >&2; exit 2 ;;
  esac
done
[ -x build/saccade ] || { echo "error: ablation.sh: build/saccade is not built, expected scripts/setup.sh and a build" >&2; exit 2; }

# name|blocks|attention of the D blocks
variations=(
  "no offsets, no encoding|LS LD LD|offsets:false position:none"
  "no offsets, relative|LS LD LD|offsets:false position:relative"
  "offsets, no encoding|LS LD LD|position:none"
  "offsets, fixed|LS LD LD|position:fixed"
  "offsets, depthwise|LS LD LD|position:depthwise"
  "offsets, relative (DAT)|LS LD LD|position:relative"
  "spatial reduction (row P)|PP LD LD|position:relative"
  "deformable: no stage|LS LS LS|"
  "deformable: stage 3|LS LS LD|position:relative"
  "deformable: stages 1, 2, 3|LD LD LD|position:relative"
)

mkdir -p "$output"
rows=()
for variation in "${variations[@]}"; do
  IFS='|' read -r name blocks switches <<< "$variation"
  slug=$(tr -cs 'a-z0-9' '-' <<< "$name" | sed 's/-*$//')
  attention='type: "dmha"'
  for switch in $switches; do
    key=${switch%%:*} value=${switch#*:}
    case "$value" in
      true | false) attention+=" arg { key: \"$key\" bool: $value }" ;;
      *) attention+=" arg { key: \"$key\" string: \"$value\" }" ;;
    esac
  done
  config=$output/$slug.textproto
  sed -e "s/arg { key: \"blocks\".*/arg { key: \"blocks\" string: \"$blocks\" }/" \
    -e "s/^    type: \"dat\"\$/    type: \"dat\"\n    attention { $attention }/" configs/sign_digits.textproto > "$config"
  top1=()
  for ((seed = 1; seed <= seeds; ++seed)); do
    run=$output/$slug-$seed
    if [ ! -f "$run.done" ]; then
      rm -rf "$run"
      build/saccade train --config "$config" --output "$run" --set "data.train.images=$data/train" \
        --set "data.val.images=$data/val" --set "train.max_steps=$steps" --set "seed=$seed" > "$run.log" 2>&1 ||
        { tail -n 5 "$run.log" >&2; exit 1; }
      touch "$run.done"
    fi
    top1+=("$(grep '"type": *"eval"' "$run/metrics.jsonl" | tail -n 1 | grep -o '"top1": *[0-9.e+-]*' | grep -o '[0-9.e+-]*$')")
  done
  build/saccade summary --config "$config" --set model.num_classes=10 --height 64 --width 64 --json "$run.json" > "$run.summary"
  parameters=$(grep -o '"parameters": *[0-9]*' "$run.json" | grep -o '[0-9]*$')
  macs=$(grep -o '"macs": *[0-9]*' "$run.json" | grep -o '[0-9]*$')
  rows+=("$(printf '%s\n' "${top1[@]}" | awk -v name="$name" -v p="$parameters" -v m="$macs" '
    { sum += $1; squares += $1 * $1 }
    END {
      mean = sum / NR; spread = squares / NR - mean * mean
      note = (NR == 1) ? "" : sprintf(" +- %.1f", 100 * sqrt(spread < 0 ? 0 : spread))
      printf("| %-28s | %9d | %6.1f M | %5.1f %%%s |", name, p, m / 1e6, 100 * mean, note)
    }')")
  echo "${rows[-1]}"
done
printf '\n| %-28s | %9s | %8s | %s |\n| --- | --- | --- | --- |\n' variation parameters MACs "top-1, $seeds x $steps steps"
printf '%s\n' "${rows[@]}"
