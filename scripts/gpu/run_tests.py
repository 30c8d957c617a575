#!/usr/bin/env python3
"""Runs the tests of a GoogleTest program in several processes at once and never loses a result: a test that
crashes or hangs costs only itself (later ones of its process run in the next), and every failed test is run
again alone, with launches that wait (SACCADE_CUDA_SYNC=1), so that the kernel is named and consequences of
other failures are told apart.

    run_tests.py [--jobs 8] [--limit 540] [--test-limit 120] [--log FOLDER] [--prefix COMMAND] [--bad REGEX] [--plant]
                 PROGRAM FILTER

Prints the failures with their first lines and ends with one line: how many passed, failed and were not run.
Exits with 0 if all passed; a skipped test has not passed, nor has a filter that matches none. FOLDER keeps
each process's whole output. --prefix: a tool to run the program under (compute-sanitizer), --bad: what it
prints when it finds something, in which case the test that ran then has failed. --plant: also the program's
tests Planted.DISABLED_*, which fail and crash, to check that this is reported.
"""
import argparse
import collections
import concurrent.futures
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("--jobs", type=int, default=8)
parser.add_argument("--limit", type=float, default=540, help="seconds for all tests together")
parser.add_argument("--test-limit", type=float, default=120, help="seconds for one test")
parser.add_argument("--log", default="")
parser.add_argument("--name", default="", help="of the log files; else the program's")
parser.add_argument("--prefix", default="")
parser.add_argument("--bad", default="")
parser.add_argument("--plant", action="store_true")
parser.add_argument("program")
parser.add_argument("filter")
args = parser.parse_args()

deadline = time.monotonic() + args.limit
name = args.name or os.path.basename(args.program)
command = shlex.split(args.prefix) + [args.program, "--gtest_color=no", "--gtest_also_run_disabled_tests"]
SHARE_ALONE = 0.25  # share of the time kept for running failures alone
log_lock = threading.Lock()
processes = set()


def stop(*_):
    """Ends all tests at once; the findings so far are still reported."""
    global deadline
    deadline = 0
    for process in list(processes):
        kill(process)


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)


def write_log(text):
    if args.log:
        with log_lock, open(os.path.join(args.log, name + ".log"), "a") as file:
            file.write(text)


def list_tests(pattern):
    listed = subprocess.run([args.program, "--gtest_list_tests", f"--gtest_filter={pattern}"], capture_output=True, text=True,
                            timeout=120, check=False)
    if listed.returncode != 0:
        sys.exit(f"error: run_tests.py: {args.program} cannot list its tests: {(listed.stdout + listed.stderr)[-300:].strip()}")
    tests, suite = [], ""
    for line in listed.stdout.splitlines():
        line = line.split("#")[0].rstrip()
        if line and not line.startswith(" "):
            suite = line
        elif line and suite:
            tests.append(suite + line.strip())
    return tests


# After one of these a process can do nothing more on the GPU: its later tests would fail through no fault of
# their own.
STICKY = re.compile("illegal memory access|misaligned address|unspecified launch failure|illegal instruction|"
                    "device-side assert")
Outcome = collections.namedtuple("Outcome", "verdict seconds text")  # verdict: passed, failed, skipped, crashed, hung


