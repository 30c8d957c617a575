#!/usr/bin/env bash
# Compiles the CUDA backend with toolkits that this machine does not have: CUDA 12.4, the oldest supported
# (its headers with g++ and clang 19 for the host's files, its nvcc and clang 19 for every kernel), and the
# newest nvcc on PyPI (one kernel as CMake compiles it, and every kernel for one architecture). Warnings of
# nvcc are errors. Reports what cannot be fetched; exit status 77 if anything could not. Takes from ten
# minutes to three quarters of an hour.
# Usage: scripts/checks/check_cuda_compilers.sh
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

oldest=12.4 cache=.cache/cuda
failed=0 missing=()
mkdir -p "$cache"

# Unpacks wheels from PyPI into one folder that looks like a toolkit.
fetch_wheels() { # folder, pip's arguments...
  local folder=$cache/$1 wheels
  shift
  [ ! -d "$folder" ] || return 0
  wheels=$(mktemp -d)
  if python3 -m pip download -q --disable-pip-version-check --only-binary :all: -d "$wheels" "$@"; then
    mkdir -p "$folder.part"
    for wheel in "$wheels"/*.whl; do python3 -m zipfile -e "$wheel" "$wheels/unpacked"; done
    for part in "$wheels"/unpacked/nvidia/*/; do cp -r "$part/." "$folder.part/"; done
    find "$folder.part" -path '*/bin/*' -type f -exec chmod +x {} +
    mkdir -p "$folder.part/lib64" # clang recognises a toolkit by it
    mv "$folder.part" "$folder"
  fi
  rm -rf "$wheels"
  [ -d "$folder" ]
}
# Fetches Debian's clang 19 without installing it, unless it is installed.
clang=$(command -v clang++-19)
fetch_clang() {
  [ -z "$clang" ] || return 0
  local folder=$cache/clang packages
  if [ ! -d "$folder" ]; then
    packages=$(mktemp -d)
    if (cd "$packages" && apt-get download -q clang-19 libclang-cpp19 libllvm19 libclang-common-19-dev > /dev/null 2>&1); then
      for package in "$packages"/*.deb; do dpkg -x "$package" "$folder.part"; done
      mv "$folder.part" "$folder"
    fi
    rm -rf "$packages"
  fi
  clang=$folder/usr/lib/llvm-19/bin/clang++
  export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu:$folder/usr/lib/llvm-19/lib
  [ -x "$clang" ]
}
# Puts nvcc from Debian 13's package into the folder of its headers, without installing it.
fetch_oldest_nvcc() {
  local folder=$cache/$oldest packages
  [ ! -x "$folder/bin/nvcc" ] || return 0
  packages=$(mktemp -d)
  mkdir -p "$packages"/{lists,archives}/partial
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie non-free" > "$packages/sources.list"
  local apt=(apt-get -q -o "Dir::Etc::sourcelist=$packages/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$packages/lists"
    -o "Dir::Cache=$packages" -o APT::Sandbox::User=root)
  if (cd "$packages" && "${apt[@]}" update && "${apt[@]}" download nvidia-cuda-toolkit) > /dev/null 2>&1; then
    dpkg -x "$packages"/nvidia-cuda-toolkit_*.deb "$packages/unpacked"
    mkdir -p "$folder/nvvm/bin"
    cp "$packages"/unpacked/usr/bin/{cudafe++,fatbinary,nvlink,ptxas} "$folder/bin/"
    cp "$packages/unpacked/usr/lib/nvidia-cuda-toolkit/bin/cicc" "$folder/nvvm/bin/"
    # shellcheck disable=SC2016 # nvcc expands them
    printf '%s\n' 'TOP = $(_HERE_)/..' 'NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice' 'PATH += $(TOP)/nvvm/bin:$(_HERE_):' \
      'INCLUDES += "-I$(TOP)/include" $(_SPACE_)' > "$folder/bin/nvcc.profile"
    cp "$packages/unpacked/usr/lib/nvidia-cuda-toolkit/bin/nvcc" "$folder/bin/"
  fi
  rm -rf "$packages"
  [ -x "$folder/bin/nvcc" ]
}
# Compiles one file after another; prints what went wrong.
each() { # what, files until --, command to which the file is added...
  local what=$1 files=() bad=0
  shift
  while [ "$1" != -- ]; do files+=("$1") && shift; done
  shift
  for file in "${files[@]}"; do
    if ! "$@" "$file" > "$cache/log" 2>&1; then
      bad=$((bad + 1))
      echo "FAILED $what: $file"
      grep -E -m 5 'error' "$cache/log"
    fi
  done
  echo "$what: $((${#files[@]} - bad)) of ${#files[@]} files"
  [ $bad = 0 ] && [ ${#files[@]} -gt 0 ] || failed=1
}

mapfile -t host_files < <(git ls-files 'core/runtime/cuda/*.cpp' 'core/kernels/*_cuda*.cpp' 'core/distributed/*_cuda.cpp')
mapfile -t kernels < <(git ls-files 'core/kernels/*.cu' 'core/runtime/cuda/*.cu' &&
  git ls-files 'core/kernels/*/*.cpp' | grep -Ev '_(cpu|cuda|host)[_.][^/]*$')
of_nvcc=(-x cu -std=c++20 -arch=sm_90 -I. --expt-relaxed-constexpr --extended-lambda -DFMT_CONSTEVAL= -DFMT_USE_CONSTEXPR=1 -DNDEBUG
  "-Xcompiler=-fopenmp,-Wall,-Werror" -Werror=all-warnings -o "$cache/object" -c)
common=(-std=c++20 -fsyntax-only -I. -DSACCADE_CUDA_ARCHITECTURES='"none"' -Wall)
if fetch_wheels $oldest --no-deps "nvidia-cuda-runtime-cu12==$oldest.*" "nvidia-cuda-nvcc-cu12==$oldest.*"; then
  each "g++ with CUDA $oldest, host" "${host_files[@]}" -- g++ "${common[@]}" -Werror -fopenmp -isystem "$cache/$oldest/include"
  if fetch_oldest_nvcc; then
    each "nvcc $oldest, kernels for sm_90" "${kernels[@]}" -- "$cache/$oldest/bin/nvcc" "${of_nvcc[@]}"
  else
    missing+=("nvcc $oldest, which cannot be fetched from Debian 13")
  fi
  if fetch_clang; then
    each "clang 19 with CUDA $oldest, host" "${host_files[@]}" -- "$clang" "${common[@]}" -isystem "$cache/$oldest/include"
    # An intrinsic that clang lacks.
    echo 'template <class T> __device__ void __stcg(T* p, T v) { *p = v; }' > "$cache/clang.h"
    each "clang 19 with CUDA $oldest, kernels for sm_80 and sm_90" "${kernels[@]}" -- "$clang" "${common[@]}" -x cuda --cuda-device-only \
      "--cuda-path=$cache/$oldest" --cuda-gpu-arch=sm_80 --cuda-gpu-arch=sm_90 -Wno-unknown-cuda-version -Wno-pass-failed \
      -DFMT_CONSTEVAL= -DFMT_USE_CONSTEXPR=1 -DNDEBUG -include "$cache/clang.h"
  else
    missing+=("clang 19, which cannot be fetched from Debian")
  fi
else
  missing+=("CUDA $oldest, which cannot be fetched from PyPI")
fi

if fetch_wheels newest nvidia-cuda-nvcc nvidia-cuda-runtime; then
  build="build-nightly/newest_nvcc"
  rm -rf "$build"
  nvcc=$(realpath "$cache/newest/bin/nvcc")
  # shellcheck disable=SC2317 # called by each
  compile_kernel() {
    CUDACXX=$nvcc cmake -S . -B "$build" -G Ninja -DSACCADE_CUDA=on -DSACCADE_WERROR=ON -DSACCADE_TESTS=OFF &&
      cmake --build "$build" --target "CMakeFiles/saccade_core.dir/$1.o"
  }
  name="$("$nvcc" --version | grep -Eo 'release [0-9.]+' | sed 's/release/nvcc/') of PyPI"
  each "$name, by CMake" core/kernels/gather/gather_cuda.cu -- compile_kernel
  each "$name, kernels for sm_90" "${kernels[@]}" -- "$nvcc" "${of_nvcc[@]}"
else
  missing+=("the newest nvcc, which cannot be fetched from PyPI")
fi
[ ${#missing[@]} = 0 ] || printf 'not run: %s\n' "${missing[@]}"
[ $failed = 0 ] || exit 1
[ ${#missing[@]} = 0 ] || exit 77
