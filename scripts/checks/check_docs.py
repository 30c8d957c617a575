#!/usr/bin/env python3
"""Checks the pages (README.md, docs and the other *.md files) against the tree and the program.

    scripts/checks/check_docs.py            every relative link leads to a file or a heading; docs/README.md
                                            names every page; no page, recipe or message has an old name of a
                                            field; pages, the schema and the code have none of the words below
                                            (PRIVATE_WORDS)
    scripts/checks/check_docs.py PROGRAM    also every `saccade COMMAND --flag` of the pages is a command with
                                            that flag, and no help text has one of these words
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FENCE = re.compile(r"^\s*```")


def prose_lines(text):
    """The lines outside code blocks, with their numbers."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, line


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    found = {}
    for _, line in prose_lines(text):
        heading = re.match(r"#+ +(.*)", line)
        if heading:
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).strip().lower()
            name = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            found[name] = found.get(name, -1) + 1
    return {name if n == 0 else f"{name}-{n}" for name, most in found.items() for n in range(most + 1)}


def link_faults(pages):
    for page, text in pages.items():
        for number, line in prose_lines(text):
            for target in re.findall(r"\]\(([\w./:#-]+)\)", re.sub(r"`[^`]*`", "", line)):
                if re.match(r"[a-z]+:", target):
                    continue
                name, _, anchor = target.partition("#")
                path = (page.parent / name).resolve() if name else page
                if not path.exists():
                    yield f"{page.relative_to(ROOT)}:{number}: {target}: no such file"
                elif anchor and anchor not in anchors(pages.get(path) or path.read_text()):
                    yield f"{page.relative_to(ROOT)}:{number}: {target}: no such heading"


def index_faults(pages):
    index = pages[ROOT / "docs/README.md"]
    for page in pages:
        if page.parent == ROOT / "docs" and page.name not in ("README.md", "nightly.md") and f"]({page.name})" not in index:
            yield f"docs/README.md: does not name {page.name}"


def old_name_faults():
    """Where a field is called by an old name. Skips names that another field has now."""
    schema = (ROOT / "configs/saccade.proto").read_text()
    fields = re.findall(r"^  (?:optional|repeated) [\w.]+ (\w+) = \d+ (.*)", schema, re.M)
    old = {name for name, rule in fields if "moved_to" in rule} - {name for name, rule in fields if "moved_to" not in rule}
    assert "checkpoint_modules" in old and "val_fraction" not in old
    where = ["*.md", "*.textproto", "train", ":!CHANGELOG.md", ":!docs/bench"]
    listed = ["git", "grep", "-nwE", "|".join(sorted(old)), "--", *where]
    for line in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines():
        where, number, text = line.split(":", 2)
        names = [name for name in old if re.search(rf'[`".]{name}\b(?!\()|^\s*{name}:', text)]
        if names:
            yield f"{where}:{number}: {names[0]} is an old name of the field"


# Words with another meaning in English, or for which the field has another word, and what to write instead.
PRIVATE_WORDS = {
    r"figures": "metrics",
    r"beside": "next to, besides, compared with",
    r"(?:the|this|a|A|of a|largest|median|random) share(?: of)?|shares (?:of|are)": "fraction",
    r"in place of|takes? the place of": "instead of, replaces",
    r"turned (?:by|as|box|boxes|image|one|rectangle)": "rotated",
    r"held against": "compared with",
    r"of before": "earlier, old",
    r"goes on|go on": "continues",
    r"it were|by heart|for ever|lies beside|what else": "plain English",
}
# The same for names in the code, and for keys in JSON.
PRIVATE_NAMES = r'\bkMost[A-Z]|\bLeadingGroups\b|\bTogether\b|\bFigureOptions\b|"figures?\\?":'


def word_faults(name, text):
    for number, line in enumerate(text.splitlines(), 1):
        for word, plain in PRIVATE_WORDS.items():
            for found in re.findall(rf"\b(?:{word})\b", line):
                yield f'{name}:{number}: "{found}": write {plain}'


def private_word_faults(pages):
    for page, text in pages.items():
        if page.name not in ("CHANGELOG.md", "nightly.md"):
            yield from word_faults(page.relative_to(ROOT), text)
    for schema in sorted((ROOT / "configs").glob("*.proto")):
        yield from word_faults(schema.relative_to(ROOT), schema.read_text())
    listed = ["git", "grep", "-nE", PRIVATE_NAMES, "--", "*.cpp", "*.h", "*.cu", "*.proto"]
    for line in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines():
        yield f"{line}: a private name"


def help_faults(program, command=()):
    """Private words in the help of every command and in the description of every field."""
    told = subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True).stdout
    yield from word_faults(" ".join(["saccade", *command, "--help"]), told)
    for name in re.findall(r"^  ([a-z]+) ", told.partition("Subcommands:\n")[2], re.M):
        yield from help_faults(program, (*command, name))
    if not command:
        fields = subprocess.run([program, "describe", "config"], capture_output=True, text=True, check=True).stdout
        yield from word_faults("saccade describe config", fields)


def commands(text):
    """The calls of the program in code blocks, indented lines and `...`, with their line numbers."""
    inside, begun, begun_at = False, "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
            continue
        code = [line] if inside or line.startswith("    ") else re.findall(r"`([^`]+)`", line)
        for part in code:
            part, begun_at = (begun + part, begun_at) if begun else (part, number)
            if part.endswith("\\"):
                begun = part[:-1]
                continue
            begun = ""
            call = re.match(r"\s*(?:mpirun .* )?(?:build/)?saccade +([a-z].*)", part)
            if call:
                yield begun_at, call[1]


def command_faults(pages, program):
    flags_of = {}

    def flags(command):
        if command not in flags_of:
            told = subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=False)
            known = f"Usage: saccade {' '.join(command)} " in told.stdout
            flags_of[command] = set(re.findall(r"--[a-z][a-z-]*", told.stdout)) if known else None
        return flags_of[command]

    for page, text in pages.items():
        if page.name == "CHANGELOG.md":
            continue
        for number, call in commands(text):
            words = re.split(r" [|>] ", call.split(" #")[0])[0]
            try:
                words = shlex.split(words)
            except ValueError:  # part of a sentence
                words = words.split()
            command = tuple(words[: 2 if words[0] in ("data", "weights") else 1])
            place = f"{page.relative_to(ROOT)}:{number}"
            if not re.fullmatch(r"[a-z]+( [a-z]+)?", " ".join(command)) or flags(command) is None:
                yield f"{place}: saccade {' '.join(command)}: no such command"
                continue
            for word in words:
                flag = re.match(r"--[a-z][a-z-]*", word)
                if flag and flag[0] not in flags(command):
                    yield f"{place}: saccade {' '.join(command)} has no {flag[0]}"


def main():
    listed = subprocess.run(["git", "ls-files", "-z", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    pages = {ROOT / name: (ROOT / name).read_text() for name in listed.split("\0") if name}
    faults = [*link_faults(pages), *index_faults(pages), *old_name_faults(), *private_word_faults(pages)]
    if len(sys.argv) > 1:
        faults += [*command_faults(pages, sys.argv[1]), *help_faults(sys.argv[1])]
    for fault in faults:
        print("error:", fault, file=sys.stderr)
    if not faults:
        print(f"pages: {len(pages)}, whose links" + (" and commands" if len(sys.argv) > 1 else "") + " are right")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
