#!/usr/bin/env bash
# Builds the program with code for every supported GPU architecture (docs/performance.md says what that took),
# and checks that the code is there. For nightly runs: a plain build is for the GPU of the machine, or sm_90
# and PTX.
# Usage: scripts/experiments/architectures.sh [BUILD-FOLDER]
set -euo pipefail
cd "$(dirname "$0")/../.."

build=${1:-build-architectures}
architectures=(80 86 89 90 100 120)
# Code for each, and the PTX of the last for newer GPUs.
list=$(printf '%s-real;' "${architectures[@]}")${architectures[-1]}-virtual

scripts/setup.sh
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSACCADE_CUDA=on "-DSACCADE_CUDA_ARCHITECTURES=$list" \
  -DCMAKE_CUDA_FLAGS=--compress-mode=size -DSACCADE_TESTS=OFF
begin=$SECONDS
cmake --build "$build" --target saccade
echo "built in $((SECONDS - begin)) s"

# Reads the architectures in the program from the headers of its fat binaries (magic, version, header size,
# size; then for each part its kind, header size, size and at byte 28 the architecture), since cuobjdump is
# not always available.
objcopy -O binary --only-section=.nv_fatbin "$build/saccade" "$build/fatbin"
python3 - "$build/fatbin" "${architectures[@]}" << 'END'
import collections, struct, sys

data = open(sys.argv[1], "rb").read()
found, at = collections.Counter(), 0
while at + 16 <= len(data):
    magic, _, header, size = struct.unpack_from("<IHHQ", data, at)
    if magic != 0xBA55ED50:  # padding
        at += 8
        continue
    part, end = at + header, at + header + size
    while part + 32 <= end:
        kind, _, part_header, part_size = struct.unpack_from("<HHIQ", data, part)
        found["code" if kind == 2 else "PTX", struct.unpack_from("<I", data, part + 28)[0]] += 1
        part += part_header + part_size
    at = end
expected = [("code", int(a)) for a in sys.argv[2:]] + [("PTX", int(sys.argv[-1]))]
for kind, architecture in expected:
    print(f"{kind} for sm_{architecture}: {found[kind, architecture]} files")
print(f"{len(data)} bytes")
sys.exit(len({found[e] for e in expected}) != 1 or found[expected[0]] == 0)
END
"$build/saccade" --help > /dev/null
