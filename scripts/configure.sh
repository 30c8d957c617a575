#!/usr/bin/env bash
# Configures the release build for this machine: with code for its GPUs if there are any, since that takes
# most of a build. Stops, saying what is missing, if a GPU could not be used because of it. A folder that was
# configured with SACCADE_CUDA=on stays so.
# Usage: scripts/configure.sh [--cpu] [FOLDER]     --cpu: without the GPU; FOLDER: build if none is named
set -euo pipefail
cd "$(dirname "$0")/.."

cpu=0 folder=build
for argument in "$@"; do
  case $argument in
    --cpu) cpu=1 ;;
    -*) echo "error: configure.sh: unknown argument $argument, expected --cpu or a folder" >&2; exit 2 ;;
    *) folder=$argument ;;
  esac
done

# The cached value of a variable in the folder.
cached() { sed -n "s/^$1:[A-Z]*=//p" "$folder/CMakeCache.txt" 2> /dev/null || true; }
configure() { cmake --preset release -B "$folder" "$@"; }
list_gpus() { { nvidia-smi -L || /usr/lib/wsl/lib/nvidia-smi -L; } 2> /dev/null | grep '^GPU' || true; }

if [ $cpu = 1 ]; then
  configure -DSACCADE_CUDA=off
elif [ "$(cached SACCADE_CUDA)" = on ]; then
  configure
elif [ -z "$(list_gpus)" ]; then
  configure -DSACCADE_CUDA=off
  echo "No GPU was found: built for the CPU. For another machine: cmake --preset release -DSACCADE_CUDA=on"
else
  configure -DSACCADE_CUDA=auto
  missing=$(cached SACCADE_CUDA_MISSING)
  case $missing in
    "") ;;
    "GPU of compute capability"*) echo "Built for the CPU: $missing" ;;
    *)
      echo "error: this machine has a GPU that the program would not use: $missing; docs/building.md says what it needs, --cpu builds for the CPU" >&2
      exit 1
      ;;
  esac
fi
