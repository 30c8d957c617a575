#!/usr/bin/env bash
# Checks the kernels that a step of whole recipes runs on a GPU, alone and with two ranks, without a GPU
# (SACCADE_EMULATOR_DRY=small):
#   * no launch of fewer than 1,024 threads accesses memory more than 1,000 times per thread: that is a
#     millisecond in which the GPU idles. Exceptions are listed in tests/cuda/small_launches.tsv with their
#     reasons.
#   * the generic kernels, which are written with one thread per index and not for coalesced access, are those
#     of tests/cuda/generic_kernels.tsv, by recipe. A new one in a step needs a tuned kernel, or a line there.
# Usage: scripts/checks/check_small_launches.sh BUILD [--write | --all [RECIPE...]]
#   an emulated build with detector_bench
#   --write: writes generic_kernels.tsv; --all: every detector's recipe, or these, on larger images, held to
#   the first of the two rules
set -euo pipefail
export LC_ALL=C  # so that the order of lines is the same everywhere
cd "$(dirname "$0")/../.."

build=${1:?the folder of an emulated build}
height=96 width=128
excepted=tests/cuda/small_launches.tsv generic=tests/cuda/generic_kernels.tsv
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
port=29$((RANDOM % 900 + 100))

step() { # recipe, batch, ranks, more options
  local recipe=$1 batch=$2 ranks=$3 rank
  shift 3
  local name="$recipe${*:+ $*}" log=$work/log.$recipe.$ranks.$#
  [ "$ranks" = 1 ] || name+=", $ranks ranks"
  for ((rank = 0; rank < ranks; ++rank)); do
    local own=()
    [ "$ranks" = 1 ] || own=(--rank "$rank" --ranks "$ranks" --master "127.0.0.1:$port")
    SACCADE_EMULATOR_GPUS=$ranks SACCADE_EMULATOR_DRY=small SACCADE_EMULATOR_KERNELS=$log OMP_NUM_THREADS=1 \
      "$build/detector_bench" --config "configs/$recipe.textproto" --device cuda --precision bf16 --batch "$batch" \
      --height $height --width $width --steps 2 "$@" "${own[@]}" > /dev/null &
  done
  for ((rank = 0; rank < ranks; ++rank)); do wait -n; done
  port=$((port + 1))
  # The names of generic kernels are the places of their launches, whose line numbers change.
  sed -E -i 's#^([0-9]+ [0-9]+ [0-9]+) .*(core/[^:]+):[0-9]+$#\1 \2#' "$log"
  awk -v name="$name" '$4 ~ /^core\// { print name "\t" $4 }' "$log" >> "$work/generic"
  awk -v name="$name" '$2 > 0 && $3 > 1000 { print $4 "\t" name ": " $2 " threads, one of them with " $3 " accesses" }' "$log" \
    >> "$work/small"
  echo "$name: $(awk '{ kernels += $1 } END { print kernels }' "$log") launches"
}

failed=0
touch "$work/small"
if [ "${2:-}" = --all ]; then
  height=320 width=416
  recipes=("${@:3}")
  [ $# -gt 2 ] || recipes=(configs/*.textproto)
  for recipe in "${recipes[@]}"; do
    recipe=configs/$(basename "$recipe" .textproto).textproto
    ! grep -Eq '^  type: "(classifier|semantic_fpn|uper_net)"' "$recipe" || continue
    recipe=$(basename "$recipe" .textproto)
    step "$recipe" 2 1
    step "$recipe" 1 1 --infer
  done
else
  step deformable_detr_r50 4 1
  step deformable_detr_r50_two_stage 4 1
  step detr_r50 4 1
  step deformable_detr_dat_t 4 1
  step rt_detr_r18 4 1
  step mask_rcnn_r50 2 1
  step retinanet_r50 2 1
  step dfine_s 4 1
  step rf_detr_n 4 1
  step deformable_detr_r50 1 1 --infer
  step mask_rcnn_r50 1 1 --infer
  step retinanet_r50 1 1 --infer
  step deformable_detr_r50 2 2
  step rt_detr_r18 2 2
  sort -u "$work/generic" > "$work/generic.sorted"
  [ "${2:-}" != --write ] || cp "$work/generic.sorted" "$generic"
  if ! diff -u "$generic" "$work/generic.sorted"; then
    echo "error: check_small_launches.sh: the generic kernels differ from $generic (+: not listed there)" >&2
    failed=1
  fi
fi
while IFS=$'\t' read -r kernel what; do
  if ! grep -q "^$kernel"$'\t' "$excepted"; then
    echo "error: check_small_launches.sh: $kernel leaves the GPU idle: $what" >&2
    failed=1
  fi
done < <(sort -u "$work/small")
while IFS=$'\t' read -r kernel _; do
  if [ "${2:-}" != --all ] && ! grep -q "^$kernel"$'\t' "$work/small"; then
    echo "error: check_small_launches.sh: $kernel needs no line in $excepted" >&2
    failed=1
  fi
done < <(tail -n +2 "$excepted")
exit $failed
