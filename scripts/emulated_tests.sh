#!/usr/bin/env bash
# Builds the CUDA backend against the emulated GPU of tests/cuda_emulator and runs on it: the emulator's own tests
# (planted faults), raw kernels, every op of the op table, every attention layer and tiny models of every kind against the CPU, 20
# training steps of a small Deformable DETR and its detections; and launches of whole recipes are counted.
# Usage: scripts/emulated_tests.sh [FOLDER]     the build folder, build-emulated if none is named
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build-emulated}
cmake --preset emulated -B "$build" -DSACCADE_BENCH=ON
cmake --build "$build" --target test_cuda test_core test_autograd test_layers test_models test_train saccade detector_bench
# The test programs list the kernels that they ran; the last test wants all of the sources.
kernels=$(mktemp)
trap 'rm -f "$kernels"' EXIT
export SACCADE_EMULATOR_KERNELS=$kernels
"$build"/test_cuda --gtest_brief=1 --gtest_filter=-KernelCount.*
"$build"/test_core --gtest_brief=1 --gtest_filter='RawKernels.*:Tf32Attention.*:Recording.*'
"$build"/test_autograd --gtest_brief=1 --gtest_filter='*.cuda*:OpTable.*:*MsDeformAttn*:GridSample.*:Nonfinite*'
"$build"/test_layers --gtest_brief=1 --gtest_filter='*Cuda*'
"$build"/test_models --gtest_brief=1 --gtest_filter='Cuda*'
"$build"/test_train --gtest_brief=1 --gtest_filter='Cuda*:Cli.WrongConfigs'
"$build"/test_cuda --gtest_filter='KernelCount.*'
unset SACCADE_EMULATOR_KERNELS
scripts/checks/check_launches.sh "$build"
