#!/usr/bin/env python3
"""Fits what is free of software presets on the rows that the data marks as fitted, each on
its own set, with pipesim as the only model. Errors of unseen rows are printed when all is done.

    fit_software.py [NAME ...]    prints what it finds; without names all presets, one by one
    --write                       puts it into the presets' files; build again for the next
    --check                       fails where presets are not where their rows err least
    --leave-one-out               predicts each fitted row by a fit on the others, with priors
                                  that are as firm as they are, softer and firmer

A constant has an expectation from elsewhere, so that few rows may have several. How firm that is,
is one number for all sets, STRENGTH: what errs least on fitted rows that are left out.
Needs numpy and scipy: Debian's python3-numpy and python3-scipy.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean

from command_line import Parser, run_program
from fit_costs import Parameter, Values
from minimise import Least, least_squares
from predictions import NamedError, command_of, predict_rows, summarise, times
from preset_files import carry_over, put_values
from program import InputError, Json, Pipesim, nanoseconds, value_of
from rows import Row, Source, Use, read_rows

STRENGTH = 0.1  # of expectations
STRENGTHS = (0.03, 0.1, 0.3, 1.0)
TOLERANCE = 0.01  # of the loss: how far from its least presets may be
TIMES = ("host_", "p2p_overhead")  # in ms here

Derive = Callable[[Values], Json]


@dataclass(frozen=True)
class Preset:
    """Some constants of a software on a device, and of the device, which a set shows."""

    name: str
    source: Source
    device: str
    constants: tuple[Parameter, ...]
    derive: Derive = lambda values: {}  # keys of the software that follow from constants
    usual_error: float = 0.03


def one(name: str, expected: float, spread: float, most: float = 100) -> Parameter:
    least = 0 if name.startswith((*TIMES, "hidden_")) else 0.02  # of a factor
    return Parameter(name, expected, spread, least, most, ("software", name))


def of_matmul(name: str, expected: float, spread: float, least: float, most: float) -> Parameter:
    return Parameter(name, expected, spread, least, most, ("device", "matmul", name))


def by_nodes(values: Values) -> Json:
    """Shares of the cards that fall as a power of the nodes."""

    def share(name: str, nodes: int) -> float:
        return round(min(1, values[f"{name}_of_2"] * (nodes / 2) ** -values[f"{name}_falls"]), 3)

    def entry(nodes: int) -> Json:
        shares = {name: share(name, nodes) for name in ("share", "gather_share")}
        return {"nodes": nodes, **shares}

    return {"network": [entry(nodes) for nodes in (2, 4, 8, 16, 32, 64)]}


def of_nodes(name: str, expected: float, spread: float, most: float) -> Parameter:
    return Parameter(name, expected, spread, 0, most, ())


A100, H100, B200 = "a100-sxm-80gb", "h100-sxm-80gb", "b200"
# Expectations: what other presets have and what data sheets and code let expect, not these rows.
# Efficiencies are of a device's own share of its peak; traffic is 1 where kernels are fused as
# counted, and 3 and more where each operation of a formula is a kernel of its own.
PRESETS = (
    Preset(
        "nemo",
        Source.NEMO,
        H100,
        (
            of_matmul("fp8_share", 0.65, 0.15, 0.2, 1),  # products alone 0.75, without casts
            one("p2p_overhead", 0.4, 0.3),  # Megatron's, 0.67, without its waits
            one("hidden_exchange", 0.8, 0.15, most=1),  # all but the first of 4 to 8 parts
            one("elementwise_traffic", 1.3, 0.5),
            one("loss_traffic", 1.3, 0.3),  # nanotron's, of the same kernels
        ),
    ),
    Preset("nemo-2023", Source.MLPERF, H100, (one("efficiency", 1, 0.1),)),
    # Its layouts are assumed.
    Preset(
        "megatron-core",
        Source.MEGATRON_CORE,
        H100,
        (one("efficiency", 0.95, 0.1),),
        usual_error=0.1,
    ),
    Preset(
        "megatron-core",
        Source.SIMUMAX_B200,
        B200,
        (
            one("efficiency", 0.95, 0.1),
            one("elementwise_traffic", 1.3, 0.5),
            # Transformer Engine's kernel reads logits of 2 bytes twice, and writes gradients there.
            one("loss_traffic", 0.4, 0.3),
            one("optimizer_traffic", 1, 0.3),
        ),
    ),
    Preset(
        "torchtitan",
        Source.TORCHTITAN,
        H100,
        (
            # Rates fall with the cube root of power: 0.89 at 500 of 700 W, of 0.84.
            one("efficiency", 0.75, 0.08),
            one("elementwise_traffic", 3, 1),
            one("fp8_efficiency", 1, 0.15),
        ),
    ),
    Preset(
        "deepspeed",
        Source.BIGSCIENCE,
        A100,
        (
            one("efficiency", 0.95, 0.1),
            one("elementwise_traffic", 1.5, 1),
            one("p2p_overhead", 1, 2),
            of_matmul("unaligned_8", 4, 4, 1, 60),  # without tensor cores
        ),
    ),
    Preset("deepspeed", Source.SC21_ZERO3, A100, (one("gather_share", 0.3, 0.3, most=1),)),
    Preset(
        "nanotron",
        Source.NANOTRON,
        H100,
        (
            one("efficiency", 0.85, 0.15),
            one("elementwise_traffic", 2, 1),
            one("loss_traffic", 1.5, 0.5),
            one("host_forward", 0.8, 0.8),
            one("host_backward", 1.5, 1),
            one("host_peers", 0.1, 0.2),
            one("host_peer", 0.055, 0.05),
            one("host_far_peers", 1, 1),
            one("host_far_peer", 0.5, 0.5),
            one("hidden_reduction", 0.3, 0.3, most=1),
            one("hidden_exchange", 0.3, 0.3, most=1),
            one("p2p_overhead", 0.4, 0.3),
            one("hidden_gradients", 0.3, 0.3, most=1),
            one("hidden_gather", 0.3, 0.3, most=1),
            of_nodes("share_of_2", 0.8, 0.2, 1),
            of_nodes("share_falls", 0.2, 0.2, 2),
            of_nodes("gather_share_of_2", 0.6, 0.2, 1),
            of_nodes("gather_share_falls", 0.2, 0.2, 2),
        ),
        by_nodes,
    ),
)


def as_written(name: str, value: float) -> float | str:
    """To four digits; a time in nanoseconds."""
    return f"{value:.4g}ms" if name.startswith(TIMES) else float(f"{value:.4g}")


class Fit:
    """A preset's constants on some rows."""

    def __init__(self, pipesim: Pipesim, preset: Preset, rows: Sequence[Row]) -> None:
        self._pipesim = pipesim
        self.preset = preset
        self.rows = rows
        self._commands = Counter(tuple(command_of(pipesim, row)) for row in rows)
        self._own = {row.software: self._overridden(row) for row in rows}

    def _overridden(self, row: Row) -> set[str]:
        """What the rows' preset says itself, where that is based on the fitted one."""
        if row.software in (self.preset.name, None):
            return set()
        return set(self._pipesim.preset("software", row.software)["values"])

    def committed(self) -> Values:
        """As the program has them."""
        software = self._pipesim.software(self.preset.name, self.preset.device)
        device = self._pipesim.preset("devices", self.preset.device)

        def value(constant: Parameter) -> float:
            if not constant.keys:
                return self._of_network(software, constant.name)
            at = {"software": software, "device": device}
            for key in constant.keys:
                at = at[key]
            found = value_of(at)
            return nanoseconds(found) / 1e6 if isinstance(found, str) else found

        return {constant.name: value(constant) for constant in self.preset.constants}

    @staticmethod
    def _of_network(software: Json, name: str) -> float:
        """The inverse of by_nodes()."""
        from math import log

        shares = [one[name.removesuffix("_of_2").removesuffix("_falls")] for one in value_of(software["network"])]
        if name.endswith("_of_2"):
            return shares[0]
        return -log(shares[-1] / shares[1]) / log(16)

    def files(self, values: Values) -> tuple[Json, Json]:
        """What a file of the software and one of a device say of these."""
        written = {name: as_written(name, value) for name, value in values.items()}
        own: dict[str, Json] = {"software": {}, "device": {}}
        for constant in self.preset.constants:
            if constant.keys:
                own[constant.keys[0]][constant.name] = written[constant.name]
        return own["software"] | self.preset.derive(values), own["device"]

    def changed(self, row: Row, values: Values) -> Row:
        """The row, on files that say so."""
        software, matmul = self.files(values)
        mine = {key: value for key, value in software.items() if key not in self._own[row.software]}
        head = {"version": 1, "name": "fit"}
        name = row.software or self.preset.name
        devices = {self.preset.device: mine}
        file = {"format": "pipesim-software", **head, "base": name, "devices": devices}
        row = replace(row, software=self._pipesim.file(file))
        if matmul:
            change = {"device": {"matmul": matmul}}
            file = {"format": "pipesim-cluster", **head, "base": row.cluster, **change}
            row = replace(row, cluster=self._pipesim.file(file))
        return row

    def errors(self, points: Sequence[Values], rows: Sequence[Row]) -> list[list[NamedError]]:
        changed = [self.changed(row, values) for values in points for row in rows]
        found = iter(times(predict_rows(self._pipesim, changed)))
        return [[next(found) for _ in rows] for _ in points]

    def values(self, point: Sequence[float]) -> Values:
        return {
            constant.name: constant.clamped(position)
            for constant, position in zip(self.preset.constants, point)
        }

    def run(self, start: Values, strength: float = STRENGTH) -> Least:
        """From there; points are in spreads from what is expected."""
        constants = self.preset.constants
        # Runs of one layout are one row.
        weights = [1 / self._commands[tuple(command_of(self._pipesim, row))] for row in self.rows]

        def residuals(points: Sequence[Sequence[float]]) -> list[list[float]]:
            errors = self.errors([self.values(point) for point in points], self.rows)
            return [
                [sqrt(strength) * position for position in point]
                + [error / self.preset.usual_error for _, error in some]
                for point, some in zip(points, errors)
            ]

        def position(constant: Parameter, value: float) -> float:
            return (value - constant.expected) / constant.spread

        return least_squares(
            residuals,
            [position(constant, start[constant.name]) for constant in constants],
            [position(constant, constant.least) for constant in constants],
            [position(constant, constant.most) for constant in constants],
            weights,
        )


