#!/usr/bin/env python3
"""Do the tests notice when the program is wrong? Changes hundreds of places in the sources, one at a time,
and runs the tests.

All changes (mutants) are in one build, each behind a check of the environment's SACCADE_MUTANT
(tests/mutants/mutants.h): flipped signs, dropped terms and statements, bounds off by one, inverted or dropped
conditions, max for min, doubled constants, other results. What does not compile, or names a thread of a GPU,
is left out. A run with all of them off records which tests reach which mutant; these tests then run with the
mutant on, quick ones first, until one fails, crashes or takes ten times its time (plus 10 s).

Usage: scripts/checks/mutate.py [--each N] [--seed N] [--minutes N] [--again] [--only GROUP...]
       [--tests NAME...] [--as-built]
Results are kept in build-mutants/results.jsonl, where the next call continues. CPU only; needs about 3 GB.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build-mutants"
TREE, BUILD = WORK / "tree", WORK / "build"
TESTS = ["core", "autograd", "layers", "models", "data", "train"]

# Groups of places by purpose; the first pattern that fits gives a file's group.
GROUPS = {
    "matcher": r"models/detection/(matcher|assignment)\.cpp|core/kernels/(match_cost|matched_iou)/",
    "losses": r"models/detection/|core/kernels/losses/|autograd/ops/losses/",
    "optimizers, schedules": r"train/optimizers/|core/kernels/optimizer/",
    "CPU kernels": r"core/kernels/.*_cpu(_\w+)?\.(cpp|h)$",
    "generic kernels": r"core/kernels/(?!random/|bf16_shadow/).*\.(cpp|h)$",
    "autograd": r"autograd/",
    "layers": r"layers/(?!args)|models/(common|deformable_detr|rt_detr|dino|detr)/(?!weights)",
    "evaluator": r"data/evaluation/",
    "readers": r"core/files/(?!descriptors|temporary|output_file)|core/formats/|data/formats/(?!.*check)",
    "images": r"data/images/(?!draw|font)",
    "augmentations": r"data/augment/|data/loading/",
}
NOT_HERE = re.compile(r"cuda|column_tiles\.h|mma_|distributed/|_ranks|names\.cpp|function_list")

# Lines that name a thread of a GPU: a build for the CPU leaves them out.
ON_GPU = re.compile(r"\b(thread|block)Idx\b")

# A line with one of these is left alone: it does not run, or is text for people.
LEAVE = re.compile(r"^\s*#|constexpr|static_assert|\b(template|using|case|throw|namespace|struct|class|asm|requires)\b"
                   r"|\bfail\w*\(|SACCADE_\w+\(|^\s*(static )?const char|fmt::|register|kernel_|operator|\[\["
                   r"|^[\w:].*\) (const )?{")


def masked(text):
    """The text with comments, strings and preprocessor lines replaced by spaces, at the same places."""
    pattern = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'(?!\d)|//[^\n]*|/\*.*?\*/'
                         r"|^[ \t]*#(?:\\\n|[^\n])*", re.S | re.M)
    return pattern.sub(lambda m: re.sub(r"[^\n]", "\x01" if m[0][0] in "R\"'" else " ", m[0]), text)


def closing(text, start):
    """The place of the bracket that closes the one at `start`, or -1."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    return -1


