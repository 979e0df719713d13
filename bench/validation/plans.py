"""What pipesim plan found of published layouts, as published_plans.json keeps it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from choosing import OTHER_BATCH, Choice
from hardware import Hardware
from layouts import Layout, layout_words, question_flags
from program import InputError, Json, Pipesim
from rows import Row, Source, read_json

FILE = Path(__file__).resolve().parent / "published_plans.json"
# What became of a layout of nanotron.
MEASURED, CONTRADICTS = "measured", "contradicts"
DID_NOT_RUN, NOT_TRIED = "did not run", "not tried"
COMMAND = "python3 -B bench/validation/published_plans.py --write"


@dataclass(frozen=True)
class Best:
    """The fastest of a space."""

    words: str  # its flags
    ns: int


@dataclass(frozen=True)
class Place:
    """Of a layout in a space."""

    best: Best
    faster_splits: int
    is_counted: bool  # else as many are faster, or more

    @property
    def rank(self) -> str:
        return str(self.faster_splits + 1) if self.is_counted else f"more than {self.faster_splits}"


@dataclass(frozen=True)
class PlannedLayout:
    group: str
    name: str
    devices: int
    words: str  # with what the source leaves open, as it is the fastest
    ns: int
    peak_bytes: int
    fits: bool
    could: Place  # in what the authors could choose from
    all: Place


@dataclass(frozen=True)
class PlannedChoice:
    """Of a model of nanotron on so many nodes."""

    name: str
    layouts: int  # that were measured
    fit: int  # of these, as predicted
    chosen: str  # the fastest of these by the plan
    chosen_ns: int
    loss: float  # what that was measured slower than the one measured fastest
    narrowed: Best  # of all combinations of their values
    narrowed_end: str  # what became of that
    narrowed_loss: float | None  # where it was measured
    all: Best




@dataclass(frozen=True)
class Plans:
    layouts: list[PlannedLayout]
    choices: list[PlannedChoice]


def slower(ns: int, best: Best) -> float:
    return ns / best.ns - 1


def place_of(certificate: Json) -> Place:
    """Of what `pipesim plan --why` prints."""
    best = Best(layout_words(certificate["best"]["command"]), certificate["best"]["iteration_ns"])
    faster = certificate["faster_splits"]
    return Place(best, faster, faster < certificate["faster_splits_counted_to"])


def plans_text(plans: Plans) -> str:
    return json.dumps({"written_by": COMMAND, **asdict(plans)}, indent=1) + "\n"


def read_plans(path: Path = FILE) -> Plans:
    def best(of: Json) -> Best:
        return Best(**of)

    def place(of: Json) -> Place:
        return Place(**of | {"best": best(of["best"])})

    try:
        file = read_json(path)
        return Plans(
            [
                PlannedLayout(**one | {key: place(one[key]) for key in ("could", "all")})
                for one in file["layouts"]
            ],
            [
                PlannedChoice(**one | {key: best(one[key]) for key in ("narrowed", "all")})
                for one in file["choices"]
            ],
        )
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: is not as it should be: {error}; run {COMMAND}") from error


def said_times(
    plans: Plans, layouts: Iterable[Layout], rows: Iterable[Row]
) -> list[tuple[str, Row, Best]]:
    """Layouts and their times, each with its name and the row whose question it answers."""
    of_layouts = {(one.group.title, one.name): one.row for one in layouts}
    of_choices = {
        Choice(row.model.name, row.nodes or 1, None, []).name: row
        for row in rows
        if row.source is Source.NANOTRON and row.reason != OTHER_BATCH
    }
    said = []
    for layout in plans.layouts:
        row = of_layouts.pop((layout.group, layout.name))
        said.append((layout.name, row, Best(layout.words, layout.ns)))
        for place in (layout.could, layout.all):
            said.append((f"best of {layout.name}", row, place.best))
    if of_layouts:
        raise KeyError(", ".join(name for _, name in of_layouts))
    for choice in plans.choices:
        for best in (choice.narrowed, choice.all):
            said.append((f"best of {choice.name}", of_choices[choice.name], best))
    return said


def stale(
    pipesim: Pipesim,
    plans: Plans,
    layouts: Iterable[Layout],
    rows: Iterable[Row],
    hardware: Mapping[str, Hardware],
) -> list[str]:
    """A sentence for each layout that takes another time than the plans say. Whether plans have
    other bests now is not looked into."""
    try:
        said = said_times(plans, layouts, rows)
    except KeyError as error:
        return [f"{error} is in the plans or among the published layouts, but not in both"]
    commands = [
        [*question_flags(pipesim, row, hardware[row.cluster].software), *best.words.split(" ")]
        for _, row, best in said
    ]
    return [
        f"{name}, {best.words}: takes {result['makespan_ns']:,} ns, not {best.ns:,}"
        for (name, _, best), result in zip(said, pipesim.predict(commands))
        if result["makespan_ns"] != best.ns
    ]
