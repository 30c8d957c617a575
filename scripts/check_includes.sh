#!/usr/bin/env bash
# Fails on an include that runs against the direction of the rooms (docs/architecture.md), on protobuf or the schema anywhere
# but in train (and tests), and on a header named without its folder. Prints file:line:text.
set -euo pipefail
cd "$(dirname "$0")/.."

# Each room, and the rooms beside itself that it may include ("core" stands for all of its rooms). A file belongs to the longest
# room that its path begins with.
library="core autograd layers models data"
rooms=(
  "core/tensor"
  "core/types: core/tensor"
  "core/runtime: core/tensor"
  "core/kernels: core/tensor core/types core/runtime"
  "core/formats: core/tensor"
  "autograd: core"
  "layers: core autograd"
  "models: core autograd layers"
  "data/images: core"
  "data/formats: core data/images"
  "data/augment: core data/images"
  "data/loading: core data/images data/formats data/augment"
  "data/evaluation: core data/formats"
  "train/logs: core"
  "train/optimizers: core autograd layers"
  "train/config: $library train/optimizers configs"
  "train/checkpoints: $library train/config train/optimizers"
  "train/inference: $library train/config"
  "train/loop: $library train/config train/optimizers train/logs train/checkpoints"
  "train/detection: $library train/config train/logs train/checkpoints train/inference train/loop"
  "train/classification: $library train/config train/logs train/checkpoints train/inference train/loop"
  "train/commands: $library train"
  "train: train/commands"
  "tests: $library train configs"
)
# Single includes against the direction, each with its reason.
exceptions=(
  "core/tensor/tensor.cpp core/kernels/copy/copy.h"  # a copy is a kernel
)

declare -A allowed
for line in "${rooms[@]}"; do
  room=${line%%:*}
  list=$room
  [ "$line" = "$room" ] || list="$room ${line#*: }"
  allowed[$room]=${list// /|}
done

failed=0
checked=0
while IFS= read -r file; do
  checked=$((checked + 1))
  room=""
  for name in "${!allowed[@]}"; do
    [[ $file == "$name"/* && ${#name} -gt ${#room} ]] && room=$name
  done
  if [ -z "$room" ]; then
    echo "error: $file lies in no room of scripts/check_includes.sh" >&2
    failed=1
    continue
  fi
  while IFS=: read -r number text; do
    [ -n "$number" ] || continue
    header=${text#*\"}
    header=${header%%\"*}
    [[ $header =~ ^(${allowed[$room]})/ ]] && continue
    [[ " ${exceptions[*]} " == *" $file $header "* ]] && continue
    echo "error: $file:$number: $header; $room may include only ${allowed[$room]//|/, } (headers named from the root)" >&2
    failed=1
  done < <(grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$file" || true)
  case "$room" in
    train* | tests) ;;
    *)
      if grep -nHE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"](google/protobuf|configs/)' "$file" >&2; then
        echo "error: $room knows nothing of protobuf" >&2
        failed=1
      fi
      ;;
  esac
done < <(git ls-files -- core autograd layers models data train tests | grep -E '\.(h|cpp|cu|cuh)$')
[ $failed = 0 ] && echo "includes: $checked files follow the direction of the rooms"
exit $failed