def candidates(line, before, rng):
    """All changes of a masked line: (what, [(place, characters to drop, text)]); {} in the text stands for
    the number."""
    found = []
    if LEAVE.search(line):
        return found
    for m in re.finditer(r" ([-+]=?|[*/]=?) (?=[\w(*])", line):
        op = m[1][0]
        if m[1][-1] == "=" and "\x01" in line:
            continue
        change = rng.choice(["-1", "0"] if op in "+-" else ["-1", "2"])
        text = f"mutants::one({{}}, {change}) {'/' if m[1] == '/' else '*'} "
        found.append((f"{m[1]} {change} {'/' if m[1] == '/' else '*'}", [(m.end(), 0, text)]))
    for m in re.finditer(r" (<=?|>=?) (?=[\w(*-])", line):
        change = rng.choice(["1", "-1"])
        found.append((f"{m[1]} {change} +", [(m.end(), 0, f"mutants::zero({{}}, {change}) + ")]))
    for m in re.finditer(r"\bfor \([\w:]+ \w+ = (?=[\w(])", line):
        found.append(("starts one later", [(m.end(), 0, "mutants::zero({}, 1) + ")]))
    for m in re.finditer(r"\b(if|while) (?=\()", line):
        end = closing(line, m.end())
        inner = line[m.end() + 1:end]
        if end < 0 or ";" in inner or " = " in inner:
            continue
        kind = rng.choice("nntf" if m[1] == "if" else "f")
        what = {"n": "not ", "t": "always ", "f": "never "}[kind]
        found.append((what + line[m.end():end + 1], [(m.end() + 1, 0, f"mutants::condition({{}}, '{kind}', static_cast<bool>("),
                                                     (end, 0, "))")]))
    for m in re.finditer(r"\bstd::(max|min)(<[\w:]+>)?\(", line):
        generic = m[2] or ""
        found.append((f"not the {m[1]}", [(m.start(), m.end() - m.start(), f"mutants::{m[1]}{generic}({{}}, ")]))
    for m in re.finditer(r"(?<![\w.])\d+\.(\d+)?(e-?\d+)?f?(?![\w.])", line):
        zero = float(m[0].rstrip("f")) == 0
        found.append((f"{m[0]} {'+ 1' if zero else '* 2'}", [
            (m.start(), 0, "(mutants::zero({}, 1) + " if zero else "(mutants::one({}, 2) * "), (m.end(), 0, ")")]))
    ends_before = re.search(r"[;{}:]\s*$|^\s*$", before) is not None
    m = re.match(r"\s+return ([^;{}]+);$", line)
    if m and "\x01" not in line and not re.match(r"(false|true|nullptr|std::move.*|\{.*)$", m[1]) and ends_before:
        found.append(("another result", [(m.start(1), 0, "mutants::result({}, "), (m.end(1), 0, ")")]))
    m = re.match(r"(\s+)((?:[\w.\[\]]|->)+ [-+*/|&]?= [^;{}]*|(?:[\w.\[\]]|->|::)+\([^;{}]*\));$", line)
    is_whole = ends_before and "\x01" not in line and line.count("(") == line.count(")")
    if m and is_whole and not re.match(r"\s*(return|delete)\b", line):
        found.append(("dropped", [(m.start(2), 0, "{{ if (!mutants::on({})) "), (m.end(), 0, " }}")]))
    return found


def tracked_files():
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


def find_mutants(seed, each):
    """Each group's lines in the order of the seed, one mutant per line; at most `each` of a group, and few of
    a file."""
    rng = random.Random(seed)
    groups = collections.defaultdict(list)
    for name in sorted(tracked_files()):
        group = next((g for g, pattern in GROUPS.items() if re.match(pattern, name)), None)
        # Headers outside the kernels are included by most files, also by the tests.
        is_own = name.endswith(".cpp") or (name.endswith(".h") and name.startswith("core/kernels/"))
        if not group or not is_own or NOT_HERE.search(name):
            continue
        lines = masked((ROOT / name).read_text()).splitlines()
        places = []
        for number, line in enumerate(lines):
            options = candidates(line, lines[number - 1] if number else "", rng)
            if options:
                what, edits = rng.choice(options)
                text = (ROOT / name).read_text().splitlines()[number].strip()
                places.append({"group": group, "file": name, "line": number + 1, "text": text, "what": what, "edits": edits})
        rng.shuffle(places)
        # The rank within its file: a group is filled from all its files in turn.
        groups[group] += [((rank + rng.random()) / max(len(places), 8), place) for rank, place in enumerate(places)]
    chosen = []
    for group in GROUPS:
        ranked = sorted(groups[group], key=lambda item: item[0])
        chosen += [place for _, place in ranked[:each]]
    rng.shuffle(chosen)
    for number, mutant in enumerate(chosen, 1):
        mutant["id"] = number
    return [m for m in chosen if not ON_GPU.search(m["text"])]


