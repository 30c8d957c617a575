#!/usr/bin/env bash
# Fails if a C++ file of the project is not formatted as .clang-format says, or if a comment in a source,
# script, recipe or CMake file is wider than 110 columns. --fix formats the C++ files (but wraps no comment).
set -euo pipefail
cd "$(dirname "$0")/../.."

tool=$(command -v clang-format-14 || command -v clang-format) || {
  echo "error: check_format.sh: no clang-format; run scripts/setup.sh --checks" >&2
  exit 1
}
mode=(--dry-run -Werror)
[ "${1:-}" = --fix ] && mode=(-i)
mapfile -d '' files < <(git ls-files -z -- '*.h' '*.cpp' '*.cu' '*.cuh')
[ ${#files[@]} -gt 0 ] || exit 0
"$tool" --style=file "${mode[@]}" "${files[@]}"
mapfile -d '' others < <(git ls-files -z -- '*.hpp' '*.h.in' '*.proto')
mapfile -d '' scripts < <(git ls-files -z -- .ci/run '*.sh' '*.py' '*.awk' '*.cmake' '*CMakeLists.txt' '*.textproto' \
  '*.map' '*.toml' '*Dockerfile')
refuse_wide() { # pattern of a comment's line, files...
  awk -v comment="$1" 'length > 110 && ($0 ~ comment || FILENAME ~ /[.]h[.]in$/) {
    print "error: " FILENAME ":" FNR ": a comment of " length " columns, expected at most 110"
    failed = 1
  } END { exit failed }' "${@:2}" >&2
}
refuse_wide '^[ \t]*/[/*]' "${files[@]}" "${others[@]}"
refuse_wide '^[ \t]*# ' "${scripts[@]}"
echo "format: ${#files[@]} files are as .clang-format says"
