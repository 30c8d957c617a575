#!/usr/bin/env bash
# Fuzzes the readers of outside files with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer; needs clang (exit status 77
# without it). As many targets at a time as there are processors. What a target finds is in build-fuzz/TARGET-crash-*, its corpus
# in build-fuzz/TARGET, where the next call continues.
# Usage: scripts/fuzz.sh [SECONDS a target (60)] [TARGET...]   (image, coco, formats, weights, config, run_log, request)
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
[ $# -gt 0 ] || set -- image coco formats weights config run_log request
build="build-fuzz"
# clang may be there without its run time.
mkdir -p "$build"
printf 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' > "$build/empty.cpp"
if ! clang++ -fsanitize=fuzzer,address,undefined -o "$build/empty" "$build/empty.cpp" 2> "$build/empty.log"; then
  printf 'fuzz.sh: clang++ cannot make fuzzers here (packages clang and libclang-rt-dev): %s\n' "$(head -n 1 "$build/empty.log")" >&2
  exit 77
fi
compiler=(clang++)
! command -v ccache > /dev/null || compiler=(ccache clang++)
mkdir -p "$build"/{image,coco,formats,weights,config,run_log,request,objects,configs}
flags=(-std=c++20 -O1 -g "-fsanitize=address,undefined" -fno-sanitize-recover=all -DSACCADE_LIBFUZZER -I. "-I$build" -isystem /usr/include/stb -Wno-everything)
libraries=(-lfmt -lsimdjson -ljpeg -lpng -lwebp -ltiff -lz -lpthread -lexpat -lyaml -lprotobuf -lre2 -lxxhash)

# Everything that the targets may need becomes an archive; the linker takes what they do need. Data formats register themselves, so
# they are named.
protoc "--cpp_out=$build" --proto_path=. --proto_path=/usr/include configs/rules.proto configs/saccade.proto train/logs/event.proto
printf '' > "$build/configs/recipes.inc"
sources=(core/files/*.cpp core/formats/*.cpp core/tensor/*.cpp core/runtime/no_cuda.cpp core/runtime/interrupt.cpp core/runtime/cpu/processors.cpp
  core/kernels/copy/copy.cpp data/images/{image,orientation,jpeg,png,bmp,webp,gif,tiff,stb,resize}.cpp data/formats/*.cpp data/formats/*/*.cpp data/evaluation/detections.cpp train/logs/{run_log,tensorboard}.cpp
  train/config/{config,config_args,config_parse,config_set,config_validate}.cpp train/config/schema/{config_fields,rules}.cpp layers/{args,name_patterns}.cpp
  train/serve/{http,image_request}.cpp
  "$build"/{configs,train/logs}/*.pb.cc)
sources+=(tests/fuzz/*_fuzz.cpp tests/fuzz/clang/*.cpp)

# Made anew: what is older than its source or than any header.
objects=()
for source in "${sources[@]}"; do
  object=$build/objects/$(tr / _ <<< "${source%.*}").o
  case $source in tests/fuzz/*_fuzz.cpp) ;; *) objects+=("$object") ;; esac
  if [ ! -e "$object" ] || [ -n "$(find "$source" core data layers models train tests/fuzz -newer "$object" \
    \( -name '*.h' -o -path "$source" \) -print -quit)" ]; then
    printf '%s\0%s\0' "$object" "$source"
  fi
done > "$build/wanted"
xargs -0 -r -n 2 -P "$(nproc)" sh -c '"$@" || exit 255' compile "${compiler[@]}" "${flags[@]}" -fsanitize=fuzzer-no-link -c -o < "$build/wanted"
rm -f "$build/saccade.a"
ar rcs "$build/saccade.a" "${objects[@]}"

# Seeds.
cp tests/golden/images/*.* tests/golden/jpeg/*.jpg "$build/image/"
for target in coco formats config run_log request; do cp tests/fuzz/seeds/$target/* "$build/$target/"; done
for recipe in configs/*.textproto; do grep -v '^ *#' "$recipe" > "$build/config/$(basename "$recipe")"; done
find tests/golden -size -20k \( -name '*.safetensors' -o -name '*.pth' -o -name '*.pt' \) -exec cp {} "$build/weights/" \;

fuzz() {
  local target=$1 formats=()
  [ "$target" != formats ] || formats=("$build"/objects/data_formats_{csv_csv,voc_voc,yolo_yolo}.o)
  clang++ "${flags[@]}" -fsanitize=fuzzer -o "$build/${target}_fuzz" "$build/objects/tests_fuzz_${target}_fuzz.o" "${formats[@]}" \
    "$build/saccade.a" "${libraries[@]}" || return
  "$build/${target}_fuzz" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$build/$target-" "$build/$target" 2> "$build/$target.log" || { tail -30 "$build/$target.log" >&2 && return 1; }
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