def key_of(mutant):
    return f"{mutant['file']}|{mutant['text']}|{mutant['what']}|{mutant['edits'][0][0]}"


def write_if_changed(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != text:
        path.write_bytes(text)


def write_tree(mutants):
    """The sources with every mutant that is left."""
    by_file = collections.defaultdict(list)
    for mutant in mutants:
        by_file[mutant["file"]].append(mutant)
    for name in tracked_files():
        text = (ROOT / name).read_bytes()
        if name in by_file:
            lines = text.decode().splitlines(keepends=True)
            for mutant in by_file[name]:
                line = lines[mutant["line"] - 1]
                for place, drop, insert in sorted(mutant["edits"], reverse=True):
                    line = line[:place] + insert.format(mutant["id"]) + line[place + drop:]
                lines[mutant["line"] - 1] = line
            text = "".join(lines).encode()
        write_if_changed(TREE / name, text)
        (TREE / name).chmod((ROOT / name).stat().st_mode)  # CMake runs scripts
    for test in TESTS:
        write_if_changed(TREE / "tests" / test / "mutant_listener.cpp", (ROOT / "tests/mutants/listener.cpp").read_bytes())
    write_if_changed(WORK / "mutants.h", (ROOT / "tests/mutants/mutants.h").read_bytes())


def build(mutants):
    """Builds, and leaves out what does not compile. Returns the mutants that are in the programs."""
    dropped_file = WORK / "dropped.json"
    dropped = set(json.loads(dropped_file.read_text())) if dropped_file.exists() else set()
    for _ in range(12):
        mutants = [m for m in mutants if key_of(m) not in dropped]
        write_tree(mutants)
        flags = f"-O1 -std=c++20 -DNDEBUG -include {WORK / 'mutants.h'}"
        subprocess.run(["cmake", "-S", TREE, "-B", BUILD, "-G", "Ninja", f"-DCMAKE_CXX_FLAGS={flags}",
                        *"-DCMAKE_BUILD_TYPE=None -DSACCADE_CUDA=off -DSACCADE_WERROR=OFF -DSACCADE_LIBRARY=OFF".split(),
                        "-DCMAKE_DISABLE_FIND_PACKAGE_Git=ON"], check=True, stdout=subprocess.DEVNULL)
        run = subprocess.run(["ninja", "-C", BUILD, "-k", "0", "-j", str(os.cpu_count())], capture_output=True, text=True)
        if run.returncode == 0:
            return mutants
        (WORK / "build.log").write_text(run.stdout)
        places = collections.defaultdict(dict)
        for mutant in mutants:
            places[mutant["file"]][mutant["line"]] = mutant
        bad = set()
        # The places of an error: its own, or those that its message names (templates).
        for message in re.split(r"\n(?=\S+:\d+:\d+: error:)", "\n" + run.stdout)[1:]:
            named = re.findall(re.escape(str(TREE)) + r"/(\S+?):(\d+)(?::\d+)?", message)
            named += re.findall(r"\.\./tree/(\S+?):(\d+)", message)
            near = [places[f][int(line) + d] for f, line in named for d in (0, -1, 1) if int(line) + d in places.get(f, {})]
            bad |= {key_of(m) for m in near[:1]}
        if not bad - dropped:
            sys.exit("mutate.py: the copy does not build, see build-mutants/build.log\n" + run.stdout[-3000:])
        dropped |= bad
        dropped_file.write_text(json.dumps(sorted(dropped)))
        print(f"{len(bad)} places do not compile and are left out", flush=True)
    sys.exit("mutate.py: the copy does not build, see build-mutants/build.log")


def limits():
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (40 << 30, 40 << 30))


