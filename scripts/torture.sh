#!/usr/bin/env bash
# The suite of faults: ranks, disks, streams and signals (tests), a hundred killed and damaged trainings
# (scripts/checks/torture.py), and 5,000 steps with every option on (scripts/checks/soak.py). Prints a table
# of each. Takes hours on a slow machine; --trials and --steps make it shorter.
# Usage: scripts/torture.sh [--build build] [--seed 1] [--trials 100] [--steps 5000]
set -euo pipefail
cd "$(dirname "$0")/.."

build=build seed=1 trials=100 steps=5000
while [ $# -gt 0 ]; do
  case $1 in
    --build | --seed | --trials | --steps) declare "${1#--}=${2:?$1 needs a value}" && shift 2 ;;
    *) echo "error: torture.sh: unknown argument $1, expected --build, --seed, --trials or --steps" >&2 && exit 2 ;;
  esac
done

status=0
printf 'faults: streams, disks, signals, locks, damage, ranks\n'
"$build/test_train" --gtest_brief=1 \
  --gtest_filter='Outputs.*:RunFaults.*:RankTraining.*:Trainer.*Signals*:Trainer.*Killed*' || status=1
printf '\nkilled, slowed and damaged trainings\n'
scripts/checks/torture.py --program "$build/saccade" --seed "$seed" --trials "$trials" || status=1
printf '\nlong runs\n'
scripts/checks/soak.py --program "$build/saccade" --steps "$steps" || status=1
exit $status
