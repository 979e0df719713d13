#!/usr/bin/env python3
"""What single terms of software are worth: errors of unseen rows with presets as they are,
and with one term at the value where it does nothing. Nothing is fitted again.

    ablate_software.py

Means, and medians in brackets, in percent; none where a preset doesn't have the term.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from command_line import Parser, run_program
from hardware import Hardware, all_hardware
from predictions import NamedError, Outcome, peaks, predict_rows, summarise, times
from program import Json, Pipesim
from rows import Row, Source, Use, read_rows
from tables import percent, table


@dataclass(frozen=True)
class Term:
    """Keys at the values where they do nothing."""

    name: str
    software: Json = field(default_factory=dict)
    matmul: Json = field(default_factory=dict)  # of the device

    def is_in(self, software: Json, device: Json) -> bool:
        keys = self.software.keys() or self.matmul.keys()
        return keys <= (software if self.software else device["matmul"]).keys()


AS_IT_IS = Term("as it is")
TERMS = (
    Term(
        "what peers on other nodes add for the host",
        {"host_far_peers": "0us", "host_far_peer": "0us"},
    ),
    Term("shares of the network by nodes", {"network": []}),
    Term("layers dealt out by cost", {"layers": "even"}),
    Term("traffic of elementwise operators", {"elementwise_traffic": 1}),
    Term("hidden exchanges", {"hidden_exchange": 0}),
    Term("gradients reduced next to backwards", {"bucket_parameters": 0}),
    Term("new weights gathered next to forwards", {"gathers_ahead": False}),
    Term("share of the network of ZeRO 3's gathers", {"gather_share": 1}),
    Term("gathered inputs that are kept", {"keeps_gathered": False}),
    Term("bytes of a logit", {"logit_bytes": 4}),
    Term("gradients beside wider sums", {"keeps_both_gradients": False}),
    Term("sides that 8 doesn't divide", matmul={"unaligned_8": 1}),
    Term("sides that 64 doesn't divide", matmul={"unaligned_64": 1}),
)


@dataclass(frozen=True)
class Column:
    title: str
    source: Source
    errors_of: Callable[[Iterable[Outcome]], list[NamedError]]


COLUMNS = (
    Column("nanotron h100", Source.NANOTRON, times),
    Column("its peaks", Source.NANOTRON, peaks),
    Column("nemo h100", Source.NEMO, times),
    Column("bigscience a100", Source.BIGSCIENCE, times),
    Column("its peaks", Source.BIGSCIENCE, peaks),
    Column("sc21 zero-3", Source.SC21_ZERO3, times),
)


def without(pipesim: Pipesim, row: Row, term: Term, device: str) -> Row:
    """On a cluster and with software that say so."""
    head = {"version": 1, "name": "without a term"}
    if term.software:
        devices = {device: term.software}
        file = {"format": "pipesim-software", **head, "base": row.software, "devices": devices}
        row = replace(row, software=pipesim.file(file))
    if term.matmul:
        changed = {"matmul": term.matmul}
        file = {"format": "pipesim-cluster", **head, "base": row.cluster, "device": changed}
        row = replace(row, cluster=pipesim.file(file))
    return row


class Ablation:
    """Of the unseen rows of a set, which all ran with one preset on one cluster."""

    def __init__(self, pipesim: Pipesim, rows: Sequence[Row], hardware: Hardware) -> None:
        self._pipesim = pipesim
        self._rows = rows
        self._device = hardware.device
        self._file = pipesim.preset("devices", hardware.device)
        self._software = pipesim.software(rows[0].software or hardware.software, hardware.device)

    def outcomes(self, term: Term) -> list[Outcome]:
        """None where the preset or the device doesn't have the term."""
        if not term.is_in(self._software, self._file):
            return []
        rows = [without(self._pipesim, row, term, self._device) for row in self._rows]
        return predict_rows(self._pipesim, rows)


def cell(errors: list[NamedError]) -> str:
    if not errors:
        return ""
    summary = summarise(errors)
    return f"{percent(summary.mean)} ({percent(summary.median)})"


def ablations(pipesim: Pipesim) -> str:
    """A table, a line for each term."""
    unseen = [row for row in read_rows() if row.use is Use.UNSEEN]
    hardware = all_hardware(pipesim, unseen)
    sets = {}
    for source in dict.fromkeys(column.source for column in COLUMNS):
        rows = [row for row in unseen if row.source is source]
        sets[source] = Ablation(pipesim, rows, hardware[rows[0].cluster])
    lines = []
    for term in (AS_IT_IS, *TERMS):
        outcomes = {source: one.outcomes(term) for source, one in sets.items()}
        cells = [cell(column.errors_of(outcomes[column.source])) for column in COLUMNS]
        lines.append([term.name, *cells])
    return table(["without", *(column.title for column in COLUMNS)], lines)


def main(arguments: Sequence[str]) -> int:
    given = Parser(__doc__).parse_args(arguments)
    with Pipesim(given.pipesim) as pipesim:
        print(ablations(pipesim))
    return 0


if __name__ == "__main__":
    run_program("ablate_software.py", lambda: main(sys.argv[1:]))