def run_tests(program, tests, mutant, seconds, trace=None):
    """Runs tests of a program: (passed, the first that failed or the last that began, the end of the
    output)."""
    environment = {**os.environ, "SACCADE_MUTANT": str(mutant), "OMP_NUM_THREADS": "1", "SACCADE_FAST": "1"}
    if tests:
        environment["GTEST_FILTER"] = ":".join(tests)
    if trace:
        environment["SACCADE_MUTANT_TRACE"] = str(trace)
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder, open(pathlib.Path(folder, "out"), "w+b") as out:
        environment["TMPDIR"] = folder
        arguments = [BUILD / f"test_{program}", *([] if trace else ["--gtest_fail_fast"])]
        process = subprocess.Popen(arguments, env=environment, cwd=BUILD, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT, preexec_fn=limits)
        # Time in which this script or the test is stopped (a stopped job) does not count.
        counted, last = 0.0, time.monotonic()
        while process.poll() is None and counted < seconds and out.tell() < 1 << 30:
            time.sleep(0.02)
            now = time.monotonic()
            try:
                stopped = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
            except OSError:
                stopped = False
            counted += 0 if stopped else min(now - last, 0.5)
            last = now
        late = process.poll() is None
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass
        status = process.wait()
        out.seek(max(0, os.fstat(out.fileno()).st_size - 200000))
        text = out.read().decode(errors="replace")
    failed = re.findall(r"^\[  FAILED  \] ([\w./]+\.[\w./]+)", text, re.M)
    begun = re.findall(r"^\[ RUN      \] (\S+)", text, re.M)
    first = failed[0] if failed else begun[-1] if begun else "?"
    how = "time" if late else "failed" if failed else f"status {status}"
    return (not late and status == 0), first, how, text[-1500:], failed


def trace_program(program):
    """Runs a test program with all mutants off and records which test reaches which mutant, unless known."""
    file, done = WORK / f"trace-{program}", WORK / f"trace-{program}.json"
    if done.exists() and done.stat().st_mtime > (BUILD / f"test_{program}").stat().st_mtime:
        return json.loads(done.read_text())
    file.unlink(missing_ok=True)
    began = time.monotonic()
    passed, _, how, end, failed = run_tests(program, [], -1, 3600, file)
    print(f"test_{program} with all mutants off: {'passes' if passed else how}, {time.monotonic() - began:.0f} s", flush=True)
    if not passed:
        print("\n".join(failed) or end, flush=True)
    tests, children = [], set()
    for line in file.read_text().splitlines():
        kind, name, *numbers = line.split()
        if kind == "exit":
            children.update(map(int, numbers))
            continue
        if name not in failed:
            tests.append((int(numbers[0]), name, sorted(children | set(map(int, numbers[1:])))))
        children = set()
    done.write_text(json.dumps(tests))
    return tests


def trace_tests(programs):
    """{mutant: [(milliseconds, program, test)]} of the tests that pass while all mutants are off."""
    reached = collections.defaultdict(list)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for program, tests in zip(programs, pool.map(trace_program, programs), strict=True):
            for milliseconds, name, numbers in tests:
                for number in numbers:
                    reached[number].append((milliseconds, program, name))
    return reached


def try_mutant(mutant, tests, budget):
    """('caught', test, how), or ('survived', how many tests, '')."""
    batches, limit, taken, whole = [[]], 500, 0, 0
    for ms, program, name in sorted(tests):
        if whole + ms > budget * 1000 and whole > 0:
            break
        if taken + ms > limit and batches[-1]:
            batches.append([])
            limit, taken = limit * 3, 0
        batches[-1].append((ms, program, name))
        taken, whole = taken + ms + 1, whole + ms + 1
    for batch in batches:
        programs = collections.defaultdict(list)
        for ms, program, name in batch:
            programs[program].append((ms, name))
        for program, part in programs.items():
            for start in range(0, len(part), 1500):
                some = part[start:start + 1500]
                seconds = 10 + 10 * sum(ms for ms, _ in some) / 1000
                passed, test, how, _, _ = run_tests(program, [name for _, name in some], mutant["id"], seconds)
                if not passed:
                    return "caught", f"{program}:{test}", how
    count = sum(map(len, batches))
    return "survived", str(count), "" if count == len(tests) else f"of {len(tests)}"


