#!/usr/bin/env bash
# Builds the preset `checked` and runs its tests: the CUDA backend on the emulated GPU of tests/cuda_emulator,
# whose hooks see every access of device code, and the code for foreign bytes and raw memory under
# AddressSanitizer and UndefinedBehaviorSanitizer. Every kernel in the sources must have run. Then counts and
# inspects the launches of whole recipes.
# Usage: scripts/checked_tests.sh [FOLDER]     the build folder, build-checked if none is named
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build-checked}
cmake --preset checked -B "$build" -DSACCADE_BENCH=ON
cmake --build "$build" --target saccade detector_bench test_{core,cuda,autograd,layers,models,data,train,fuzz}
# The test programs list the kernels that they ran; the last test requires all kernels of the sources.
kernels=$(mktemp)
trap 'rm -f "$kernels"' EXIT
# Tests take smaller samples when SACCADE_FAST is set.
export SACCADE_FAST=1 ASAN_OPTIONS=allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
LSAN_OPTIONS=suppressions=$PWD/scripts/checks/lsan.supp:print_suppressions=0
export LSAN_OPTIONS
SACCADE_EMULATOR_KERNELS=$kernels ctest --test-dir "$build" --output-on-failure -j "$(nproc)"
scripts/checks/skipped_tests.sh "$build"
SACCADE_EMULATOR_KERNELS=$kernels "$build"/test_cuda --gtest_brief=1 --gtest_filter='KernelCount.*'
scripts/checks/check_launches.sh "$build"
scripts/checks/check_small_launches.sh "$build"
