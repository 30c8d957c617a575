#!/usr/bin/env bash
# Does fine-tuning pay? Trains the quick start's model on BCCD (or another folder) from a checkpoint of the
# synthetic shapes and from random weights, for the same number of steps, and prints both APs. By default the
# checkpoint is that of scripts/quickstart.sh.
# Usage: scripts/experiments/fine_tune.sh FOLDER [CHECKPOINT [STEPS]]
#   SACCADE: the program, SACCADE_ARGS: more arguments of train
set -euo pipefail
data=$1 from=${2:-runs/quickstart/checkpoints/best.safetensors} steps=${3:-735}
saccade=${SACCADE:-build/saccade}
read -ra more <<<"${SACCADE_ARGS:-}"
for start in shapes random; do
  run=runs/fine_tune_$start
  rm -rf "$run"
  init=()
  [ "$start" = random ] || init=(--init-from "$from")
  "$saccade" train --data "$data" --model quickstart "${init[@]}" --output "$run" "${more[@]}" \
    --set data.batch_size=4 --set optimizer.learning_rate=6e-4 --set data.augment.vertical_flip=0.5 \
    --set data.augment.height=288 --set data.augment.width=384 --set data.val_height=288 --set data.val_width=384 \
    --set train.epochs=0 --set train.max_steps="$steps" --set train.eval_every_epochs=0 --set data.cache_mb=512 >"$run.log"
  echo "from $start: $(grep '^evaluation' "$run.log")"
done
