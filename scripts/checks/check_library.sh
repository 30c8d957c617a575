#!/usr/bin/env bash
# Tests libsaccade as others use it: its exported symbols are those of train/library/exports.map, the
# installed files suffice to build the examples (CMake's find_package, and pkg-config), C++, C and Python find
# the same objects in the same image, and a process can open it at any time. Works for a build with CUDA too.
# Usage: scripts/checks/check_library.sh [BUILD]     the build folder, build by default; what is built already
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
quietly() { "$@" > "$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; echo "error: check_library.sh: $*" >&2; exit 1; }; }

nm -D --defined-only "$build/libsaccade.so" | awk '{ sub(/@.*/, "", $3); if ($3 != "SACCADE_0") print $3 }' | sort -u > "$work/exported"
grep -oE '^ +[A-Za-z_][A-Za-z0-9_]*;' train/library/exports.map | tr -d ' ;' | sort -u > "$work/listed"
diff "$work/listed" "$work/exported" ||
  { echo "error: check_library.sh: < is only in train/library/exports.map, > only in the library" >&2; exit 1; }

scripts/checks/check_opening.sh "$build"

scripts/cmake/cut_examples.sh docs/library.md "$work/page"
for example in "$work"/page/*; do diff "$example" "examples/$(basename "$example")"; done

quietly cmake --install "$build" --prefix "$work/usr"
prefix=$work/usr
quietly cmake -S examples -B "$work/examples" "-DCMAKE_PREFIX_PATH=$prefix" -DCMAKE_BUILD_TYPE=Debug
quietly cmake --build "$work/examples"
# Builds the C example again, without CMake.
pc=$(find "$prefix" -name saccade.pc -printf '%h')
libraries=$(dirname "$pc")
if command -v pkg-config > /dev/null; then
  read -ra flags < <(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs saccade)
  quietly cc -std=c99 -pedantic -Wall -Werror examples/detect.c -o "$work/detect_c" "${flags[@]}"
fi

saccade=$prefix/bin/saccade
quietly "$saccade" data shapes --output "$work/shapes" --images 4 --seed 1 --size 64
cat > "$work/tiny.textproto" << 'END'
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [4] }
  transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 16 queries: 5 levels: 1 dropout: 0 }
}
data { batch_size: 2 workers: 1 augment { height: 64 width: 64 } val_height: 64 val_width: 64 }
train { max_steps: 2 }
END
quietly "$work/examples/train_steps" "$work/tiny.textproto" "$work/run" 2 \
  "data.train.annotations=$work/shapes/annotations.json" "data.train.images=$work/shapes/images"
quietly "$saccade" predict --checkpoint "$work/run/checkpoints/last.safetensors" --threshold 0 --output "$work/drawn" "$work/shapes/images"
image=$(find "$work/shapes/images" -name '*.png' | sort | head -n 1)
python3 - "$image" "$work/image.ppm" << 'END'
import struct
import sys
import zlib

# Reads the pixels of the PNG files that saccade writes: RGB, one filter per row.
data, at, packed = open(sys.argv[1], "rb").read(), 8, b""
while at < len(data):
    (size,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
    body = data[at + 8 : at + 8 + size]
    if kind == b"IHDR":
        width, height = struct.unpack(">II", body[:8])
    if kind == b"IDAT":
        packed += body
    at += size + 12
raw, rows, above = zlib.decompress(packed), [], bytes(width * 3)
for y in range(height):
    line = bytearray(raw[y * (width * 3 + 1) : (y + 1) * (width * 3 + 1)])
    how, line = line[0], line[1:]
    for i in range(len(line)):
        a = line[i - 3] if i >= 3 else 0
        b, c = above[i], above[i - 3] if i >= 3 else 0
        p = a + b - c
        paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
        line[i] = (line[i] + (0, a, b, (a + b) // 2, paeth)[how]) % 256
    rows.append(bytes(line))
    above = line
open(sys.argv[2], "wb").write(b"P6\n%d %d\n255\n" % (width, height) + b"".join(rows))
END
checkpoint=$work/run/checkpoints/last.safetensors
"$work/examples/detect" "$checkpoint" 0 "$image" | sed 's/^[^:]*: //' > "$work/found"
[ -s "$work/found" ] || { echo "error: check_library.sh: the C++ example finds nothing" >&2; exit 1; }
c=$work/detect_c
[ -x "$c" ] || c=$work/examples/detect_c
LD_LIBRARY_PATH=$libraries "$c" "$checkpoint" 0 "$work/image.ppm" | diff "$work/found" -
python3 examples/detect.py "$checkpoint" 0 "$image" "$libraries/libsaccade.so" | diff "$work/found" -
# Late, as after torch or onnxruntime: libstdc++ and libgomp are loaded, and others have used up the loader's
# reserve.
cat > "$work/greedy.c" << 'END'
static __thread char mine[64] __attribute__((tls_model("initial-exec")));
char* mine_of_thread(void) { return mine; }
END
quietly cc -shared -fPIC -O1 "$work/greedy.c" -o "$work/greedy.so"
cat > "$work/late.py" << 'END'
import ctypes
import runpy
import shutil
import sys

greedy, example = sys.argv[1], sys.argv[2]
ctypes.CDLL("libgomp.so.1")
taken = 0
while True:
    copy = f"{greedy}.{taken}"
    shutil.copy(greedy, copy)
    try:
        ctypes.CDLL(copy)
    except OSError as error:
        assert "static TLS" in str(error), error
        break
    taken += 1
    assert taken < 10000
ctypes.CDLL("libstdc++.so.6")
sys.argv = sys.argv[2:]
runpy.run_path(example, run_name="__main__")
END
python3 "$work/late.py" "$work/greedy.so" examples/detect.py "$checkpoint" 0 "$image" "$libraries/libsaccade.so" | diff "$work/found" -
python3 - "$libraries/libsaccade.so" "$checkpoint" "$image" << 'END'
# In the caller's process, threads that cannot start are an error, and its settings stay.
import ctypes
import resource
import sys

saccade, libgomp, libc = ctypes.CDLL(sys.argv[1]), ctypes.CDLL("libgomp.so.1"), ctypes.CDLL(None)
saccade.saccade_last_error.restype = libc.getenv.restype = ctypes.c_char_p
checkpoint, model, result = sys.argv[2].encode(), ctypes.c_void_p(), ctypes.c_void_p()
libgomp.omp_set_num_threads(3)
before = resource.getrlimit(resource.RLIMIT_AS)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), before[1]))  # the stacks of 64 threads need more
assert saccade.saccade_set_threads(64) == 0
assert saccade.saccade_model_load(checkpoint, b"cpu", ctypes.byref(model)) == 1
assert b" of 64 threads can be started" in saccade.saccade_last_error(), saccade.saccade_last_error()
resource.setrlimit(resource.RLIMIT_AS, before)
assert saccade.saccade_set_threads(2) == 0
visible = libc.getenv(b"CUDA_VISIBLE_DEVICES")
if saccade.saccade_model_load(checkpoint, b"cuda:77", ctypes.byref(model)) != 0:
    assert libc.getenv(b"CUDA_VISIBLE_DEVICES") == visible
assert saccade.saccade_model_load(checkpoint, b"cpu", ctypes.byref(model)) == 0
assert saccade.saccade_predict_file(model, sys.argv[3].encode(), ctypes.c_double(0), ctypes.byref(result)) == 0
assert libgomp.omp_get_max_threads() == 3
END
echo "libsaccade: $(wc -l < "$work/listed") symbols, examples in C++, C and Python agree"
