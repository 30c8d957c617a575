#!/usr/bin/env bash
# Fails on an include against the direction of the folders (docs/architecture.md), on protobuf or the schema
# outside train (and tests), and on a header named without its folder. Prints file:line:text.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Each folder, and the other folders that it may include ("core" stands for all of its folders). A file
# belongs to the longest folder that its path begins with.
library="core autograd layers models data"
rooms=(
  "core/tensor"
  "core/types: core/tensor"
  "core/runtime: core/tensor"
  "core/kernels: core/tensor core/types core/runtime"
  "core/files: core/tensor"
  "core/formats: core/tensor core/files"
  "core/distributed: core/tensor core/runtime"
  "autograd: core"
  "layers: core autograd"
  "models: core autograd layers"
  "data/images: core"
  "data/formats: core data/images"
  "data/augment: core data/images"
  "data/shapes: core data/images data/formats"
  "data/loading: core data/images data/formats data/augment"
  "data/evaluation: core data/formats"
  "data/pages: core data/images data/formats"
  "data/labels: core data/formats data/pages"
  "train/logs: core"
  "train/optimizers: core autograd layers configs"
  "train/config: $library train/optimizers configs"
  "train/checkpoints: $library train/config train/optimizers"
  "train/weights: core train/config train/logs configs"
  "train/video: $library"
  "train/inference: $library train/config train/logs train/checkpoints train/video"
  "train/loop: $library train/config train/optimizers train/logs train/checkpoints"
  "train/export: $library"
  "train/report: $library train/config train/logs train/checkpoints train/inference"
  "train/tasks: $library train/config train/logs train/checkpoints train/video train/inference train/loop train/report train/export"
  "train/serve: $library train/config train/logs train/checkpoints train/inference"
  "train/commands: $library train"
  "train/library: $library train/config train/optimizers train/logs train/checkpoints train/inference train/loop train/tasks"
  "train/python: train/commands train/python"
  "train: train/commands"
  "tests: $library train configs"
)
# Single includes against the direction, each with its reason.
exceptions=(
  "core/tensor/tensor.cpp core/kernels/copy/copy.h"  # a copy is a kernel
)

mapfile -t files < <(git ls-files -- core autograd layers models data train tests | grep -E '\.(h|cpp|cu|cuh)$')
# One pass over all files.
rooms=$(printf '%s\n' "${rooms[@]}") exceptions=$(printf '%s\n' "${exceptions[@]}") awk '
  function fault(text) { print "error: " text > "/dev/stderr"; failed = 1 }
  BEGIN {
    count = split(ENVIRON["rooms"], lines, "\n")
    for (i = 1; i <= count; ++i) {
      room = lines[i]
      sub(/:.*/, "", room)
      list = lines[i]
      sub(/:/, "", list)
      allowed[room] = list
    }
    count = split(ENVIRON["exceptions"], lines, "\n")
    for (i = 1; i <= count; ++i) excepted[lines[i]] = 1
    for (i = 1; i < ARGC; ++i) {
      room = ARGV[i]
      while (sub("/[^/]*$", "", room) && !(room in allowed)) {}
      if (!(room in allowed)) fault(ARGV[i] " lies in no room of scripts/checks/check_includes.sh")
      room_of[ARGV[i]] = room
    }
  }
  /^[ \t]*#[ \t]*include[ \t]*["<]/ {
    header = $0
    sub(/^[^"<]*/, "", header)
    quoted = substr(header, 1, 1) == "\""
    header = substr(header, 2)
    sub(/[">].*/, "", header)
    room = room_of[FILENAME]
    if (!(room in allowed)) next
    if (header ~ /^(google\/protobuf|configs|onnx)\// && room !~ /^(train|tests)/)
      fault(FILENAME ":" FNR ": " $0 "; " room " knows nothing of protobuf")
    if (!quoted || (FILENAME " " header) in excepted) next
    count = split(allowed[room], names, " ")
    for (i = 1; i <= count; ++i) if (index(header, names[i] "/") == 1) next
    fault(FILENAME ":" FNR ": " header "; " room " may include only " allowed[room] " (headers named from the root)")
  }
  END {
    if (!failed) print "includes: " ARGC - 1 " files follow the direction of the rooms"
    exit failed
  }
' "${files[@]}"
