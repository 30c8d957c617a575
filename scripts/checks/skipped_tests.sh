#!/usr/bin/env bash
# Prints how many tests the last ctest in a build folder skipped, for each reason.
# Usage: scripts/checks/skipped_tests.sh BUILD
set -euo pipefail
log=${1:?the build folder}/Testing/Temporary/LastTest.log
# GoogleTest prints FILE:LINE: Skipped, and the reason in the next line.
awk '/: Skipped$/ { getline; ++count[$0] } END { for (reason in count) print count[reason] " skipped: " reason }' "$log" | sort -rn
