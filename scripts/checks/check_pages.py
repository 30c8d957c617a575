#!/usr/bin/env python3
"""Opens report pages in headless Chromium and reads its network log: a page must request nothing.

    scripts/checks/check_pages.py PROGRAM                  pages of a short training and of its data set
    scripts/checks/check_pages.py --pictures DIR PAGE...   these pages, and pictures of them: wide, narrow,
                                                           dark

Two planted pages show that a request would be noticed: with the page's policy (Content-Security-Policy) an
image from another host is blocked, without it the log shows the request. Exits with 77 if there is no
Chromium.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FORMS = {"wide": (1400, []), "narrow": (500, []), "dark": (1400, ["--force-dark-mode"])}


def open_page(browser, page, picture=None, form="wide"):
    """The addresses that the page requests. A page's request has an origin; the browser's own have none."""
    width, flags = FORMS[form]
    with tempfile.TemporaryDirectory() as profile:
        log = Path(profile) / "net.json"
        call = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars", *flags,
                "--disable-background-networking", f"--user-data-dir={profile}", f"--log-net-log={log}"]  # fmt: skip
        call += [f"--screenshot={picture}", f"--window-size={width},2400"] if picture else ["--dump-dom"]
        done = subprocess.run([*call, page.resolve().as_uri()], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode or not (picture or "<footer>" in done.stdout):
            sys.exit(f"error: {page}: Chromium ends with {done.returncode}: {done.stderr[-500:]}")
        text = log.read_text()
    try:
        events = json.loads(text)
    except json.JSONDecodeError:  # the log was not closed
        events = json.loads(text.rstrip().rstrip(",") + "]}")
    begin = events["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    found = [e.get("params", {}) for e in events["events"] if e["type"] == begin]
    of_page = [p["url"] for p in found if p.get("initiator", "not an origin") != "not an origin"]
    return [url for url in of_page if re.match(r"(http|ws|ftp)", url)]


def planted(page, folder, keeps_policy):
    text = page.read_text()
    if not keeps_policy:
        text, count = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
        assert count == 1, f"{page} has no policy"
    image = '<img src="http://elsewhere.invalid/planted.png">'
    path = folder / f"planted_{keeps_policy}.html"
    path.write_text(text.replace("</footer>", image + "</footer>"))
    return path


def make_pages(program, folder):
    def run(*arguments):
        subprocess.run([program, *arguments], cwd=folder, check=True, capture_output=True)

    run("data", "shapes", "--output", "shapes", "--images", "40", "--seed", "1")
    run("train", "--data", "shapes", "--model", "quickstart", "--max-steps", "20", "--output", "run")
    run("report", "run")
    run("data", "report", "--data", "shapes", "--output", "data.html")
    return [folder / "run/report.html", folder / "data.html"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        print("Chromium was not found")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pages = options.paths if options.pictures else make_pages(options.paths[0].resolve(), folder)
        if not open_page(browser, planted(pages[0], folder, False)):
            sys.exit("error: the planted request was not seen, so this check sees none")
        blocked = open_page(browser, planted(pages[0], folder, True))
        if blocked:
            sys.exit(f"error: the policy of {pages[0]} let a planted image through: {blocked}")
        for page in pages:
            asked = open_page(browser, page)
            if asked:
                sys.exit(f"error: {page} requests {asked}")
            if options.pictures:
                options.pictures.mkdir(parents=True, exist_ok=True)
                for form in FORMS:
                    open_page(browser, page, options.pictures / f"{page.stem}_{form}.png", form)
            print(f"{page.name}: {page.stat().st_size} bytes, no request")
        print(f"pages: {len(pages)} in Chromium, without a request; a planted one is seen, and blocked by the page's policy")
    return 0


if __name__ == "__main__":
    sys.exit(main())
