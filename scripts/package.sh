#!/usr/bin/env bash
# Makes one folder, and one compressed archive of it, that run on another Linux x86-64 machine (glibc 2.36 or
# newer, AVX2): the program, the test programs, the benchmarks, their scripts and every library except those
# of libc and NVIDIA. On a GPU it needs a driver for the CUDA that built it (nvcc 12.4 or newer), and cuBLAS
# and cuDNN 9 in the usual places or inside a Python environment's nvidia packages.
# Usage: scripts/package.sh [--architecture 90] [--output dist/saccade-sm_90]
#   and the same name with .tar.xz
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
limit=40000000  # bytes of the archive, so that it travels with a checkout

scripts/setup.sh
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSACCADE_PACKAGE=ON -DSACCADE_BENCH=ON -DSACCADE_MARCH=x86-64-v3 \
  -DSACCADE_CUDA=on "-DSACCADE_CUDA_ARCHITECTURES=$architecture-real"
cmake --build "$build"

rm -rf "$output.part"
mkdir -p "$output.part/bin" "$output.part/lib" "$output.part/scripts" "$output.part/docs"
mkdir -p "$output.part/tests/golden/vision" "$output.part/tests/train/bad_inputs"  # test_train names its tests after what is there
programs=("$build/saccade")
for program in "$build"/test_* "$build"/*_bench; do
  [ -f "$program" ] && [ -x "$program" ] && programs+=("$program")
done
for program in "${programs[@]}"; do strip -o "$output.part/bin/$(basename "$program")" "$program"; done
for library in libsaccade.so libsaccade_gtest.so; do
  strip --strip-unneeded -o "$output.part/lib/$library" "$build/$library"
done
# Everything that the loader finds, except libc's own parts.
ldd "$build/libsaccade.so" | awk '$3 ~ /^\// { print $3 }' |
  grep -Ev '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' |
  while read -r library; do cp -L "$library" "$output.part/lib/"; done
cp -r configs "$output.part/"
cp -r scripts/bench scripts/gpu scripts/gpu_test.sh "$output.part/scripts/"
cp docs/new_attention_layer.md "$output.part/docs/"
cp README.md "$output.part/"

# Every program must start with only the folder and libc,
for program in "$output.part"/bin/*; do
  missing=$(env -i ldd -r "$program" 2>&1 | awk -v folder="$(realpath "$output.part")/" \
    '/not found|undefined/ || ($3 ~ /^\// && index($3, folder) != 1 && $3 !~ /\/(libc|libm|libdl|librt|libpthread)\.so/)')
  if [ -n "$missing" ]; then
    echo "error: package.sh: $program needs libraries that are not in the folder: $missing" >&2
    exit 1
  fi
done
# and from the folder alone it must make data, train, and pass tests.
(
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cd "$output.part"
  run() { env -i HOME="$work" "$@" > "$work/log" 2>&1 || { tail "$work/log" >&2; exit 1; }; }
  run bin/saccade --help
  run bin/saccade data shapes --output "$work/data" --images 4 --seed 1
  run bin/saccade train --config configs/quickstart.textproto --output "$work/run" --device cpu --max-steps 2 \
    --set data.batch_size=2 --set data.augment.height=64 --set data.augment.width=64 \
    --set "data.train.annotations=$work/data/annotations.json" --set "data.train.images=$work/data/images" \
    --set "data.val.annotations=$work/data/annotations.json" --set "data.val.images=$work/data/images"
  run bin/test_autograd --gtest_filter='op_layer_norm.*'
  run bin/test_train --gtest_list_tests
  run bin/detector_bench --help
)
rm -rf "$output"
mv "$output.part" "$output"
tar -C "$(dirname "$output")" -c "$(basename "$output")" | xz -T 0 -6 > "$output.tar.xz.part"
size=$(stat -c %s "$output.tar.xz.part")
if [ "$size" -gt "$limit" ]; then
  echo "error: package.sh: $output.tar.xz has $size bytes, expected at most $limit" >&2
  exit 1
fi
mv "$output.tar.xz.part" "$output.tar.xz"
echo "$output.tar.xz: $size bytes ($(du -sb "$output" | cut -f 1) unpacked)"
