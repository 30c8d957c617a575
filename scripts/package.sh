#!/usr/bin/env bash
# Makes one folder that runs on another Linux x86-64 machine (glibc 2.36 or newer, AVX2): the program, the test programs,
# the benchmarks and every library that is neither libc's nor NVIDIA's. On a GPU it wants a driver for CUDA 13, and cuBLAS
# and cuDNN 9 in the usual places or inside a Python environment's nvidia packages.
# Usage: scripts/package.sh [--architecture 90] [--output dist/saccade-sm_90]
set -euo pipefail
cd "$(dirname "$0")/.."

architecture=90 output=
while [ $# -gt 0 ]; do
  case "$1" in
    --architecture) architecture=${2:?} ; shift 2 ;;
    --output) output=${2:?} ; shift 2 ;;
    *) echo "error: package.sh: unknown argument $1, expected --architecture or --output" >&2; exit 2 ;;
  esac
done
output=${output:-dist/saccade-sm_$architecture}
build=build-package-$architecture
limit=$((64 << 20))

scripts/setup.sh
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSACCADE_PACKAGE=ON -DSACCADE_BENCH=ON -DSACCADE_MARCH=x86-64-v3 \
  -DSACCADE_CUDA=on "-DSACCADE_CUDA_ARCHITECTURES=$architecture-real" -DCMAKE_CUDA_FLAGS=--compress-mode=size
cmake --build "$build"

rm -rf "$output.part"
mkdir -p "$output.part/bin" "$output.part/lib" "$output.part/scripts" "$output.part/docs" "$output.part/tests"
programs=("$build/saccade")
for program in "$build"/test_* "$build"/*_bench; do
  [ -f "$program" ] && [ -x "$program" ] && programs+=("$program")
done
for program in "${programs[@]}"; do strip -o "$output.part/bin/$(basename "$program")" "$program"; done
strip --strip-unneeded -o "$output.part/lib/libsaccade.so" "$build/libsaccade.so"
# Everything that the loader finds, but libc's own parts.
ldd "$build/libsaccade.so" | awk '$3 ~ /^\// { print $3 }' |
  grep -Ev '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' |
  while read -r library; do cp -L "$library" "$output.part/lib/"; done
cp -r configs "$output.part/"
cp -r scripts/bench scripts/gpu_test.sh "$output.part/scripts/"
cp docs/new_attention_layer.md "$output.part/docs/"
cp README.md "$output.part/"

# It must start with nothing but itself and libc.
missing=$(env -i ldd "$output.part/bin/saccade" | awk -v lib="$(realpath "$output.part")/lib/" \
  '/not found/ || ($3 ~ /^\// && index($3, lib) != 1 && $3 !~ /\/(libc|libm|libdl|librt|libpthread)\.so/)')
if [ -n "$missing" ]; then
  echo "error: package.sh: libraries from outside of the folder: $missing" >&2
  exit 1
fi
env -i "$output.part/bin/saccade" --help > /dev/null
size=$(du -sb "$output.part" | cut -f 1)
if [ "$size" -ge "$limit" ]; then
  echo "error: package.sh: $output.part has $size bytes, expected fewer than $limit" >&2
  exit 1
fi
rm -rf "$output"
mv "$output.part" "$output"
echo "$output: $size bytes"
