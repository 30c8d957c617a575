#!/usr/bin/env bash
# libsaccade's threads under ThreadSanitizer: builds the tests with it and runs those of the library. oneDNN is not instrumented, so
# what it does inside is not seen.
# Usage: scripts/thread_sanitizer.sh [BUILD]     build-tsan by default
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build-tsan}
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSACCADE_SANITIZE=thread -DSACCADE_CUDA=off -DSACCADE_WERROR=OFF
cmake --build "$build" --target saccade test_train
SACCADE_FAST=1 TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 "$build/test_train" --gtest_filter='Library.*'
