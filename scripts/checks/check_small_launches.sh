#!/usr/bin/env bash
# Checks the kernels that a step of whole recipes runs on a GPU, alone and with two ranks, without a GPU
# (SACCADE_EMULATOR_DRY=small):
#   * no launch of fewer than 1,024 threads accesses memory more than 1,000 times per thread: that is a
#     millisecond in which the GPU idles. Exceptions are listed in tests/cuda/small_launches.tsv with their
#     reasons.
#   * the generic kernels, which are written with one thread per index and not for coalesced access, are those
#     of tests/cuda/generic_kernels.tsv, by recipe. A new one in a step needs a tuned kernel, or a line there.
# Usage: scripts/checks/check_small_launches.sh BUILD [--write] [--all [RECIPE...]]
#   an emulated build with detector_bench, and for --all classifier_bench and segmenter_bench
#   --all: every recipe, or these, on larger images. A generic kernel of any of them must be in
#   generic_kernels.tsv, of whichever recipe; those of none of the recipes of a run without --all are there as
#   "other recipes".
#   --write: writes generic_kernels.tsv, without --all all lines except those of "other recipes", with --all
#   those. To record the whole file, build as scripts/checked_tests.sh does, then run both:
#     scripts/checks/check_small_launches.sh build-checked --write
#     scripts/checks/check_small_launches.sh build-checked --write --all
set -euo pipefail
export LC_ALL=C  # so that the order of lines is the same everywhere
cd "$(dirname "$0")/../.."

build=${1:?the folder of an emulated build}
shift
writes=0 all=0
[ "${1:-}" != --write ] || { writes=1 && shift; }
[ "${1:-}" != --all ] || { all=1 && shift; }
if [ $# -gt 0 ] && [ $all$writes != 10 ]; then
  echo "error: check_small_launches.sh: $*, expected BUILD [--write] [--all], or recipes after --all alone" >&2
  exit 2
fi
height=96 width=128
excepted=tests/cuda/small_launches.tsv generic=tests/cuda/generic_kernels.tsv others="other recipes"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
port=29$((RANDOM % 900 + 100))

# Runs the program that times models of a recipe's kind.
bench() { # recipe, batch, more options
  local recipe=$1 batch=$2 program=segmenter sizes=(--size "$width")
  shift 2
  case $(sed -n 's/^  type: "\(.*\)"/\1/p' "configs/$recipe.textproto" | head -n 1) in
    classifier) program=classifier sizes=() ;;  # 224 pixels, which some backbones need
    semantic_fpn | uper_net) ;;
    *) program=detector sizes=(--height "$height" --width "$width") ;;
  esac
  "$build/${program}_bench" --config "configs/$recipe.textproto" --device cuda --precision bf16 --batch "$batch" --steps 2 \
    "${sizes[@]}" "$@"
}

step() { # recipe, batch, ranks, more options
  local recipe=$1 batch=$2 ranks=$3 rank
  shift 3
  local name="$recipe${*:+ $*}" log=$work/log.$recipe.$ranks.$#
  [ "$ranks" = 1 ] || name+=", $ranks ranks"
  for ((rank = 0; rank < ranks; ++rank)); do
    local own=()
    [ "$ranks" = 1 ] || own=(--rank "$rank" --ranks "$ranks" --master "127.0.0.1:$port")
    SACCADE_EMULATOR_GPUS=$ranks SACCADE_EMULATOR_DRY=small SACCADE_EMULATOR_KERNELS=$log OMP_NUM_THREADS=1 \
      bench "$recipe" "$batch" "$@" "${own[@]}" > /dev/null &
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
touch "$work/small" "$work/generic"
# The lines of the other recipes, and the rest.
awk -F'\t' -v others="$others" '$1 == others' "$generic" > "$work/others"
awk -F'\t' -v others="$others" '$1 != others' "$generic" > "$work/named"
if [ $all = 1 ]; then
  height=320 width=416
  recipes=("$@")
  [ $# -gt 0 ] || recipes=(configs/*.textproto)
  for recipe in "${recipes[@]}"; do
    recipe=$(basename "$recipe" .textproto)
    batch=2
    ! grep -q '^  type: "classifier"' "configs/$recipe.textproto" || batch=16  # nobody trains one on two images
    step "$recipe" $batch 1
    step "$recipe" 1 1 --infer
  done
  sort -u "$work/generic" | awk -F'\t' 'NR == FNR { named[$2]; next } !($2 in named)' "$work/named" - > "$work/more"
  if [ $writes = 1 ]; then
    awk -F'\t' -v others="$others" '{ print others "\t" $2 }' "$work/more" | sort -u > "$work/others"
    sort "$work/named" "$work/others" > "$generic"
  fi
  while IFS=$'\t' read -r name kernel; do
    if ! grep -Fqx "$others"$'\t'"$kernel" "$work/others"; then
      echo "error: check_small_launches.sh: $name runs $kernel, a generic kernel that $generic does not have" >&2
      failed=1
    fi
  done < "$work/more"
  while IFS=$'\t' read -r _ kernel; do
    if [ $# = 0 ] && ! grep -q $'\t'"$kernel\$" "$work/more"; then
      echo "error: check_small_launches.sh: $kernel needs no line of \"$others\" in $generic" >&2
      failed=1
    fi
  done < "$work/others"
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
  if [ $writes = 1 ]; then
    cp "$work/generic.sorted" "$work/named"
    sort "$work/named" "$work/others" > "$generic"
  fi
  if ! diff -u --label "$generic" --label found "$work/named" "$work/generic.sorted"; then
    echo "error: check_small_launches.sh: other generic kernels than in $generic (+: not there)" >&2
    failed=1
  fi
fi
while IFS=$'\t' read -r kernel what; do
  if ! grep -q "^$kernel"$'\t' "$excepted"; then
    echo "error: check_small_launches.sh: $kernel leaves the GPU idle: $what" >&2
    failed=1
  fi
done < <(sort -u "$work/small")
# Which exceptions a run must need: those of "other recipes" with --all, the rest without it.
while IFS=$'\t' read -r kernel _ recipes; do
  of_all=0
  [ "$recipes" != "$others" ] || of_all=1
  if [ $all = $of_all ] && [ $# = 0 ] && ! grep -q "^$kernel"$'\t' "$work/small"; then
    echo "error: check_small_launches.sh: $kernel needs no line in $excepted" >&2
    failed=1
  fi
done < <(tail -n +2 "$excepted")
exit $failed
