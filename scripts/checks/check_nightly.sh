#!/usr/bin/env bash
# Prints a line for each part of scripts/nightly.sh that has not run, has failed, or last ran more than 60
# commits ago; nothing otherwise.
set -euo pipefail
cd "$(dirname "$0")/../.."
table=docs/nightly.md most=60

sed -n 's/^part \([a-z]*\) .*/\1/p' scripts/nightly.sh | while read -r part; do
  IFS='|' read -r _ _ _ result _ _ _ commit _ < <(grep -s "^| $part |" "$table") ||
    { echo "scripts/nightly.sh: $part has no result in $table" && continue; }
  result=${result// /} commit=$(awk '{ print $1 }' <<< "$commit")
  if [ "$result" = FAILED ]; then
    echo "scripts/nightly.sh: $part failed"
  elif ! commits=$(git rev-list --count "$commit..HEAD" 2> /dev/null); then
    echo "scripts/nightly.sh: $part ran on $commit, which this clone does not have"
  elif [ "$commits" -gt $most ]; then
    echo "scripts/nightly.sh: $part ran $commits commits ago (at most $most)"
  fi
done
