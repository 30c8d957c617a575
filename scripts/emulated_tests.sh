#!/usr/bin/env bash
# Builds the CUDA backend against the emulated GPU of tests/cuda_emulator and runs on it: the emulator's own tests
# (planted faults), every op of the op table, every attention layer and tiny models of every kind against the CPU, 20
# training steps of a small Deformable DETR and its detections.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset emulated
cmake --build --preset emulated --target test_cuda test_autograd test_layers test_models test_train saccade
export OMP_WAIT_POLICY=passive
# The test programs list the kernels that they ran; the last test wants all of the sources.
SACCADE_EMULATOR_KERNELS=$(mktemp)
export SACCADE_EMULATOR_KERNELS
trap 'rm -f "$SACCADE_EMULATOR_KERNELS"' EXIT
build-emulated/test_cuda --gtest_brief=1 --gtest_filter=-KernelCount.*
build-emulated/test_autograd --gtest_brief=1 --gtest_filter='*.cuda*:OpTable.*:*MsDeformAttn*:GridSample.*:Nonfinite*'
build-emulated/test_layers --gtest_brief=1 --gtest_filter='*Cuda*'
build-emulated/test_models --gtest_brief=1 --gtest_filter='Cuda*'
build-emulated/test_train --gtest_brief=1 --gtest_filter='Cuda*:Cli.WrongConfigs'
build-emulated/test_cuda --gtest_filter='KernelCount.*'
