#!/usr/bin/env bash
# Fails on a source file of over 400 lines (tests and data tables excepted), on a folder with over 22 source
# files, and on a page that is longer than people read. Justified exceptions are listed below; an exception
# that is no longer needed is an error too.
set -euo pipefail
cd "$(dirname "$0")/../.."

exceptions=(
)

# Pages, and how many lines each may have.
pages=("README.md 150" "docs/performance.md 200")
for page in "${pages[@]}"; do
  read -r name most <<< "$page"
  lines=$(wc -l < "$name")
  [ "$lines" -le "$most" ] || {
    echo "error: $name: $lines lines, expected at most $most" >&2
    exit 1
  }
done

mapfile -t files < <(git ls-files -- core autograd layers models data train tests | grep -E '\.(h|cpp|cu|cuh)$')
exceptions=$(printf '%s\n' "${exceptions[@]}") awk '
  function fault(text) { print "error: " text > "/dev/stderr"; failed = 1 }
  function check(name, size, most, what) {
    if (size > most && !(name in excepted)) fault(name ": " size " " what ", expected at most " most)
    if (size <= most && name in excepted) fault(name ": needs no exception in scripts/checks/check_sizes.sh")
    delete excepted[name]
  }
  BEGIN {
    count = split(ENVIRON["exceptions"], names, "\n")
    for (i = 1; i <= count; ++i) if (names[i] != "") excepted[names[i]] = 1
  }
  { ++lines[FILENAME] }
  END {
    for (i = 1; i < ARGC; ++i) {
      folder = ARGV[i]
      sub("/[^/]*$", "", folder)
      # A header and its source count as one.
      thing = ARGV[i]
      sub(/\.[a-z]+$/, "", thing)
      if (!(thing in seen)) ++things[folder]
      seen[thing] = 1
      if (ARGV[i] !~ /^tests\//) check(ARGV[i], lines[ARGV[i]] + 0, 400, "lines")
    }
    for (folder in things) check(folder, things[folder], 22, "source files (a header and its source count once)")
    for (name in excepted) fault(name ": is not there, but an exception in scripts/checks/check_sizes.sh")
    if (!failed) print "sizes: " ARGC - 1 " files and their folders"
    exit failed
  }
' "${files[@]}"
