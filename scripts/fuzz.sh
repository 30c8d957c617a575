#!/usr/bin/env bash
# Fuzzes the readers of outside files with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer; needs
# clang 16 or newer (exit status 77 without it). Runs as many targets at a time as there are processors. The
# findings of a target are in build-fuzz/TARGET-*, its corpus is in build-fuzz/corpus/TARGET, where the next
# call continues.
# Usage: scripts/fuzz.sh [SECONDS a target (60)] [TARGET...]
#   (image, coco, formats, weights, config, run_log, request)
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
[ $# -gt 0 ] || set -- image coco formats weights config run_log request
build="build-fuzz"
mkdir -p "$build"
# clang may be installed without its run-time libraries, and clang 14 cannot read libstdc++'s source_location.
cat > "$build/empty.cpp" << 'CODE'
#include <source_location>
extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return std::source_location::current().line() == 0; }
CODE
compiler=
for candidate in clang++ clang++-{21,20,19,18,17,16}; do
  if "$candidate" -std=c++20 -fsanitize=fuzzer,address,undefined -o "$build/empty" "$build/empty.cpp" 2> "$build/empty.log"; then
    compiler=$candidate
    break
  fi
done
if [ -z "$compiler" ]; then
  echo "fuzz.sh: no clang here can build fuzzers (packages clang-16, libclang-rt-16-dev)" >&2
  exit 77
fi

cmake --preset fuzz -DCMAKE_CXX_COMPILER="$compiler" > "$build/build.log"
cmake --build "$build" --target "${@/%/_fuzz}" >> "$build/build.log" || { tail -n 40 "$build/build.log" >&2 && exit 1; }

# Seeds.
mkdir -p "$build"/corpus/{image,coco,formats,weights,config,run_log,request}
cp tests/golden/images/*.* tests/golden/jpeg/*.jpg "$build/corpus/image/"
for target in coco formats config run_log request; do cp tests/fuzz/seeds/$target/* "$build/corpus/$target/"; done
for recipe in configs/*.textproto; do grep -v '^ *#' "$recipe" > "$build/corpus/config/$(basename "$recipe")"; done
find tests/golden -size -20k \( -name '*.safetensors' -o -name '*.pth' -o -name '*.pt' \) -exec cp {} "$build/corpus/weights/" \;

fuzz() {
  local target=$1
  OMP_NUM_THREADS=1 "$build/${target}_fuzz" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$build/$target-" "$build/corpus/$target" 2> "$build/$target.log" ||
    { tail -30 "$build/$target.log" >&2 && return 1; }
  awk -v target="$target" '/number_of_executed_units/ { runs = $2 } / cov: / { for (i = 1; i < NF; ++i) if ($i == "cov:") edges = $(i + 1) }
    END { print target ": " runs " inputs, " edges " edges, no finding" }' "$build/$target.log"
}

running=0 status=0
for target in "$@"; do
  if [ "$running" = "$(nproc)" ]; then
    wait -n || status=1
    running=$((running - 1))
  fi
  fuzz "$target" &
  running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
  wait -n || status=1
  running=$((running - 1))
done
exit $status
