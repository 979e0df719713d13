#!/usr/bin/env python3
"""Writes sim/cost/hardware/validated.json: how far published iterations that nothing was fitted on
are from predictions, by device, software, whether products have 8-bit inputs, and whether there are
experts, or else context parallelism; on how many devices they ran, with how many experts or
context-parallel ranks, and how many a band holds that was made without their model; and how far
published peaks of memory are, by device and software.

    bands.py            writes the file
    bands.py --check    fails where it is not what this would write

One rule makes all bands. A band is a fraction of the prediction. A band of time is what four of five
of its rows stay within, and at least LEAST; with fewer than FEW rows it is at least what four of five
sets of rows like them stay within. A band of the whole prediction or more says nothing: it is left
out, and holds no row. Of several models, each is held against what the others stay within: where
that is too narrow for four of five rows, the band widens by as much, and where it is too wide it
narrows, but of MANY models alone.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from command_line import Parser, run_program
from predictions import Outcome, predict_rows
from program import REPOSITORY, InputError, Json, Pipesim, write_whole
from rows import Model, Part, Quantity, Row, Source, Use, read_rows

FILE = REPOSITORY / "sim" / "cost" / "hardware" / "validated.json"
# Another simulator's output is not measured.
NOT_MEASURED = (Source.VTRAIN_SINGLE_NODE,)
# Assumed: models that a set lacks err more than those it has. bench/VALIDATION.md has the shares of
# rows that bands hold with it.
LEAST = 0.057
FEW = 5
MANY = 10


@dataclass(frozen=True, order=True)
class Kind:
    device: str
    software: str
    fp8: bool
    part: str  # of Part


@dataclass(frozen=True, order=True)
class MemoryKind:
    device: str
    software: str


def software_of(pipesim: Pipesim, row: Row) -> str:
    if row.source is Source.SC21:
        return "megatron-2021"  # whose efficiency is the factor of these rows
    if row.software:
        return row.software
    return device_of(pipesim, row)["software"]["base"]


def device_of(pipesim: Pipesim, row: Row) -> Json:
    cluster = pipesim.preset("clusters", row.cluster)
    while not isinstance(cluster.get("device"), str):
        cluster = pipesim.preset("clusters", cluster["base"])
    return pipesim.preset("devices", cluster["device"])


def kind_of(pipesim: Pipesim, row: Row) -> Kind:
    return Kind(
        device=device_of(pipesim, row)["name"],
        software=software_of(pipesim, row),
        fp8=row.training.precision == "fp8",
        part=row.part.value,
    )


def memory_kind_of(pipesim: Pipesim, row: Row) -> MemoryKind:
    return MemoryKind(
        device=device_of(pipesim, row)["name"],
        software=software_of(pipesim, row),
    )


def rounded_up(error: float) -> float:
    """To a thousandth."""
    return ceil(1000 * error) / 1000


def band(errors: Iterable[float]) -> float:
    """What four of five stay within, and of the next row with that probability."""
    sizes = sorted(map(abs, errors))
    return sizes[min(len(sizes), ceil(0.8 * (len(sizes) + 1))) - 1]


def band_of_others(sets: Iterable[Iterable[float]]) -> float:
    """What four of five sets stay within."""
    return band(map(band, sets))


def band_of(errors: Sequence[float], of_others: float) -> float:
    return max(LEAST, band(errors), of_others if len(errors) < FEW else 0)


def model_of(one: Outcome) -> Model:
    """Models that differ in their blocks alone are one."""
    return replace(one.row.model, blocks=0)


def by_model(rows: Sequence[Outcome]) -> list[list[Outcome]]:
    models: dict[Model, list[Outcome]] = defaultdict(list)
    for one in rows:
        models[model_of(one)].append(one)
    return list(models.values())


def band_of_rows(rows: Sequence[Outcome], general: float) -> float:
    known = band_of([one.deviation for one in rows], general)
    models = by_model(rows)
    if len(rows) < FEW or len(models) < 2:
        return known
    shares = []
    for own in models:
        others = band(one.deviation for one in of_other_models(own[0], rows))
        shares += [abs(one.deviation) / others for one in own]
    unseen = band(shares) * band(one.deviation for one in rows)
    return unseen if len(models) >= MANY else max(known, unseen)


def is_evidence(row: Row) -> bool:
    return (
        row.use is Use.UNSEEN
        and row.quantity is Quantity.ITERATION
        and row.source not in NOT_MEASURED
    )


@dataclass(frozen=True)
class Coverage:
    """How many of a set's rows the rule's bands hold that don't know them."""

    set: str
    rows: int
    of_other_models: int  # of the same set, where there are any
    of_other_sets: int


