#!/usr/bin/env python3
"""Fits the free constants on the rows that the data marks as fitted, and on nothing else.
Prints what it found and what errors that gives; a person copies values into the
device's file.

    fit_costs.py                   all constants
    fit_costs.py --without NAME    one term less, the others fitted again: its worth
    fit_costs.py --products        the shape of matrix products, on SimuMax's table

Needs numpy and scipy: Debian's python3-numpy and python3-scipy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from math import log1p
from pathlib import Path

from command_line import Parser, run_program
from fit_products import fit_products
from minimise import minimise
from predictions import predict_rows, summarise, times
from program import InputError, Json, Pipesim, inlined, nanoseconds, value_of
from rows import Row, Source, Use, read_rows

# One set of constants, of the A100; another simulator's output is not measured.
WEIGHTS = {
    Source.KORTHIKANTI_LAYERS: 2.0,
    Source.KORTHIKANTI: 2.0,
    Source.SC21: 2.0,
    Source.VTRAIN_MULTI_NODE: 0.3,
}


@dataclass(frozen=True)
class Parameter:
    """A constant, what is expected of it before any row is seen, and how firmly: being
    `spread` off costs as much as a row of weight 1 that errs by 2.6 %."""

    name: str
    expected: float
    spread: float
    least: float
    most: float
    keys: tuple[str, ...]  # in the file of a cluster with its device; none: of SC21's rows

    def clamped(self, position: float) -> float:
        """The value that is so many spreads from what is expected."""
        return min(max(self.expected + position * self.spread, self.least), self.most)


PARAMETERS = (
    Parameter("peak_share", 0.85, 0.1, 0.3, 1, ("device", "matmul", "peak_share")),
    Parameter("memory_share", 0.8, 0.1, 0.3, 1, ("device", "reached", "memory_share")),
    Parameter("attention_traffic", 1.2, 0.3, 1, 3, ("device", "reached", "attention_traffic")),
    Parameter("p2p_overhead_ms", 0.5, 0.5, 0, 5, ("device", "software", "p2p_overhead")),
    Parameter("hidden_reduction", 0.5, 0.3, 0, 1, ("device", "software", "hidden_reduction")),
    Parameter("network_share", 0.9, 0.1, 0.3, 1, ("network", "share")),
    Parameter("software_2021", 1, 0.05, 0.5, 1.2, ()),
)

Values = dict[str, float]


def no_matmul_shape(cluster: Json) -> None:
    matmul = cluster["device"]["matmul"]
    cluster["device"]["matmul"] = {"peak_share": matmul["peak_share"]}


def no_whole_waves(cluster: Json) -> None:
    cluster["device"]["matmul"]["whole_waves"] = 0


def no_kernel_gap(cluster: Json) -> None:
    cluster["device"]["software"]["kernel_gap"] = "0us"


def no_host_floor(cluster: Json) -> None:
    for key in ("host_forward", "host_backward", "host_peer"):
        cluster["device"]["software"][key] = "0us"


def no_collective_latency(cluster: Json) -> None:
    for rate in value_of(cluster["node"]["collectives"]):
        rate["latency"] = "0us"


def no_card_sharing(cluster: Json) -> None:
    cluster["network"]["rail_aligned"] = True


# Terms that can be left out: constants at the value where they do nothing, and changes
# to clusters.
NEUTRAL: Values = {
    "attention_traffic": 1,
    "p2p_overhead_ms": 0,
    "hidden_reduction": 0,
    "software_2021": 1,
}
CHANGES: dict[str, Callable[[Json], None]] = {
    "matmul_shape": no_matmul_shape,
    "whole_waves": no_whole_waves,
    "kernel_gap": no_kernel_gap,
    "host_floor": no_host_floor,
    "collective_latency": no_collective_latency,
    "card_sharing": no_card_sharing,
}
TERMS = (*NEUTRAL, *CHANGES)


def read_cluster(pipesim: Pipesim, name: str) -> Json:
    """With its device in it, and its software in that."""
    cluster = pipesim.preset("clusters", name)
    device = inlined(pipesim.preset("devices", cluster["device"]))
    base = device["software"]["base"]
    software = {"base": base, **pipesim.software(base, cluster["device"])}
    return {**cluster, "device": {**device, "software": software}}


def value_in(cluster: Json, parameter: Parameter) -> float:
    at = cluster
    for key in parameter.keys:
        at = at[key]
    value = value_of(at)
    return nanoseconds(value) / 1e6 if isinstance(value, str) else value


def put(cluster: Json, parameter: Parameter, value: float) -> None:
    at = cluster
    *folders, last = parameter.keys
    for key in folders:
        at = at[key]
    at[last] = f"{round(value * 1e6)}ns" if parameter.name.endswith("_ms") else value


class Fit:
    """Constants from where they are to where the fitted rows err least, with one term
    left out or none."""

    def __init__(self, pipesim: Pipesim, rows: Sequence[Row], without: str | None = None) -> None:
        self._pipesim = pipesim
        self.rows = rows
        self._clusters = {row.cluster: read_cluster(pipesim, row.cluster) for row in rows}
        first = next(iter(self._clusters.values()))
        self.start = {one.name: value_in(first, one) for one in PARAMETERS if one.keys}
        sc21 = next(row for row in rows if row.source is Source.SC21)
        self.start["software_2021"] = sc21.training.software_factor
        if without in NEUTRAL:
            self.start[without] = NEUTRAL[without]
        elif without is not None:
            for cluster in self._clusters.values():
                CHANGES[without](cluster)
        self.free = [one for one in PARAMETERS if without not in NEUTRAL or one.name != without]
        self.end = self.start

    def run(self) -> None:
        start = [(self.start[one.name] - one.expected) / one.spread for one in self.free]
        self.end = self._values(minimise(self._loss, start, tolerance=1e-6))

    def errors(self, values: Values, rows: Sequence[Row]) -> str:
        """Mean, median and worst of some rows, in percent."""
        errors = summarise(self._errors(values, rows))
        return " ".join(
            f"{100 * figure:6.2f}" for figure in (errors.mean, errors.median, errors.worst)
        )

    def _values(self, point: Sequence[float]) -> Values:
        found = {one.name: one.clamped(position) for one, position in zip(self.free, point)}
        return self.start | found

    def _errors(self, values: Values, rows: Sequence[Row]) -> list[tuple[str, float]]:
        paths = {}
        for name, cluster in self._clusters.items():
            changed = deepcopy(cluster)
            for parameter in PARAMETERS:
                if parameter.keys:
                    put(changed, parameter, values[parameter.name])
            paths[name] = self._pipesim.file(changed)
        changed_rows = []
        for row in rows:
            training = row.training
            if row.source is Source.SC21:
                training = replace(training, software_factor=values["software_2021"])
            changed_rows.append(replace(row, cluster=paths[row.cluster], training=training))
        return times(predict_rows(self._pipesim, changed_rows))

    def _loss(self, point: Sequence[float]) -> float:
        """Robust: a row that errs by 10 % counts about five times as much as one by 2 %,
        not 25 times."""
        usual_error = 0.02
        rows = [row for row in self.rows if row.use is Use.FITTED]
        loss = sum(position**2 for position in point)
        for row, (_, error) in zip(rows, self._errors(self._values(point), rows)):
            loss += WEIGHTS[row.source] * log1p((error / usual_error) ** 2)
        return loss


def print_fit(fit: Fit) -> None:
    print(f"{'constant':<20} {'start':>9} {'end':>9}")
    for one in fit.free:
        print(f"{one.name:<20} {fit.start[one.name]:>9.4f} {fit.end[one.name]:>9.4f}")
    print("\nabsolute errors, %: mean, median, worst")
    print(f"{'':<28} {'at the start':<20}   {'at the end':<20}")
    for source in WEIGHTS:
        for use in (Use.FITTED, Use.UNSEEN):
            rows = [row for row in fit.rows if row.source is source and row.use is use]
            before, after = fit.errors(fit.start, rows), fit.errors(fit.end, rows)
            print(f"{f'{source.value}, {use.value}':<28} {before}   {after}")


def print_ablations(program: Path, rows: Sequence[Row], terms: Sequence[str]) -> None:
    """A line for each term that is left out: all rows of each source, by the constants
    that are fitted without it."""
    print("absolute errors of all rows, %: mean, median, worst")
    print(f"{'without':<20}" + "".join(f" | {source.value:<20}" for source in WEIGHTS))
    for term in (None, *terms):
        with Pipesim(program) as pipesim:  # with its files
            fit = Fit(pipesim, rows, term)
            fit.run()
            columns = [
                fit.errors(fit.end, [row for row in rows if row.source is source])
                for source in WEIGHTS
            ]
        print(f"{term or 'nothing':<20}" + "".join(f" |{column}" for column in columns), flush=True)


def main(arguments: Sequence[str]) -> int:
    parser = Parser(__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--without", metavar="NAME", help=f"leave a term out: all, or one of {', '.join(TERMS)}"
    )
    what.add_argument("--products", action="store_true", help="fit the shape of matrix products")
    given = parser.parse_args(arguments)
    if given.without not in (None, "all", *TERMS):
        raise InputError(
            f"--without: unknown term '{given.without}'; known: all, {', '.join(TERMS)}"
        )
    rows = [row for row in read_rows() if row.source in WEIGHTS]
    if given.without:
        terms = TERMS if given.without == "all" else [given.without]
        print_ablations(given.pipesim, rows, terms)
        return 0
    with Pipesim(given.pipesim) as pipesim:
        if given.products:
            print(fit_products(pipesim), end="")
        else:
            fit = Fit(pipesim, rows)
            fit.run()
            print_fit(fit)
    return 0


if __name__ == "__main__":
    run_program("fit_costs.py", lambda: main(sys.argv[1:]))
