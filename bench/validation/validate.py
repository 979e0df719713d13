#!/usr/bin/env python3
"""Predicts every published row with pipesim, and says by how much the predictions err.

    validate.py [-o FILE]    writes the report, or prints it
    validate.py --check      compares the errors with bounds.json, ends with 1 where one is passed
    validate.py --bounds     prints the errors as they are, as a bounds.json

Python's standard library is enough.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from command_line import Parser, run_program
from findings import Findings, examine
from goals import BOUNDS, broken_bounds, goals, present_bounds
from measures import Measures, measure
from program import Pipesim, write_whole
from report import validation_report


def check(measures: Measures, bounds: Path) -> int:
    """The exit status."""
    broken = broken_bounds(measures, bounds)
    if not broken:
        print(f"{len(measures)} measures within their bounds")
        return 0
    print("\n".join(broken))
    print(
        f"validate.py: {len(broken)} bounds are broken; "
        f"mend the cost model, or record new bounds in {bounds}",
        file=sys.stderr,
    )
    return 1


def write_report(findings: Findings, measures: Measures, output: Path) -> None:
    write_whole(output, validation_report(findings, measures))
    for goal in goals(measures):
        word = "met" if goal.met else "missed"
        reached, limit = 100 * goal.reached, 100 * goal.limit
        print(f"{word:<6} {goal.measure} {goal.statistic}: {reached:.2f} %, goal {limit:.2f} %")


def main(arguments: Sequence[str]) -> int:
    parser = Parser(__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("-o", "--output", type=Path, metavar="FILE", help="the report's file")
    what.add_argument("--check", action="store_true", help="fail where an error passes its bound")
    what.add_argument("--bounds", action="store_true", help="print the present errors as bounds")
    given = parser.parse_args(arguments)
    start = time.monotonic()
    with Pipesim(given.pipesim) as pipesim:
        findings = examine(pipesim)
        runs = pipesim.runs
    measures = measure(findings)
    if given.check:
        return check(measures, BOUNDS)
    if given.bounds:
        print(present_bounds(measures), end="")
    elif given.output:
        write_report(findings, measures, given.output)
        print(f"{runs:,} predictions in {time.monotonic() - start:.1f} s")
    else:
        print(validation_report(findings, measures), end="")
    return 0


if __name__ == "__main__":
    run_program("validate.py", lambda: main(sys.argv[1:]))