def holds(band_rows: Sequence[Outcome], general: float, row: Outcome) -> bool:
    """Whether a band of other rows, or where there are none the general one, holds this row."""
    limit = band_of_rows(band_rows, general) if band_rows else general
    return limit < 1 and abs(row.deviation) <= limit


def of_other_models(row: Outcome, alike: Sequence[Outcome]) -> list[Outcome]:
    return [one for one in alike if model_of(one) != model_of(row)]


def coverages(kinds: Mapping[str, Kind], outcomes: Sequence[Outcome]) -> list[Coverage]:
    """Of rows that are evidence; `kinds` is by the name of a source and a row."""
    sets: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        sets[outcome.row.set_name].append(outcome)
    result = []
    for name, some in sets.items():
        part = some[0].row.part
        general = band_of_others(
            [one.deviation for one in other]
            for key, other in sets.items()
            if key != name and other[0].row.part is part
        )
        inside = [0, 0]
        for one in some:
            kind = kinds[key_of(one.row)]
            alike = [two for two in outcomes if kinds[key_of(two.row)] == kind and two is not one]
            of_other_sets = [two for two in alike if two.row.source is not one.row.source]
            for at, known in enumerate((of_other_models(one, alike), of_other_sets)):
                inside[at] += holds(known, general, one)
        result.append(Coverage(name, len(some), *inside))
    return result


def key_of(row: Row) -> str:
    return f"{row.source.value}: {row.name}"


def line_of(kind: Kind | MemoryKind, some: Sequence[Outcome], fraction: float) -> Json:
    sets = sorted({one.row.source.value for one in some})
    return {**vars(kind), "sets": sets, "rows": len(some), "fraction": rounded_up(fraction)}


def time_line(kind: Kind, some: Sequence[Outcome], general: float) -> Json:
    counts = {"devices": [one.row.training.devices for one in some]}
    if kind.part == Part.CONTEXT.value:
        counts["context_parallel"] = [one.row.training.context_parallel for one in some]
    if kind.part == Part.EXPERTS.value:
        counts["experts"] = [one.row.model.experts for one in some]
    return {
        **line_of(kind, some, band_of_rows(some, general)),
        "held": sum(holds(of_other_models(one, some), general, one) for one in some),
        **{name: [min(numbers), max(numbers)] for name, numbers in counts.items()},
    }


def bands_text(pipesim: Pipesim) -> str:
    outcomes = predict_rows(pipesim, [row for row in read_rows() if is_evidence(row)])
    times: dict[Kind, list[Outcome]] = defaultdict(list)
    peaks: dict[MemoryKind, list[Outcome]] = defaultdict(list)
    sets: dict[Part, dict[Source, list[float]]] = defaultdict(lambda: defaultdict(list))
    for outcome in outcomes:
        times[kind_of(pipesim, outcome.row)].append(outcome)
        sets[outcome.row.part][outcome.row.source].append(outcome.deviation)
        if outcome.peak_deviation is not None:
            peaks[memory_kind_of(pipesim, outcome.row)].append(outcome)
    of_others = {part.value: band_of_others(some.values()) for part, some in sets.items()}
    bands = [time_line(kind, times[kind], of_others[kind.part]) for kind in sorted(times)]
    lines = [json.dumps(line) for line in bands if line["fraction"] < 1]
    memory = [
        json.dumps(
            line_of(kind, peaks[kind], band(one.peak_deviation or 0 for one in peaks[kind]))
        )
        for kind in sorted(peaks)
    ]
    join = ",\n    ".join
    return (
        '{\n  "format": "pipesim-validated",\n  "version": 3,\n'
        + f'  "sets": [\n    {join(lines)}\n  ],\n'
        + f'  "memory_sets": [\n    {join(memory)}\n  ]\n}}\n'
    )


def main(arguments: Sequence[str]) -> int:
    parser = Parser(__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    given = parser.parse_args(arguments)
    with Pipesim(given.pipesim) as pipesim:
        text = bands_text(pipesim)
    if not given.check:
        write_whole(FILE, text)
    elif FILE.read_text() != text:
        raise InputError(f"{FILE}: is of other predictions; run bands.py, and build again")
    return 0


if __name__ == "__main__":
    run_program("bands.py", lambda: main(sys.argv[1:]))
