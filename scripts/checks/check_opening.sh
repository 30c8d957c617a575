#!/usr/bin/env bash
# Checks that a running process can open libsaccade: it has no thread-local variables of the initial-exec
# model, and Python opens it first, or after modules that load many libraries of their own, if those are
# installed.
# Usage: scripts/checks/check_opening.sh [BUILD]     the build folder, build by default; what is built already
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
library=$(realpath "$build/libsaccade.so")

if readelf -d "$library" | grep -q STATIC_TLS; then
  echo "error: check_opening.sh: libsaccade.so has thread-local variables of the initial-exec model" >&2
  exit 1
fi

opened=() without=()
for module in "" torch onnxruntime openvino; do
  found=""
  for python in python3 .cache/onnx/bin/python; do
    if "$python" -c "import ${module:-sys}" 2> /dev/null; then
      found=$python
      break
    fi
  done
  if [ -z "$found" ]; then
    without+=("$module")
    continue
  fi
  "$found" - "$library" "$module" << 'END'
import ctypes
import importlib
import sys

if sys.argv[2]:
    importlib.import_module(sys.argv[2])
saccade, model = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
saccade.saccade_last_error.restype = ctypes.c_char_p
assert saccade.saccade_model_load(b"no such file", b"cpu", ctypes.byref(model)) != 0
assert b"no such file" in saccade.saccade_last_error(), saccade.saccade_last_error()
END
  opened+=("${module:-nothing}")
done
echo "libsaccade opens after: ${opened[*]}${without[*]:+ (not installed here: ${without[*]})}"
