#!/usr/bin/env bash
# Measures the errors of the op table over many seeds and writes tests/autograd/largest_errors.inc; the tests
# allow five times these numbers. Only with --anew a number falls, since other machines and builds have
# reached it, and the lines of ops that these programs lack are deleted.
# Usage: scripts/checks/tolerances.sh [--anew] [--seeds N (40)] [test_autograd ...]
#   (default build/test_autograd; those of emulated builds too)
set -euo pipefail
cd "$(dirname "$0")/../.."

anew=0 seeds=40
while [ $# -gt 0 ]; do
  case $1 in
    --anew) anew=1 ;;
    --seeds) seeds=$2 && shift ;;
    -*) echo "unknown option $1" >&2 && exit 2 ;;
    *) break ;;
  esac
  shift
done
[ $# -gt 0 ] || set -- build/test_autograd

table=tests/autograd/largest_errors.inc
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
for program in "$@"; do
  for seed in $(seq 1 "$seeds"); do
    # Failures are what is measured.
    SACCADE_LARGEST_ERRORS=$errors SACCADE_TEST_SEED=$seed "$program" \
      --gtest_filter='op_*.gradcheck:op_*.f*:op_*.bf16:op_*.cuda*' > "$errors.log" 2>&1 || true
    grep -qE "suites? ran" "$errors.log" || { tail -5 "$errors.log" >&2 && exit 1; }
  done
done
rm -f "$errors.log"

awk -F'\t' -v anew="$anew" -v table="$table" '
  BEGIN {
    bands = split("f64\tgradcheck\tf32\tf32 gradient\tbf16\tbf16 gradient", band, "\t")
    while (!anew && (getline line < table) > 0) {
      n = split(line, part, /[{}", ]+/)
      ops[part[2]] = 1
      for (k = 1; k <= bands; ++k) largest[part[2], band[k]] = part[k + 2]
    }
    close(table)
  }
  { ops[$1] = 1; if ($3 > largest[$1, $2]) largest[$1, $2] = $3 }
  END {
    for (op in ops) {
      line = "{\"" op "\""
      for (k = 1; k <= bands; ++k) line = line ", " largest[op, band[k]] + 0
      print line "},"
    }
  }' "$errors" | LC_ALL=C sort > "$table.new"
mv "$table.new" "$table"
echo "wrote $table: $(wc -l < "$table") ops, $seeds seeds of $# programs"