def fitted(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.use is Use.FITTED]


def layouts(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Near-copies together: they differ in microbatches and runs only."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        key = (row.model, replace(row.training, micro_batch_size=1), row.virtual_stages, row.software)
        groups.setdefault(key, []).append(row)
    yield from groups.values()


def print_errors(title: str, errors: Sequence[NamedError]) -> None:
    some = summarise(errors)
    figures = (some.signed_mean, some.mean, some.median, some.worst)
    cells = " ".join(f"{100 * figure:7.2f}" for figure in figures)
    print(f"  {title:<28} {some.rows:>4} {cells}  {some.worst_name}")


def print_fit(fit: Fit, before: Values, least: Least, rows: Sequence[Row]) -> None:
    after = fit.values(least.point)
    print(f"  {'constant':<20} {'expected':>16} {'as it is':>9} {'fitted':>9}")
    for constant, deviation in zip(fit.preset.constants, least.deviations):
        expected = f"{constant.expected:g} +- {constant.spread:g}"
        name = constant.name
        figures = f"{before[name]:>9.4g} {after[name]:>9.4g} +- {deviation * constant.spread:.2g}"
        print(f"  {name:<20} {expected:>16} {figures}")
    print(f"  {'errors, %':<28} rows  signed    mean  median   worst")
    for use in (Use.FITTED, Use.UNSEEN):
        some = [row for row in rows if row.use is use]
        for title, errors in zip(("as it is", "fitted anew"), fit.errors([before, after], some)):
            print_errors(f"{use.value}, {title}", errors)


def leave_one_out(pipesim: Pipesim, presets: Sequence[Preset], rows: Sequence[Row]) -> None:
    """Mean errors of layouts that were left out, and of all at what is expected."""
    print("mean error, %, of fitted rows that a fit leaves out, by the strength of expectations")
    heads = " ".join(f"{strength:>7g}" for strength in STRENGTHS)
    print(f"{'':<36} {heads}  expected")
    all_errors: dict[float | str, list[float]] = {}
    for preset in presets:
        own = fitted([row for row in rows if row.source is preset.source])
        groups = list(layouts(own))
        if len(groups) < 2 or len(groups) > 40:
            continue
        figures = []
        for strength in STRENGTHS:
            errors = []
            for group in groups:
                others = Fit(pipesim, preset, [row for row in own if row not in group])
                least = others.run(expected(preset), strength)
                (left,) = Fit(pipesim, preset, group).errors([others.values(least.point)], group)
                errors.append(fmean(abs(error) for _, error in left))
            all_errors.setdefault(strength, []).extend(errors)
            figures.append(fmean(errors))
        (at,) = Fit(pipesim, preset, own).errors([expected(preset)], own)
        figures.append(fmean(abs(error) for _, error in at))
        title = f"{preset.name}, {preset.source.value}"
        print(f"{title:<36} " + " ".join(f"{100 * one:>7.2f}" for one in figures), flush=True)
    means = " ".join(f"{100 * fmean(some):>7.2f}" for some in all_errors.values())
    print(f"{'all layouts':<36} {means}")


def expected(preset: Preset) -> Values:
    return {constant.name: constant.expected for constant in preset.constants}


def main(arguments: Sequence[str]) -> int:
    parser = Parser(__doc__)
    parser.add_argument("presets", nargs="*", metavar="NAME", help="of a preset or a set of rows")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--write", action="store_true", help="write values into the presets' files")
    what.add_argument("--check", action="store_true", help="fail where presets are elsewhere")
    what.add_argument("--leave-one-out", action="store_true", help="try strengths of expectations")
    given = parser.parse_args(arguments)
    names = {name for one in PRESETS for name in (one.name, one.source.value)}
    for name in given.presets:
        if name not in names:
            raise InputError(f"unknown preset '{name}'; known: {', '.join(sorted(names))}")
    presets = [
        one
        for one in PRESETS
        if not given.presets or {one.name, one.source.value} & set(given.presets)
    ]
    rows = read_rows()
    far = 0
    with Pipesim(given.pipesim) as pipesim:
        if given.leave_one_out:
            leave_one_out(pipesim, presets, rows)
            return 0
        for preset in presets:
            own = [row for row in rows if row.source is preset.source]
            fit = Fit(pipesim, preset, fitted(own))
            before = fit.committed()
            least = fit.run(before)
            too_much = least.before / least.loss - 1
            print(
                f"{preset.name}, {preset.source.value}: loss {least.loss:.3f}, "
                f"{100 * too_much:.1f} % more as it is",
                flush=True,
            )
            if given.check:
                far += too_much > TOLERANCE
                continue
            print_fit(fit, before, least, own)
            if given.write:
                software, matmul = fit.files(fit.values(least.point))
                put_values(preset.name, preset.device, software, matmul)
    if given.write:
        carry_over()
    return 1 if far else 0


if __name__ == "__main__":
    run_program("fit_software.py", lambda: main(sys.argv[1:]))
