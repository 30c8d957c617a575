#!/usr/bin/env bash
# Measures the errors of the op table over many seeds and writes tests/autograd/largest_errors.inc; the tests
# allow five times these numbers. Only with --anew a number falls, since other machines and builds have
# reached it, and the lines of ops that these programs lack are deleted. With --check the new table becomes
# FILE; exit status 1 if a test fails with one of the seeds, or would refuse one of the new numbers.
# Usage: scripts/checks/tolerances.sh [--anew | --check FILE] [--seeds N (40)] [test_autograd ...]
#   (default build/test_autograd; those of emulated builds too)
set -euo pipefail
cd "$(dirname "$0")/../.."

anew=0 seeds=40 table=tests/autograd/largest_errors.inc
written=$table
while [ $# -gt 0 ]; do
  case $1 in
    --anew) anew=1 ;;
    --check) written=$2 && shift ;;
    --seeds) seeds=$2 && shift ;;
    -*) echo "unknown option $1" >&2 && exit 2 ;;
    *) break ;;
  esac
  shift
done
[ $# -gt 0 ] || set -- build/test_autograd

errors=$(mktemp) failed=0
trap 'rm -f "$errors"' EXIT
for program in "$@"; do
  for seed in $(seq 1 "$seeds"); do
    # Failures are what is measured, but a result that is no number has no error.
    SACCADE_LARGEST_ERRORS=$errors SACCADE_TEST_SEED=$seed "$program" \
      --gtest_filter='op_*.gradcheck:op_*.f*:op_*.bf16:op_*.cuda*' > "$errors.log" 2>&1 ||
      if [ "$written" != "$table" ]; then
        failed=1
        grep -A 4 -m 3 'Failure$' "$errors.log" >&2 || tail -n 5 "$errors.log" >&2
      fi
    grep -qE '^\[=+\] [1-9][0-9]* tests? from .* ran' "$errors.log" || { tail -5 "$errors.log" >&2 && exit 1; }
  done
done
rm -f "$errors.log"

status=$failed
awk -F'\t' -v anew="$anew" -v table="$table" '
  BEGIN {
    bands = split("f64\tgradcheck\tf32\tf32 gradient\tbf16\tbf16 gradient", band, "\t")
    while (!anew && (getline line < table) > 0) {
      n = split(line, part, /[{}", ]+/)
      ops[part[2]] = 1
      for (k = 1; k <= bands; ++k) old[part[2], band[k]] = largest[part[2], band[k]] = part[k + 2]
    }
    close(table)
  }
  { ops[$1] = 1; if ($3 > largest[$1, $2]) largest[$1, $2] = $3 }
  END {
    for (op in ops) {
      line = "{\"" op "\""
      for (k = 1; k <= bands; ++k) {
        now = largest[op, band[k]] + 0
        before = old[op, band[k]] + 0
        line = line ", " now
        larger += now > before
        if (now > 5 * before) { print op ", " band[k] ": " now ", before " before > "/dev/stderr"; ++refused }
      }
      print line "},"
    }
    print larger + 0 " numbers are larger than before, " refused + 0 " more than five times as large" > "/dev/stderr"
    exit refused > 0
  }' "$errors" | LC_ALL=C sort > "$written.new" || status=1
mv "$written.new" "$written"
echo "wrote $written: $(wc -l < "$written") ops, $seeds seeds of $# programs"
[ "$written" = "$table" ] || exit $status
