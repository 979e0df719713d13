#!/usr/bin/env python3
"""Writes sim/cost/hardware/validated.json: how far predictions are off from published
iterations that nothing was fitted on, by device, software and kind of layout; and from
published peaks of memory, by device and software.

    bands.py            writes the file
    bands.py --check    fails where it is not what this would write

The band of a kind is the least that four of five of its rows stay within.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from command_line import Parser, run_program
from predictions import Outcome, predict_rows
from program import REPOSITORY, InputError, Json, Pipesim, write_whole
from rows import Quantity, Row, Source, Use, read_rows

FILE = REPOSITORY / "sim" / "cost" / "hardware" / "validated.json"
# Another simulator's output is not measured.
NOT_MEASURED = (Source.VTRAIN_SINGLE_NODE,)
PER_NODE = 8  # devices, in all clusters of these rows


@dataclass(frozen=True, order=True)
class Kind:
    device: str
    software: str
    spans_nodes: bool
    has_pipeline: bool
    is_sharded: bool
    set: str


@dataclass(frozen=True, order=True)
class MemoryKind:
    device: str
    software: str
    set: str


def software_of(pipesim: Pipesim, row: Row) -> str:
    if row.source is Source.SC21:
        return "megatron-2021"  # whose efficiency is the factor of these rows
    if row.software:
        return row.software
    return device_of(pipesim, row)["software"]["base"]


def device_of(pipesim: Pipesim, row: Row) -> Json:
    cluster = pipesim.preset("clusters", row.cluster)
    while "base" in cluster:
        cluster = pipesim.preset("clusters", cluster["base"])
    return pipesim.preset("devices", cluster["device"])


def kind_of(pipesim: Pipesim, row: Row) -> Kind:
    return Kind(
        device=device_of(pipesim, row)["name"],
        software=software_of(pipesim, row),
        spans_nodes=row.training.devices > PER_NODE,
        has_pipeline=row.training.pipeline_parallel > 1,
        is_sharded=row.training.zero >= 3,
        set=row.source.value,
    )


def memory_kind_of(pipesim: Pipesim, row: Row) -> MemoryKind:
    return MemoryKind(
        device=device_of(pipesim, row)["name"],
        software=software_of(pipesim, row),
        set=row.source.value,
    )


def band(errors: Iterable[float]) -> float:
    """Rounded up to a thousandth."""
    sizes = sorted(map(abs, errors))
    return ceil(1000 * sizes[ceil(0.8 * len(sizes)) - 1]) / 1000


def lines_of(errors: Mapping[Kind | MemoryKind, Sequence[float]]) -> str:
    return ",\n    ".join(
        json.dumps({**vars(kind), "rows": len(errors[kind]), "fraction": band(errors[kind])})
        for kind in sorted(errors)
    )


def bands_text(pipesim: Pipesim) -> str:
    rows = [
        row
        for row in read_rows()
        if row.use is Use.UNSEEN
        and row.quantity is Quantity.ITERATION
        and row.source not in NOT_MEASURED
    ]
    times: dict[Kind, list[float]] = defaultdict(list)
    peaks: dict[MemoryKind, list[float]] = defaultdict(list)
    for outcome in predict_rows(pipesim, rows):
        times[kind_of(pipesim, outcome.row)].append(outcome.error)
        if outcome.peak_error is not None:
            peaks[memory_kind_of(pipesim, outcome.row)].append(outcome.peak_error)
    return (
        '{\n  "format": "pipesim-validated",\n  "version": 1,\n  "sets": [\n    '
        + lines_of(times)
        + '\n  ],\n  "memory_sets": [\n    '
        + lines_of(peaks)
        + "\n  ]\n}\n"
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
