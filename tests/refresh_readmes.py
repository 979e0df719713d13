#!/usr/bin/env python3
"""Runs the commands whose outputs the READMEs show, and puts what they print in their place.

    python3 tests/refresh_readmes.py [PIPESIM]

Of a block with `...` lines the first and the last part are refreshed; one with more parts that
differs is named, to be edited by hand. tests/programs/readme_test.cpp checks the result.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = re.search(r"pages = \{(.*?)\}",
                  (ROOT / "tests/programs/readme_test.cpp").read_text(), re.S)
BLOCK = re.compile(r"(<!-- output: (.*?) -->.*?```\n)(.*?)(```\n)", re.S)


def shows(block, printed):
    """Whether the block is what was printed, a `...` line standing for one or more."""
    parts = [re.escape(part) for part in re.split(r"^\.\.\.\n", block, flags=re.M)]
    return re.fullmatch("(?:.*\n)+?".join(parts), printed) is not None


def refreshed(block, printed):
    """The block with what is printed now; None where its left out lines can't be placed."""
    parts = [part.count("\n") for part in re.split(r"^\.\.\.\n", block, flags=re.M)]
    lines = printed.splitlines(keepends=True)
    if len(parts) == 1:
        return printed
    if len(parts) == 2 and sum(parts) < len(lines):
        return "".join(lines[:parts[0]] + ["...\n"] + lines[len(lines) - parts[1]:])
    return None


def main():
    pipesim = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release/pipesim").resolve()
    environment = dict(os.environ, COLUMNS="80")
    for page in re.findall(r'"([^"]+)"', PAGES[1]):
        path = ROOT / page

        def replace(match):
            run = subprocess.run([pipesim, *shlex.split(match[2])], cwd=ROOT, env=environment,
                                 text=True, stdout=subprocess.PIPE, check=False)
            if shows(match[3], run.stdout):
                return match[0]
            new = refreshed(match[3], run.stdout)
            if new is None:
                print(f"{page}: look at `{match[2]}`: its left out lines are yours to place")
            return match[1] + (match[3] if new is None else new) + match[4]

        old = path.read_text()
        new = BLOCK.sub(replace, old)
        if new != old:
            path.write_text(new)
            print(f"{page}: refreshed")


if __name__ == "__main__":
    main()
