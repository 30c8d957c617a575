#!/usr/bin/env bash
# Runs the threaded code under ThreadSanitizer: the CPU's thread teams, the loader, the matcher's pool, the
# logger next to the training, libsaccade, and the connections and the queue of `saccade serve`. oneDNN is not
# instrumented, so its internals are not checked.
# Usage: scripts/checks/thread_sanitizer.sh [BUILD]     build-tsan by default
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build-tsan}
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSACCADE_SANITIZE=thread -DSACCADE_CUDA=off -DSACCADE_WERROR=OFF
cmake --build "$build" --target saccade test_core test_data test_models test_train
export SACCADE_FAST=1 TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
"$build/test_core" --gtest_filter='ThreadTeam.*-*AChildOfFork*'  # it cannot follow threads of a forked process
"$build/test_data" --gtest_filter='Loader.*:Sampling.*'
"$build/test_models" --gtest_filter='Matcher.*:Assignment.*'
"$build/test_train" --gtest_filter='Library.*:RunLog.*:Progress.*:BadImages.*:TensorBoard.*:HttpFront.*:Serve.*'
