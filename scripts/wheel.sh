#!/usr/bin/env bash
# Builds the Python wheel (docs/python.md) and names it after the oldest glibc that it runs on. Needs pip and
# its index.
# Usage: scripts/wheel.sh [--cuda off|auto|on] [--march x86-64-v3] [--output dist]
set -euo pipefail
cd "$(dirname "$0")/.."
cuda=off march=x86-64-v3 output=dist
while [ $# -gt 0 ]; do
  case "$1" in
    --cuda) cuda=${2:?} ; shift 2 ;;
    --march) march=${2:?} ; shift 2 ;;
    --output) output=${2:?} ; shift 2 ;;
    *) echo "error: wheel.sh: unknown argument $1, expected --cuda, --march or --output" >&2; exit 2 ;;
  esac
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/tools"
"$work/tools/bin/pip" install -q --disable-pip-version-check wheel
"$work/tools/bin/pip" wheel -q --disable-pip-version-check --no-deps -w "$work/built" . \
  -C "cmake.define.SACCADE_CUDA=$cuda" -C "cmake.define.SACCADE_MARCH=$march"
wheel=$(find "$work/built" -name '*.whl')
"$work/tools/bin/python" -m wheel unpack -d "$work/unpacked" "$wheel" > /dev/null
mapfile -t binaries < <(find "$work/unpacked" -path '*/saccade/bin/saccade' -o -path '*/saccade/lib/*.so*')
glibc=$(objdump -T "${binaries[@]}" | grep -oE 'GLIBC_2\.[0-9]+' | sort -uV | tail -n 1)
"$work/tools/bin/python" -m wheel tags --remove --platform-tag "manylinux_2_${glibc#GLIBC_2.}_x86_64" "$wheel" > /dev/null
mkdir -p "$output"
for file in "$work"/built/*.whl; do
  cp "$file" "$output/"
  echo "$output/$(basename "$file"): $(stat -c %s "$file") bytes"
done