def run(tests, share, environment=None):
    """One process over `tests`, until this share of the time is over. Returns the outcomes of the tests that
    began."""
    process = subprocess.Popen(command + ["--gtest_filter=" + ":".join(tests)], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}, start_new_session=True)
    processes.add(process)
    current, lines, began, outcomes, everything = None, [], 0, {}, []
    state = {"last": time.monotonic(), "why": None}

    def watch():
        while process.poll() is None:
            now, until = time.monotonic(), deadline - (1 - share) * args.limit
            if now > until or now - state["last"] > args.test_limit:
                state["why"] = "the time is up" if now > until else f"longer than {args.test_limit:.0f} s"
                kill(process)
                return
            time.sleep(0.2)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for raw in process.stdout:
        line = raw.decode(errors="replace")
        everything.append(line)
        begin = re.match(r"\[ RUN      \] (\S+)", line)
        end = re.match(r"\[ +(OK|FAILED|SKIPPED) +\] ([^ ,]+).*\(\d+ ms\)", line)
        if begin:
            current, lines, began = begin.group(1), [], time.monotonic()
            state["last"] = began
        elif end and end.group(2) == current:
            verdict = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[end.group(1)]
            found = args.bad and next((i for i, l in enumerate(lines) if re.search(args.bad, l)), None)
            if found not in ("", None):
                verdict, lines = "failed", lines[found:]
            outcomes[current] = Outcome(verdict, time.monotonic() - began, "".join(lines))
            current = None
            state["last"] = time.monotonic()
            if verdict == "failed" and any(STICKY.search(text) for text in lines):
                state["why"] = "the GPU's context is lost"
                kill(process)
                break
        else:
            lines.append(line)
    process.stdout.close()
    status = process.wait()
    watcher.join()
    if deadline == 0:
        state["why"] = "the time is up"
    processes.discard(process)
    if current is not None:
        why = state["why"] or f"exit status {status}"
        verdict = "not run" if state["why"] == "the time is up" else "hung" if state["why"] else "crashed"
        if verdict != "not run":
            outcomes[current] = Outcome(verdict, time.monotonic() - began, f"{why}\n" + "".join(lines[-12:]))
    elif status not in (0, 1) and state["why"] is None:  # e.g. a tool's report at the end
        for test in list(outcomes)[-1:]:
            outcomes[test] = Outcome("crashed", 0, f"exit status {status} after the last test\n" + "".join(everything[-12:]))
    write_log("".join(everything))
    return outcomes, status


def run_share(tests):
    """All tests of a share, in as many processes as it takes."""
    share = 1 - SHARE_ALONE
    outcomes, rest = {}, tests
    while rest and time.monotonic() < deadline - SHARE_ALONE * args.limit:
        found, status = run(rest, share)
        outcomes.update(found)
        left = [test for test in rest if test not in found]
        if len(left) == len(rest):  # it does not even begin
            outcomes[left[0]] = Outcome("crashed", 0, f"exit status {status} before its first line")
            left = left[1:]
        rest = left
    return outcomes


tests = list_tests(args.filter)
tests = [test for test in tests if ".DISABLED_" not in test and not test.startswith("DISABLED_")]
if args.plant:
    tests += list_tests("Planted.*")
if not tests:
    sys.exit(f"FAILED: {name} has no test named {args.filter}")
jobs = max(1, min(args.jobs, len(tests)))
outcomes = {}
with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    for found in pool.map(run_share, [tests[i::jobs] for i in range(jobs)]):
        outcomes.update(found)


def first_lines(text):
    for line in [line.rstrip()[:200] for line in text.splitlines() if line.strip()][:12]:
        print("    " + line)


# Runs the suspects again, one process each, with nothing beside them. For some minutes at most: a table comes
# first.
bad = [test for test in tests if test in outcomes and outcomes[test].verdict in ("failed", "crashed", "hung")]
only_beside_others, skipped = [], []
for test in bad:
    if time.monotonic() > deadline - 2:
        print(f"{outcomes[test].verdict}: {test} (no time to run it alone)")
        first_lines(outcomes[test].text)
        continue
    write_log(f"---- alone: {test}\n")
    alone, _ = run([test], 1, {"SACCADE_CUDA_SYNC": "1"})
    result = alone.get(test, Outcome("not run", 0, "the time is up"))
    if result.verdict == "passed":
        only_beside_others.append(test)
    print(f"{outcomes[test].verdict}: {test}; alone: {result.verdict}")
    first_lines((result if result.verdict != "passed" else outcomes[test]).text)
skipped = [test for test in tests if test in outcomes and outcomes[test].verdict == "skipped"]
for test in skipped[:5]:
    print(f"skipped: {test}")
    first_lines(outcomes[test].text)

passed = sum(outcome.verdict == "passed" for outcome in outcomes.values())
missing = len(tests) - len(outcomes)
slowest = max(outcomes.items(), key=lambda item: item[1].seconds, default=("", Outcome("", 0, "")))
parts = [f"{passed} of {len(tests)} tests passed"]
for count, what in ((len(bad), "failed"), (len(only_beside_others), "of them passed alone"), (len(skipped), "skipped"),
                    (missing, "not run: the time was up")):
    if count:
        parts.append(f"{count} {what}")
print(f"{name}: {', '.join(parts)}; {jobs} processes, slowest {slowest[0]} {slowest[1].seconds:.1f} s")
sys.exit(0 if passed == len(tests) else 1)
