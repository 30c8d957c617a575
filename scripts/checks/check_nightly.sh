#!/usr/bin/env bash
# Prints a line for each part of scripts/nightly.sh whose row in docs/nightly.md is missing, or not that of a
# whole run that passed in this history at most 60 commits ago; nothing otherwise.
set -euo pipefail
cd "$(dirname "$0")/../.."
table=docs/nightly.md most=60

sed -n 's/^part \([^ ]*\) .*/\1/p' scripts/nightly.sh | while read -r part; do
  IFS='|' read -r _ _ what result _ _ _ commit _ < <(grep -s "^| $part |" "$table") ||
    { echo "scripts/nightly.sh: $part has no result in $table" && continue; }
  read -r result <<< "$result"
  read -r commit changes <<< "$commit"
  if [ "$result" != passed ]; then
    echo "scripts/nightly.sh: $part: ${result:-no result}"
  elif [ "$changes" != "" ]; then
    echo "scripts/nightly.sh: $part ran with changes that are in no commit"
  elif [[ $what == *"(short)"* ]]; then
    echo "scripts/nightly.sh: $part ran with --short"
  elif ! git merge-base --is-ancestor "${commit:-none}" HEAD 2> /dev/null; then
    echo "scripts/nightly.sh: $part ran on ${commit:-no commit}, which is not in this history"
  else
    commits=$(git rev-list --count "$commit..HEAD")
    [ "$commits" -le $most ] || echo "scripts/nightly.sh: $part ran $commits commits ago (at most $most)"
  fi
done
