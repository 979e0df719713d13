#!/usr/bin/env python3
"""Where published layouts stand in the order of pipesim plan, and what it chooses of nanotron's.

    published_plans.py --write    plans all of them, in some minutes, and writes
                                  published_plans.json, which validate.py shows
    published_plans.py --check    ends with 1 where a layout in that file takes another time now

A rank is one of splits of work (tensor parallelism, stages, micro-batch, schedule): one more than
have a faster layout. Whether plans have other bests now is not checked: after a change to the
planner, to its axes or to costs write the file anew.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from choosing import Choice
from command_line import Parser, run_program
from hardware import Hardware, all_hardware
from layouts import Layout, layout_words, only, question_flags, read_layouts
from nanotron_plans import (
    Key,
    choices_to_plan,
    narrowings,
    planned_choice,
    read_evaluated,
    rows_of,
)
from plans import (
    FILE,
    Best,
    PlannedChoice,
    PlannedLayout,
    Plans,
    place_of,
    plans_text,
    read_plans,
    stale,
)
from predictions import predict_rows
from program import Json, Pipesim, write_whole
from rows import Row, Source, Use, read_rows

# A layout is predicted whether it fits or not.
NO_CAP = ("--memory-cap", "1000TB")
# More than a narrowed space has splits of work, so that all are evaluated.
ALL_SPLITS = ("--top", "1000")


class Planner:
    """Asks pipesim plan, as many questions at once as there are cores."""

    def __init__(self, pipesim: Pipesim, hardware: Mapping[str, Hardware]) -> None:
        self._pipesim = pipesim
        self._hardware = hardware

    def layouts(self, layouts: Sequence[Layout]) -> list[PlannedLayout]:
        words = self._words(layouts)
        of_could = self._certificates(layouts, words, among_all=False)
        of_all = self._certificates(layouts, words, among_all=True)
        return [
            PlannedLayout(
                group=one.group.title,
                name=one.name,
                devices=one.row.training.devices,
                words=own,
                ns=could["iteration_ns"],
                peak_bytes=could["peak_memory_bytes"],
                fits=could["peak_memory_bytes"] <= could["memory_cap_bytes"],
                could=place_of(could),
                all=place_of(anything),
            )
            for one, own, could, anything in zip(layouts, words, of_could, of_all)
        ]

    def choice(self, choice: Choice, rows: Sequence[Row]) -> PlannedChoice:
        """`rows` are all of its model and nodes."""
        row = choice.layouts[0].row
        with tempfile.TemporaryDirectory() as folder:
            axes = narrowings(choice)
            files = [Path(folder) / f"{i}.csv" for i in range(len(axes))]
            (everything,) = self._pipesim.predict([self._command(row, [])])
            # These ran: what is predicted to fit is asked for, without a margin for errors.
            cap = everything["memory_cap_bytes"]
            margin = ["--memory-cap", f"{round(cap * cap / everything['certain_memory_bytes'])}B"]
            self._pipesim.predict_possible(
                self._command(row, [*only(one), *ALL_SPLITS, *margin, "--csv", str(file)])
                for one, file in zip(axes, files)
            )
            # A space where nothing fits leaves none.
            evaluated: dict[Key, Best] = {}
            for file in files:
                evaluated |= read_evaluated(file.read_text()) if file.exists() else {}
        return planned_choice(choice, evaluated, even_best(everything), rows)

    def _command(self, row: Row, flags: Iterable[str]) -> list[str]:
        question = question_flags(self._pipesim, row, self._hardware[row.cluster].software)
        return ["plan", *question, "--threads", "1", *flags]

    def _words(self, layouts: Sequence[Layout]) -> list[str]:
        """Of each the fastest that fits of what its source leaves open; where none does, the
        fastest."""
        could = [only({**one.group.could, **one.stated}) for one in layouts]
        commands = [self._command(one.row, axes) for one, axes in zip(layouts, could)]
        found = self._pipesim.predict_possible(commands)
        none_fits = [[*one, *NO_CAP] for one, result in zip(commands, found) if result is None]
        instead = iter(self._pipesim.predict(none_fits))
        return [even_best(result if result else next(instead)).words for result in found]

    def _certificates(
        self, layouts: Sequence[Layout], words: Sequence[str], among_all: bool
    ) -> list[Json]:
        return self._pipesim.predict(
            self._command(
                one.row, [*([] if among_all else only(one.group.could)), "--why", own]
            )
            for one, own in zip(layouts, words)
        )


def even_best(plan: Json) -> Best:
    """With layers dealt out as usual."""
    first = min(plan["top"], key=lambda one: one["even_iteration_ns"])
    return Best(layout_words(first["command"]), first["even_iteration_ns"])


def hardware_of_all(
    pipesim: Pipesim, rows: Iterable[Row], layouts: Iterable[Layout]
) -> dict[str, Hardware]:
    return all_hardware(pipesim, [*rows, *(one.row for one in layouts)])


def write(pipesim: Pipesim) -> int:
    start = time.monotonic()
    rows, layouts = read_rows(), read_layouts()
    planner = Planner(pipesim, hardware_of_all(pipesim, rows, layouts))
    nanotron = [row for row in rows if row.source is Source.NANOTRON]
    ran = [row for row in nanotron if row.use is not Use.DID_NOT_RUN]
    some = choices_to_plan(predict_rows(pipesim, ran))
    choices = [planner.choice(one, rows_of(one, nanotron)) for one in some]
    plans = Plans(planner.layouts(layouts), choices)
    write_whole(FILE, plans_text(plans))
    took = time.monotonic() - start
    print(f"{len(plans.layouts)} layouts and {len(choices)} choices in {took:.0f} s")
    return 0


def check(pipesim: Pipesim) -> int:
    """The exit status."""
    rows, layouts = read_rows(), read_layouts()
    wrong = stale(pipesim, read_plans(), layouts, rows, hardware_of_all(pipesim, rows, layouts))
    print("\n".join(wrong) if wrong else "all take the times that the file says")
    return 1 if wrong else 0


def main(arguments: Sequence[str]) -> int:
    parser = Parser(__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="plan all, and write the file")
    what.add_argument("--check", action="store_true", help="fail where the file is stale")
    given = parser.parse_args(arguments)
    with Pipesim(given.pipesim) as pipesim:
        return write(pipesim) if given.write else check(pipesim)


if __name__ == "__main__":
    run_program("published_plans.py", lambda: main(sys.argv[1:]))
