#!/usr/bin/env python3
"""Where the time of a build goes, from what Ninja wrote down.

  build_times.py TREE...     of each build folder: objects, links, seconds, the costliest
                             sources and, compiled alone, the costliest headers

Seconds are those of each command as it ran beside others; `span` is from the first
command's start to the last one's end. Of a header: what it takes the compiler to read
it alone, times the objects that include it; one that another one includes counts with
both. Build from scratch first: Ninja keeps the last time of each file alone.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

SHOWN = 8


@dataclass
class Command:
    output: str
    start_ms: int
    end_ms: int

    @property
    def seconds(self) -> float:
        return (self.end_ms - self.start_ms) / 1000


def read_log(tree: Path) -> list[Command]:
    log = tree / ".ninja_log"
    if not log.exists():
        sys.exit(f"build_times.py: {tree} holds no .ninja_log; build it with Ninja first")
    last: dict[str, Command] = {}
    for line in log.read_text().splitlines():
        if line.startswith("#"):
            continue
        start, end, _, output, _ = line.split("\t")
        last[output] = Command(output, int(start), int(end))
    return list(last.values())


def headers_in(source: Path, seen: dict[Path, set[str]]) -> set[str]:
    """What a source includes in angle brackets, through headers of ours, too."""
    if source in seen:
        return seen[source]
    seen[source] = found = set()
    try:
        text = source.read_text(errors="replace")
    except OSError:
        return found
    found.update(re.findall(r'^#include <([^>]+)>', text, re.MULTILINE))
    for name in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
        nested = Path(name) if Path(name).is_absolute() else Path.cwd() / name
        found |= headers_in(nested, seen)
    return found


def seconds_to_read(header: str, command: list[str], folder: str) -> float:
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write(f"#include <{header}>\n")
        source.flush()
        start = time.monotonic()
        done = subprocess.run([*command, "-fsyntax-only", source.name], cwd=folder,
                              capture_output=True, check=False)
        return time.monotonic() - start if done.returncode == 0 else 0


def compiler_of(entry: dict[str, str]) -> list[str]:
    """An object's command without its source and output."""
    words = shlex.split(entry["command"])
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in ("-o", "-c", "-include"):
            skip = True
        elif word not in ("-Winvalid-pch", "-fpch-preprocess"):
            kept.append(word)
    return kept


def print_headers(tree: Path, objects: list[Command]) -> None:
    built = {command.output for command in objects}
    entries = [e for e in json.loads((tree / "compile_commands.json").read_text())
               if e["file"].endswith((".cpp", ".cxx")) and
               re.search(r" -o (\S+)", e["command"])[1] in built]
    if not entries:
        return
    seen: dict[Path, set[str]] = {}
    uses: Counter[str] = Counter()
    for entry in entries:
        uses.update(headers_in(Path(entry["file"]), seen))
    command = compiler_of(entries[0])
    rows = []
    for header, count in uses.items():
        alone = seconds_to_read(header, command, entries[0]["directory"])
        rows.append((alone * count, header, alone, count))
    print(f"  headers, alone x objects that include them, of {len(objects)}")
    for total, header, alone, count in sorted(rows, reverse=True)[:SHOWN]:
        print(f"  {total:8.1f} s  {alone:5.2f} x {count:4}  <{header}>")


def print_tree(tree: Path, with_headers: bool) -> None:
    commands = read_log(tree)
    objects = [c for c in commands if c.output.endswith((".o", ".gch"))]
    links = [c for c in commands if not c.output.endswith((".o", ".gch", ".a")) and
             (tree / c.output).is_file() and not c.output.endswith((".cpp", ".h", ".ninja"))]
    if not commands:
        return
    span = (max(c.end_ms for c in commands) - min(c.start_ms for c in commands)) / 1000
    print(f"{tree}: span {span:.0f} s; {len(objects)} objects {sum(c.seconds for c in objects):.0f} s; "
          f"{len(links)} links {sum(c.seconds for c in links):.0f} s")
    by_folder: Counter[str] = Counter()
    for command in objects:
        by_folder[command.output.split("/CMakeFiles/")[0]] += command.seconds
    print("  " + ", ".join(f"{folder} {seconds:.0f} s" for folder, seconds in by_folder.most_common()))
    print("  sources")
    for command in sorted(objects, key=lambda c: -c.seconds)[:SHOWN]:
        print(f"  {command.seconds:8.1f} s  {command.output}")
    if with_headers:
        print_headers(tree, objects)


def main() -> None:
    parser = argparse.ArgumentParser(description="where the time of a build goes")
    parser.add_argument("trees", nargs="+", type=Path, metavar="TREE", help="a build folder")
    parser.add_argument("--no-headers", action="store_true", help="leave out what headers take")
    arguments = parser.parse_args()
    for tree in arguments.trees:
        print_tree(tree, not arguments.no_headers)


if __name__ == "__main__":
    main()