def print_table(mutants, results):
    print("\n| group | mutants | caught | survivors |\n| --- | --- | --- | --- |")
    done = [(m, results[key_of(m)]) for m in mutants if key_of(m) in results]
    for group in [*GROUPS, "all"]:
        of = [r for m, r in done if group in ("all", m["group"])]
        caught = sum(r["verdict"] == "caught" for r in of)
        share = f" ({100 * caught / len(of):.1f} %)" if of else ""
        print(f"| {group} | {len(of)} | {caught}{share} | {len(of) - caught} |")
    late = sum(r["how"] == "time" for _, r in done)
    print(f"\n{late} of the caught ones by a timeout; {len(mutants) - len(done)} not tried.\nSurvivors:")
    for mutant, result in sorted(done, key=lambda item: (item[0]["file"], item[0]["line"])):
        if result["verdict"] == "survived":
            print(f"{mutant['file']}:{mutant['line']}: {mutant['what']}   in   {mutant['text']}   "
                  f"[{mutant['id']}, {result['test']} tests {result['how']}]")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=60, help="mutants of each group, including those that do not compile")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--minutes", type=float, default=1e9, help="time limit; mutants are tried in the seed's order")
    parser.add_argument("--budget", type=float, default=90, help="seconds of tests per mutant, as timed without mutants")
    parser.add_argument("--again", action="store_true", help="retry the survivors")
    parser.add_argument("--only", nargs="+", default=[], choices=list(GROUPS))
    parser.add_argument("--tests", nargs="+", default=TESTS, choices=TESTS, help="test programs to use instead of all")
    parser.add_argument("--as-built", action="store_true", help="the sources may have changed since the last build")
    parser.add_argument("--build-only", action="store_true")
    arguments = parser.parse_args()
    os.nice(max(0, 10 - os.nice(0)))
    WORK.mkdir(exist_ok=True)
    if not arguments.as_built:
        mutants = build(find_mutants(arguments.seed, arguments.each))
        (WORK / "mutants.json").write_text(json.dumps(mutants))
    mutants = [m for m in json.loads((WORK / "mutants.json").read_text()) if not arguments.only or m["group"] in arguments.only]
    print(f"{len(mutants)} mutants", flush=True)
    if arguments.build_only:
        return
    reached = trace_tests(arguments.tests)
    results_file = WORK / "results.jsonl"
    results = {}
    if results_file.exists():
        for line in results_file.read_text().splitlines():
            result = json.loads(line)
            results[result["key"]] = result
    end = time.monotonic() + 60 * arguments.minutes
    lock = threading.Lock()

    def work(mutant):
        key = key_of(mutant)
        old = results.get(key)
        if time.monotonic() > end or (old and not (arguments.again and old["verdict"] == "survived")):
            return
        tests = reached.get(mutant["id"], [])
        if not tests and arguments.tests != TESTS:  # another program may reach it
            return
        verdict, test, how = try_mutant(mutant, tests, arguments.budget)
        with lock:
            results[key] = {"key": key, "verdict": verdict, "test": test, "how": how}
            with results_file.open("a") as out:
                out.write(json.dumps(results[key]) + "\n")

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(work, mutants))
    # A test that fails by itself has caught nothing.
    killers = collections.defaultdict(set)
    for result in results.values():
        if result["verdict"] == "caught" and result["how"] != "time":
            program, test = result["test"].split(":", 1)
            killers[program].add(test)
    for program, tests in killers.items():
        passed, _, how, _, failed = run_tests(program, sorted(tests), 0, 1800)
        print(f"the {len(tests)} tests of test_{program} that caught something, with all mutants off: "
              f"{'pass' if passed else failed or how}", flush=True)
        if not passed and not failed:
            sys.exit(f"mutate.py: test_{program} ends before its tests do")
        for result in results.values():
            if result["test"].removeprefix(program + ":") in failed:
                result["verdict"] = "survived"
    print_table(mutants, results)


if __name__ == "__main__":
    if shutil.which("ninja") is None:
        sys.exit("mutate.py: ninja is needed")
    main()
