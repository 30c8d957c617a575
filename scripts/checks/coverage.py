#!/usr/bin/env python3
"""Line coverage of the program's C++ by its tests on the CPU: builds with gcc's --coverage, runs the tests,
reads gcov, and prints a table of the folders (docs/reliability.md) and the files with the most lines that no
test runs.

Usage: scripts/checks/coverage.py [--build DIR] [--tests NAME...] [--only-report] [--lines FILE...]
  --tests        test programs in place of all: core autograd layers models data train
  --only-report  of what has run before
  --lines        print the lines of these files that no test runs
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["core", "autograd", "layers", "models", "data", "train"]


def build_and_run(build, tests):
    flags = "-O1 -DNDEBUG --coverage -fprofile-update=atomic"
    subprocess.run(
        ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_CXX_FLAGS={flags}",
         "-DSACCADE_CUDA=off", "-DSACCADE_WERROR=OFF"],
        check=True, stdout=subprocess.DEVNULL)
    targets = ["saccade", *(f"test_{t}" for t in tests)] if tests else []
    subprocess.run(["cmake", "--build", build, *(["--target", *targets] if targets else [])], check=True)
    for old in pathlib.Path(build).rglob("*.gcda"):
        old.unlink()
    # Smaller samples, as under sanitizers, reach the same lines.
    run = ["ctest", "--test-dir", build, "--output-on-failure", *(["-R", f"^({'|'.join(tests)})$"] if tests else [])]
    return subprocess.run(run, env={**os.environ, "SACCADE_FAST": "1"}).returncode


def counts_of(build):
    """{file: {line: how often it ran}}, over all objects, which the program and its tests share."""
    files = collections.defaultdict(dict)
    data = sorted(str(p.resolve()) for p in pathlib.Path(build).rglob("*.gcno"))
    for part in range(0, len(data), 16):
        text = subprocess.run(["gcov", "--json-format", "--stdout", *data[part:part + 16]], cwd=build,
                              capture_output=True, text=True).stdout
        for document in text.splitlines():
            for entry in json.loads(document)["files"]:
                path = pathlib.Path(build, entry["file"]).resolve()
                if not path.is_relative_to(ROOT):
                    continue
                name = str(path.relative_to(ROOT))
                if name.split("/")[0] not in FOLDERS:
                    continue
                lines = files[name]
                for line in entry["lines"]:
                    number = line["line_number"]
                    lines[number] = lines.get(number, 0) + line["count"]
    return files


def print_table(files):
    folders = collections.defaultdict(lambda: [0, 0])
    for name, lines in files.items():
        parts = name.split("/")
        folder = "/".join(parts[:2]) if len(parts) > 2 else parts[0]
        for key in (folder, "all"):
            folders[key][0] += len(lines)
            folders[key][1] += sum(count > 0 for count in lines.values())
    print("| folder | lines | run by a test |\n| --- | --- | --- |")
    for folder, (lines, run) in sorted(folders.items(), key=lambda item: (item[0] == "all", item[0])):
        print(f"| {folder} | {lines:,} | {100 * run / lines:.1f} % |")
    missed = sorted(((sum(c == 0 for c in lines.values()), name) for name, lines in files.items()), reverse=True)
    print("\nmost lines that no test runs:")
    for count, name in missed[:25]:
        print(f"{count:5} of {len(files[name]):5}  {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build-coverage"))
    parser.add_argument("--tests", nargs="+", default=[])
    parser.add_argument("--only-report", action="store_true")
    parser.add_argument("--lines", nargs="+", default=[])
    arguments = parser.parse_args()
    status = 0 if arguments.only_report else build_and_run(arguments.build, arguments.tests)
    files = counts_of(arguments.build)
    if not files:
        sys.exit("coverage.py: nothing has run yet")
    print_table(files)
    for name in arguments.lines:
        source = (ROOT / name).read_text().splitlines()
        for number, count in sorted(files[name].items()):
            if count == 0:
                print(f"{name}:{number}: {source[number - 1]}")
    sys.exit(status)


if __name__ == "__main__":
    main()
