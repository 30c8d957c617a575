#!/usr/bin/env bash
# Cuts the examples out of a page, so that the tests build and run what the page shows: the fenced block after
# each line "<!-- example: NAME -->" becomes the file OUT/NAME. A file whose text has not changed is left
# alone.
# Usage: scripts/cmake/cut_examples.sh PAGE.md OUT
set -euo pipefail
page=$1
out=$2
mkdir -p "$out"
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
awk -v out="$new" '
  match($0, /^<!-- example: [A-Za-z0-9_.]+ -->$/) { name = $3; next }
  /^```/ { if (inside) { close(file); inside = 0; name = "" } else if (name != "") { inside = 1; file = out "/" name }; next }
  inside { print > file }
' "$page"
for file in "$new"/*; do
  [ -e "$file" ] || { echo "error: cut_examples.sh: no example in $page" >&2; exit 1; }
  cmp -s "$file" "$out/$(basename "$file")" || cp "$file" "$out/"
done
