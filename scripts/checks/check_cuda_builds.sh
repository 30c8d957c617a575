#!/usr/bin/env bash
# Configures for machines that this one is not: other kinds of GPUs, as reported by a stand-in for nvidia-smi,
# nvcc in its usual folder but not in PATH, an old, broken or missing nvcc, no headers of cuDNN, cuBLAS and
# NCCL. Each is configured as it should be, or says in one line why not. Builds nothing.
# Usage: scripts/checks/check_cuda_builds.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong=0

# Everything in this machine's /usr/bin except the tools that report a GPU.
mkdir "$work/tools" "$work/machine"
ln -s /usr/bin/* "$work/tools/"
rm -f "$work"/tools/nvcc* "$work/tools/nvidia-smi"
for tool in cmake ninja g++; do ln -sf "$(command -v $tool)" "$work/tools/$tool"; done
on_machine() { # command...
  env -u CUDACXX -u CUDA_HOME -u CUDA_PATH -u CONDA_PREFIX -u VIRTUAL_ENV -u CUDAHOSTCXX -u CUDAARCHS \
    PATH="$work/machine:$work/tools" "$@"
}

# Makes a stand-in for a program.
stand_in() { # name, text of its script
  printf '#!/bin/sh\n%s\n' "$2" > "$work/machine/$1"
  chmod +x "$work/machine/$1"
}
# Sets the compute capabilities of the machine's GPUs; without arguments there are none.
gpus() {
  if [ $# = 0 ]; then
    stand_in nvidia-smi 'echo "NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver."; exit 9'
  else
    stand_in nvidia-smi "case \$1 in -L) echo 'GPU 0: stand-in (UUID: none)' ;; *) printf '%s\\n' $* ;; esac"
  fi
}
# A line of the output must match, and the exit status must be zero or not.
expect() { # what, 0 or 1, regular expression, command...
  local what=$1 status=$2 line=$3 found=0
  shift 3
  on_machine "$@" > "$work/log" 2>&1 || found=1
  if [ $found = "$status" ] && grep -Eq -- "$line" "$work/log"; then
    echo "$what: $(grep -Eo -- "$line" "$work/log" | head -n 1)"
  else
    echo "WRONG $what: exit status $found, no line is \"$line\":"
    grep -E 'CUDA|rror' "$work/log" || tail -n 5 "$work/log"
    wrong=1
  fi
}
configured() { # what, 0 or 1, regular expression, folder, further arguments...
  expect "$1" "$2" "$3" cmake -S . -B "$work/$4" -G Ninja -DSACCADE_TESTS=OFF "${@:5}"
}

mapfile -t nvccs < <(compgen -G '/usr/local/cuda*/bin/nvcc' || true)
if [ ${#nvccs[@]} -gt 0 ]; then
  gpus
  configured "nvcc in its usual folder, no GPU" 0 'CUDA backend: on \(nvcc .*, architectures 90\)' on
  gpus 8.9
  configured "GPU 8.9" 0 'architectures 89\)' on
  gpus 9.0 8.6 9.0
  configured "GPUs 9.0, 8.6, 9.0" 0 'architectures 86-real;90\)' on
  gpus 7.5 8.0
  configured "GPUs 7.5, 8.0" 0 'architectures 80\)' on
  gpus 99.0
  configured "a GPU that is newer than nvcc" 0 'architectures [0-9]+\)' on
  gpus 8.9
  configured "named architectures" 0 'architectures 80;90\)' on "-DSACCADE_CUDA_ARCHITECTURES=80;90"
  # The headers of these libraries are not read.
  mkdir "$work/headers"
  for header in cudnn cudnn_graph cudnn_backend cublas_v2 cublas_api cublasLt nccl; do
    echo "#error \"$header.h is not there\"" > "$work/headers/$header.h"
  done
  for source in core/runtime/cuda/libraries/*.cpp core/runtime/cuda/device.cpp core/kernels/*/*_cuda*.cpp core/distributed/*_cuda.cpp; do
    echo "#include \"$source\""
  done > "$work/sources.cpp"
  expect "no headers of cuDNN, cuBLAS, NCCL" 0 'sources.o' g++ -std=c++20 -M -I . -isystem "$work/headers" \
    -isystem "$(dirname "${nvccs[0]}")/../include" "$work/sources.cpp"
else
  echo "not checked: what needs nvcc, which was not found"
fi

nowhere=-DSACCADE_NVCC_FOLDERS=$work/nowhere
gpus 8.9
configured "no nvcc" 0 'off \(no nvcc was found.*12.4 or newer\)' off "$nowhere"
expect "no nvcc, quick start" 1 '^error: this machine has a GPU .* no nvcc was found' scripts/configure.sh "$work/off"
expect "no nvcc, quick start --cpu" 0 'CUDA backend: off \(SACCADE_CUDA=off\)' scripts/configure.sh --cpu "$work/off"
configured "no nvcc, but asked for" 1 'SACCADE_CUDA=on: no nvcc was found' off -DSACCADE_CUDA=on
stand_in nvcc 'echo "Cuda compilation tools, release 11.8, V11.8.89"'
configured "an old nvcc" 0 'off \(.*nvcc is of CUDA 11.8, at least 12.4 is needed\)' off -DSACCADE_CUDA=auto
# shellcheck disable=SC2016 # the stand-in's own argument
stand_in nvcc '[ "$1" = --version ] && echo "release 12.6, V12.6.20" && exit; echo "error: unsupported GNU version" >&2; exit 1'
configured "an nvcc without a fitting g++" 0 'off \(.*nvcc does not compile with .*unsupported GNU version\)' off
gpus 7.5
configured "GPU 7.5" 0 'off \(GPU of compute capability 7.5, at least 8.0 is needed\)' off
expect "GPU 7.5, quick start" 0 '^Built for the CPU: GPU of compute capability 7.5' scripts/configure.sh "$work/off"
gpus
expect "no GPU, quick start" 0 '^No GPU was found: built for the CPU' scripts/configure.sh "$work/off"
exit $wrong
