#!/usr/bin/env bash
# Runs what .ci/run has no time for at each change, one part after another, also after a failed one; takes
# hours. Each part that has run gets a row in docs/nightly.md with its date, commit and machine, the other
# rows stay: commit that file. .ci/run warns if a row is older than 60 commits. The log of each part is in
# build-nightly/PART.log.
# Usage: scripts/nightly.sh [--short] [PART...]
#   --short: fewer seeds, mutants, trials and seconds; PART: these alone
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

short=0 wanted=()
for argument in "$@"; do
  case $argument in
    --short) short=1 ;;
    -*) echo "error: nightly.sh: unknown argument $argument, expected --short or names of parts" >&2; exit 2 ;;
    *) wanted+=("$argument") ;;
  esac
done
# Chooses a number for a whole run or for a short one.
pick() { if [ $short = 1 ]; then echo "$2"; else echo "$1"; fi; }

mapfile -t known < <(sed -n 's/^part \([^ ]*\) .*/\1/p' scripts/nightly.sh)
for name in "${wanted[@]}"; do
  printf '%s\n' "${known[@]}" | grep -qx -e "$name" || { echo "error: nightly.sh: no part is called $name, expected one of ${known[*]}" >&2; exit 2; }
done

logs=build-nightly table=docs/nightly.md
mkdir -p "$logs"
commit=$(git rev-parse --short=12 HEAD)$(git diff --quiet HEAD -- . ":!$table" || echo ' and changes')
machine="$(nproc) x $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)"
failed=0
part() { # name, what it is, command...
  local name=$1 what=$2 begin=$SECONDS result=passed
  shift 2
  if [ ${#wanted[@]} -gt 0 ] && ! printf '%s\n' "${wanted[@]}" | grep -qx "$name"; then return; fi
  printf '==== %s: %s\n' "$name" "$what"
  (set -e; "$@") > "$logs/$name.log" 2>&1
  case $? in
    0) ;;
    77) result="not run" ;;
    *) result=FAILED failed=1 ;;
  esac
  [ $short = 0 ] || what="$what (short)"
  local row
  row="| $name | $what | $result | $(((SECONDS - begin + 30) / 60)) min | $(tail -n 1 "$logs/$name.log" | cut -c 1-110 | tr '|' ' ') | $(date -u +%F) | $commit | $machine |"
  printf '%s\n' "$row"
  # Written at once, so that a night that is cut short keeps what has run.
  {
    printf '%s\n' '# The last run of each part of scripts/nightly.sh' '' '| part | what | result | time | last line | date | commit | machine |' \
      '| --- | --- | --- | --- | --- | --- | --- | --- |'
    for other in "${known[@]}"; do
      if [ "$other" = "$name" ]; then printf '%s\n' "$row"; else grep -s "^| $other |" "$table"; fi
    done
  } > "$table.new"
  mv "$table.new" "$table"
}

build() {
  scripts/setup.sh --checks --fuzz
  cmake --preset release -DSACCADE_CUDA=auto -DSACCADE_WERROR=ON  # whatever .ci/run has left there
  cmake --build --preset release
}
sanitizers() {
  local -x SACCADE_FAST=1 UBSAN_OPTIONS=print_stacktrace=1
  local -x LSAN_OPTIONS=suppressions=$PWD/scripts/checks/lsan.supp:print_suppressions=0
  cmake --preset asan
  cmake --build --preset asan
  ctest --preset asan -j "$(nproc)"
}
tolerances() {
  scripts/checks/tolerances.sh --check "$logs/largest_errors.inc" --seeds "$(pick 40 5)" build/test_autograd
}
# Nine of ten changes must be noticed (docs/reliability.md says which cannot be).
mutation() {
  rm -f build-mutants/results.jsonl
  scripts/checks/mutate.py --each "$(pick 50 5)"
  awk -F'[|(%]' '/^\| all / { share = $5 + 0 } END { print share " % of the changes are noticed, expected at least 90 %"; exit share < 90 }' \
    "$logs/mutation.log"
}
onnx() {
  [ -d .cache/onnx ] || { echo "onnxruntime could not be fetched" && return 77; }
  .cache/onnx/bin/python scripts/checks/check_onnx.py --height 96 --width 128
}
plans() {
  grep -q '^build conv_plans:' build/build.ninja || { echo "cuDNN was not found" && return 77; }
  cmake --build --preset release --target conv_plans
  build/conv_plans
}
launches() {
  cmake --preset checked -DSACCADE_BENCH=ON
  cmake --build --preset checked --target detector_bench classifier_bench segmenter_bench
  scripts/checks/check_small_launches.sh build-checked --all
}
package() {
  command -v nvcc > /dev/null || [ -x /usr/local/cuda/bin/nvcc ] || { echo "nvcc was not found" && return 77; }
  scripts/package.sh
}

packages() {
  if [ "$(id -u)" != 0 ] || ! command -v debootstrap > /dev/null; then
    echo "an empty Debian needs root and debootstrap"
    return 77
  fi
  scripts/release.sh --draft --try
}

part build "the release build, which the others use" build
part sanitizers "AddressSanitizer and UndefinedBehaviorSanitizer: all tests, CPU and emulated GPU" sanitizers
part threads "ThreadSanitizer: teams, loader, matcher, logs, library" scripts/checks/thread_sanitizer.sh
part fuzz "libFuzzer, $(pick 600 60) s a target" scripts/fuzz.sh "$(pick 600 60)"
part tolerances "the op table's errors over $(pick 40 5) seeds" tolerances
part mutation "$(pick 50 5) changes of each group of sources: do the tests notice?" mutation
part torture "$(pick 100 10) killed and damaged trainings, $(pick 5000 500) steps with every option" \
  scripts/torture.sh --trials "$(pick 100 10)" --steps "$(pick 5000 500)"
part onnx "every recipe's export in onnxruntime" onnx
part costs "the MACs of detectors with a pyramid against the published ones" scripts/checks/check_macs.sh build
part pages "report pages in Chromium request nothing" scripts/checks/check_pages.py build/saccade
part plans "cuDNN's plans for every recipe's convolutions on all described GPUs" plans
part tidy "clang-tidy over the whole tree" scripts/checks/clang_tidy.sh
part toolkits "the CUDA backend with CUDA 12.4's headers and nvcc, clang 19 and the newest nvcc" scripts/checks/check_cuda_compilers.sh
part launches "no launch of any recipe's step or inference leaves a GPU idle" launches
part debian "the program in an empty Debian 13: g++ 13 with nvcc, g++ 14" scripts/checks/check_debian13.sh
part wheel "the Python wheel, built, installed and tested in an empty environment; 10000 calls" scripts/checks/check_wheel.sh --wheel
part package "the archive for another machine" package
part packages "a release of this commit, with its packages and its wheel in an empty Debian" packages

printf '\n'
cat "$table"
exit $failed
