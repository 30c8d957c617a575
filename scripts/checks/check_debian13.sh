#!/usr/bin/env bash
# Builds the program in an empty Debian 13, whose compilers, CMake and libraries (oneDNN 3) are newer than
# CI's: with g++ 13 and this machine's nvcc, if it has one, for sm_90; with Debian's own g++ 14 for the CPU.
# Each program prints its version, draws images and trains two steps on the CPU; the last line counts the
# compilers' warnings. Needs root, debootstrap and the network, otherwise exit status 77. Takes half an
# hour to an hour.
# Usage: scripts/checks/check_debian13.sh [ROOT]
#   a tree that debootstrap has made of trixie: it is used, and stays with its builds
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ "$(id -u)" != 0 ] || ! command -v debootstrap > /dev/null; then
  echo "an empty Debian needs root and debootstrap"
  exit 77
fi
# In name spaces of its own, so that all mounts disappear with this script.
[ -n "${SACCADE_UNSHARED:-}" ] || exec env SACCADE_UNSHARED=1 unshare --mount "$0" "$@"
mount --make-rprivate /
root=${1:-$(mktemp -d)}
leave() {
  umount --lazy "$root/proc" "$root/src" "$root/cuda" 2> /dev/null || true
  [ -n "$kept" ] || rm -rf --one-file-system "$root"
}
kept=${1:-}
trap leave EXIT
[ -n "$kept" ] || debootstrap --variant=minbase trixie "$root" > /dev/null

mkdir -p "$root"/{proc,src,cuda,build}
mount -t proc proc "$root/proc"
mount --bind "$PWD" "$root/src"
nvcc=$(command -v nvcc || compgen -G '/usr/local/cuda/bin/nvcc' || true)
[ -z "$nvcc" ] || mount --bind "$(dirname "$(dirname "$(realpath "$nvcc")")")" "$root/cuda"
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
inside /src/scripts/setup.sh
inside apt-get install -q -y --no-install-recommends g++-13 ccache

cat > "$root/build/tiny.textproto" << 'END'
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [4] }
  transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 16 queries: 5 levels: 1 dropout: 0 }
}
data {
  train { annotations: "/build/shapes/annotations.json" images: "/build/shapes/images" }
  batch_size: 2 workers: 1 augment { height: 64 width: 64 } val_height: 64 val_width: 64
}
train { max_steps: 2 }
END
warnings=0
build() { # g++, further options of cmake...
  local compiler=$1 folder=/build/$1
  shift
  inside cmake -S /src -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$compiler" -DSACCADE_TESTS=OFF "$@"
  inside cmake --build "$folder" --target saccade 2>&1 | tee "$root$folder.log"
  warnings=$((warnings + $(grep -c 'warning:\|warning #' "$root$folder.log" || true)))
  inside "$folder/saccade" --version
  rm -rf "$root/build/shapes" "$root/build/run"
  inside "$folder/saccade" data shapes --output /build/shapes --images 4 --seed 1 --size 64
  inside "$folder/saccade" train --config /build/tiny.textproto --output /build/run --device cpu
  passed+=("$(inside "$compiler" --version | head -n 1)")
}
passed=()
# Debian's libraries are built by g++ 14, whose runtime library the program runs with, though g++ 13 links it
# with its own.
older=-DCMAKE_EXE_LINKER_FLAGS=-Wl,--allow-shlib-undefined
if [ -n "$nvcc" ]; then
  build g++-13 $older -DSACCADE_CUDA=on -DCMAKE_CUDA_COMPILER=/cuda/bin/nvcc -DSACCADE_CUDA_ARCHITECTURES=90-real
else
  build g++-13 $older -DSACCADE_CUDA=off
fi
build g++ -DSACCADE_CUDA=off
echo "built and run with ${passed[*]}${nvcc:+ and nvcc}: $warnings warnings"
