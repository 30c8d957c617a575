#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy over all sources except tests and CUDA, one file at a time;
# takes some ten minutes on two cores, so CI does not run it. Installs clang-tidy 16 if it is missing.
# Usage: scripts/checks/clang_tidy.sh [REGEX]     only files whose path matches
set -euo pipefail
cd "$(dirname "$0")/../.."

scripts/setup.sh --tidy
# Each file by itself, with the generated headers.
cmake --preset release -B build-tidy -DSACCADE_CUDA=off -DSACCADE_UNITY=OFF -DSACCADE_TESTS=OFF > /dev/null
mapfile -t headers < <(ninja -C build-tidy -t targets all | sed -n 's/^\([^:]*\.pb\.h\):.*/\1/p')
cmake --build build-tidy --target "${headers[@]}" > /dev/null
# g++ has options and attributes that clang does not know.
run-clang-tidy-16 -quiet -extra-arg=-Wno-unknown-warning-option -extra-arg=-Wno-unknown-attributes -p build-tidy \
  -j "$(nproc)" "$PWD/(core|autograd|layers|models|data|train)/.*${1:-}" 2>&1 |
  sed -u '/warnings generated/d; /^clang-tidy-16 /d; /^$/d'
echo "clang-tidy: clean"
