#!/usr/bin/env bash
# Fails on an include that runs against the direction of the folders (docs/architecture.md):
#   train -> models -> layers -> autograd -> core,   train -> data -> core,   tests -> all;
# and on protobuf anywhere but in train (and tests), or a header named without its folder. Prints file:line:text.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A allowed=(
  [core]='core'
  [autograd]='core|autograd'
  [layers]='core|autograd|layers'
  [models]='core|autograd|layers|models'
  [data]='core|data'
  [train]='core|autograd|layers|models|data|train|configs'
  [tests]='core|autograd|layers|models|data|train|configs|tests'
)

failed=0
checked=0
report() { # title, offending lines
  if [ -n "$2" ]; then
    printf 'error: %s:\n%s\n' "$1" "$2" >&2
    failed=1
  fi
}
for folder in core autograd layers models data train tests; do
  mapfile -d '' files < <(git ls-files -z -- "$folder/*.h" "$folder/*.cpp" "$folder/*.cu" "$folder/*.cuh")
  [ ${#files[@]} -gt 0 ] || continue
  checked=$((checked + ${#files[@]}))
  report "$folder may include only ${allowed[$folder]//|/, } (headers named from the root)" \
    "$(grep -nHE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "${files[@]}" |
      grep -vE "include[[:space:]]*\"(${allowed[$folder]})/" || true)"
  case "$folder" in
    train | tests) ;;
    *) report "$folder knows nothing of protobuf" \
      "$(grep -nHE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"](google/protobuf|configs/)' "${files[@]}" || true)" ;;
  esac
done
[ $failed = 0 ] && echo "includes: $checked files follow the direction of the folders"
exit $failed
