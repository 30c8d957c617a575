#!/usr/bin/env bash
# From a fresh clone to a trained detector: installs what is missing, builds the program, draws a synthetic
# data set, trains on it (about five minutes on two cores), prints the COCO metrics and writes pictures of the
# detections. A second run reuses all of it; --force trains again. If there is a GPU it must be used; --cpu
# continues without it.
set -euo pipefail
cd "$(dirname "$0")/.."

force=0 device=auto configure=()
for argument in "$@"; do
  case "$argument" in
    --force) force=1 ;;
    --cpu) device=cpu configure=(--cpu) ;;
    *) echo "error: quickstart.sh: unknown argument $argument, expected --force or --cpu" >&2; exit 2 ;;
  esac
done
started=$SECONDS
config=configs/quickstart.textproto
data=runs/quickstart-data
run=runs/quickstart
say() { printf '\n== %s\n' "$*"; }

say "Set-up and build"
scripts/setup.sh
scripts/configure.sh "${configure[@]}"
cmake --build --preset release --target saccade
# If there is code for this machine's GPU, anything else missing is an error and not a reason to use the CPU.
if grep -q '^SACCADE_CUDA:STRING=auto' build/CMakeCache.txt && grep -q '^SACCADE_CUDA_MISSING:INTERNAL=$' build/CMakeCache.txt; then
  device=cuda
  echo "On the GPU. scripts/quickstart.sh --cpu runs without it."
fi

# Draws a split once: a folder gets its name only when it is complete.
draw() { # name, images, seed
  if [ ! -f "$data/$1/annotations.json" ]; then
    rm -rf "$data/$1.part"
    mkdir -p "$data"
    build/saccade data shapes --output "$data/$1.part" --images "$2" --seed "$3"
    mv "$data/$1.part" "$data/$1"
  fi
}
say "Data: $data (4000 images to train on, 200 others to validate)"
draw train 4000 1
draw val 200 2

# The settings of the run, and that it is finished, are kept next to it.
begun=$run.textproto
finished=$run.finished
say "Training: $run"
if [ $force = 1 ] || ! cmp -s "$begun" "$config"; then
  rm -rf "$run" "$finished"
  mkdir -p runs
  cp "$config" "$begun"
fi
if [ -f "$finished" ]; then
  echo "already trained (scripts/quickstart.sh --force trains again)"
else
  resume=()
  [ -f "$run/checkpoints/last.safetensors" ] && resume=(--resume)
  build/saccade train --config "$config" --output "$run" --device $device "${resume[@]}" \
    --set "data.train.annotations=$data/train/annotations.json" --set "data.train.images=$data/train/images" \
    --set "data.val.annotations=$data/val/annotations.json" --set "data.val.images=$data/val/images"
  touch "$finished"
fi

say "Evaluation on the 200 unseen images"
build/saccade eval --checkpoint "$run/checkpoints/best.safetensors" --device $device --annotations "$data/val/annotations.json" \
  --images "$data/val/images"

say "Pictures of detections"
mapfile -t images < <(find "$data/val/images" -type f | sort | head -n 12)
build/saccade predict --checkpoint "$run/checkpoints/best.safetensors" --device $device --output "$run/predictions" "${images[@]}"

say "Next: your own images"
cat << END
build/saccade data check --data FOLDER      # COCO, YOLO, Pascal VOC, CVAT, LabelMe or CSV
build/saccade train --data FOLDER --model quickstart --init-from $run/checkpoints/best.safetensors --output runs/mine
build/saccade predict --checkpoint runs/mine/checkpoints/best.safetensors --output runs/mine/pictures FOLDER/images
END

printf '\nDone in %d s. Pictures: %s   Checkpoint: %s   Curves: %s\n' $((SECONDS - started)) "$run/predictions" \
  "$run/checkpoints/best.safetensors" "$run/metrics.jsonl"
