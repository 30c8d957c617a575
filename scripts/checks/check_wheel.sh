#!/usr/bin/env bash
# Tests the Python module (train/python) with a library and a program that are already built:
# tests/python/module_test.py, which prints why it skips a test. Exit status 77 if no Python here has numpy.
# Usage: scripts/checks/check_wheel.sh [BUILD]           BUILD: the build folder, already built (build)
#        scripts/checks/check_wheel.sh --wheel [WHEEL]   WHEEL: tested in an empty environment; by default
#                                                        one that is built first
set -euo pipefail
cd "$(dirname "$0")/../.."
test=$PWD/tests/python/module_test.py
export PYTHONDONTWRITEBYTECODE=1

if [ "${1:-}" != --wheel ]; then
  build=$(realpath "${1:-build}")
  python=""
  for python in python3 .cache/onnx/bin/python ""; do
    if [ -n "$python" ] && "$python" -c 'import numpy' 2> /dev/null; then break; fi
  done
  [ -n "$python" ] || { echo "the Python module was not tested: neither python3 nor .cache/onnx/bin/python has numpy"; exit 77; }
  SACCADE_LIBRARY=$build/libsaccade.so SACCADE_PROGRAM=$build/saccade PYTHONPATH=$PWD/train/python \
    "$python" -W error::ResourceWarning "$test" --verbose 2>&1 | grep -Ev ' \.\.\. ok$'
  exit
fi

limit=25000000  # bytes of the wheel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "error: check_wheel.sh: $*" >&2; exit 1; }
wheel=${2:-}
if [ -z "$wheel" ]; then
  scripts/wheel.sh --output "$work/dist"
  wheel=$(find "$work/dist" -name '*.whl')
fi
wheel=$(realpath "$wheel")
size=$(stat -c %s "$wheel")
[ "$size" -le $limit ] || fail "$wheel has $size bytes, expected at most $limit"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check "$wheel" || fail "$wheel cannot be installed"
"$work/venv/bin/pip" install -q --disable-pip-version-check pillow supervision ||
  echo "Pillow and supervision cannot be fetched: their tests are skipped"
package=$("$work/venv/bin/python" -c 'import saccade; print(saccade.__path__[0])')
# All libraries must be the wheel's own, except those of libc and the compiler.
for file in "$package/bin/saccade" "$package/lib/libsaccade.so"; do
  foreign=$(env -i ldd -r "$file" 2>&1 | awk -v folder="$package/" \
    '/not found|undefined/ || ($3 ~ /^\// && index($3, folder) != 1 && $3 !~ /\/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so/)' |
    grep -v "$package/bin/../lib/" || true)
  [ -z "$foreign" ] || fail "$file needs libraries that are not in the wheel: $foreign"
done
cd "$work"
run() { env -i HOME="$work" PATH="$work/venv/bin:/usr/bin:/bin" SACCADE_CALLS=10000 "$@"; }
run saccade --version
run saccade data shapes --output shapes --images 8 --seed 1 > log 2>&1 || fail "$(tail -n 3 log)"
run saccade train --model quickstart --data shapes --output run --device cpu --max-steps 3 --set data.batch_size=2 > log 2>&1 ||
  fail "$(tail -n 3 log)"
run saccade predict --checkpoint run/checkpoints/last.safetensors --output drawn shapes/images > log 2>&1 || fail "$(tail -n 3 log)"
run python "$test" --verbose 2>&1 | grep -Ev ' \.\.\. ok$'
echo "$(basename "$wheel"): $size bytes, installed and tested in an empty environment"
