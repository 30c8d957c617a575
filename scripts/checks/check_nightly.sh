#!/usr/bin/env bash
# Prints a line when scripts/nightly.sh has not run, has failed, or has run more than 60 commits ago; prints nothing otherwise.
set -euo pipefail
cd "$(dirname "$0")/../.."
table=docs/nightly.md most=60

# shellcheck disable=SC2016  # the backquotes are the page's
commit=$(sed -n 's/^Commit: `\(.*\)`.*/\1/p' "$table" 2> /dev/null || true)
if [ -z "$commit" ]; then
  echo "scripts/nightly.sh has no result in $table"
elif ! commits=$(git rev-list --count "$commit..HEAD" 2> /dev/null); then
  echo "$table is of $commit, which this clone does not have"
elif [ "$commits" -gt $most ]; then
  echo "scripts/nightly.sh ran $commits commits ago (at most $most)"
fi
if grep -q '| FAILED |' "$table" 2> /dev/null; then
  echo "scripts/nightly.sh failed: $table"
fi
