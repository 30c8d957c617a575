#!/usr/bin/env bash
# Prints the table of docs/scaling.md: how much the losses of 2 and 4 processes differ from those of one, for
# every family of models, as the largest relative difference in 50 steps.
# Usage: scripts/experiments/rank_curves.sh [BUILD [STEPS [SEED]]]
#   the build folder (build) with test_train, the steps (50), the seed (42)
set -euo pipefail
cd "$(dirname "$0")/../.."
printf '| model | 2 ranks | 4 ranks |\n| --- | --- | --- |\n'
export SACCADE_RANK_STEPS=${2:-50} SACCADE_RANK_SEED=${3:-42}
"${1:-build}"/test_train --gtest_filter='*RankFamilies*' | grep --line-buffered -E '^\||FAILED|Failure|ranks$'
