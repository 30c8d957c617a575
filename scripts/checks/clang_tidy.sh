#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy over all sources except tests and CUDA; takes some ten
# minutes on two cores, so CI does not run it. Installs clang-tidy 16 if it is missing.
# Usage: scripts/checks/clang_tidy.sh [core|autograd|layers|models|data|train]
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=${1:-(core|autograd|layers|models|data|train)}
case ${1:-core} in
  core | autograd | layers | models | data | train) ;;
  *) echo "error: clang_tidy.sh: unknown folder $1, expected core, autograd, layers, models, data or train" >&2; exit 2 ;;
esac
scripts/setup.sh --tidy
# With the generated headers, and with up to 32 files of a folder at once, as in the build: one by one they
# take six times as long, nearly all of it for headers.
cmake --preset release -B build-tidy -DSACCADE_CUDA=off -DSACCADE_UNITY=ON -DSACCADE_TESTS=OFF > /dev/null
mapfile -t headers < <(ninja -C build-tidy -t targets all | sed -n 's/^\([^:]*\.pb\.h\):.*/\1/p')
cmake --build build-tidy --target "${headers[@]}" > /dev/null
# g++ has options and attributes that clang does not know; files that are compiled together include one
# another and may have equal local names.
run-clang-tidy-16 -quiet -extra-arg=-Wno-unknown-warning-option -extra-arg=-Wno-unknown-attributes -extra-arg=-Wno-shadow \
  -checks=-bugprone-suspicious-include -p build-tidy -j "$(nproc)" \
  "$PWD/($folder/|build-tidy/CMakeFiles/saccade_$folder(_files)?.dir/Unity/)" 2>&1 |
  sed -u '/warnings generated/d; /^clang-tidy-16 /d; /^$/d'
echo "clang-tidy: clean"
