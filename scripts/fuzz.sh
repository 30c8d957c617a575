#!/usr/bin/env bash
# Fuzzes the readers of images and annotations with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer; needs clang.
# What it finds lies in the build folder. Usage: scripts/fuzz.sh [SECONDS a target (60)]
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
build="build-fuzz"
mkdir -p "$build"
flags=(-std=c++20 -O1 -g "-fsanitize=fuzzer,address,undefined" -fno-sanitize-recover=all -I. -isystem /usr/include/stb)
libraries=(-lfmt -lsimdjson -ljpeg -lpng -lwebp -lz -lpthread)
# Sets of JSON and images as seeds.
mkdir -p "$build/images" "$build/coco"
cp tests/golden/images/*.* tests/golden/jpeg/*.jpg "$build/images/"
printf '%s' '{"images":[{"id":1,"file_name":"a.png","width":4,"height":4}],"annotations":[{"id":1,"image_id":1,"category_id":1,' \
  '"bbox":[0,1,2.5,3e0],"area":1,"iscrowd":0,"segmentation":[[1,2.5]]}],"categories":[{"id":1,"name":"a"}]}' > "$build/coco/a.json"
printf '%s' '[{"image_id":1,"category_id":1.0,"bbox":[0,1,2,3],"score":0.5}]' > "$build/coco/d.json"

clang++ "${flags[@]}" -o "$build/image_fuzz" tests/fuzz/image_fuzz.cpp data/images/{image,orientation,jpeg,png,bmp,webp,stb}.cpp \
  core/formats/{file,output_file,temporary,descriptors,text}.cpp "${libraries[@]}"
clang++ "${flags[@]}" -o "$build/coco_fuzz" tests/fuzz/coco_fuzz.cpp data/images/{image,orientation,jpeg,png,bmp,webp,stb}.cpp \
  data/formats/{coco_json,dataset_check,findings,ground_truth}.cpp data/evaluation/detections.cpp \
  core/formats/{file,output_file,temporary,descriptors,text,json,json_syntax}.cpp "${libraries[@]}"
"$build/image_fuzz" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20 -artifact_prefix="$build/" "$build/images"
"$build/coco_fuzz" -max_total_time="$seconds" -max_len=4096 -timeout=20 -artifact_prefix="$build/" "$build/coco"
