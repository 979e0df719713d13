#!/usr/bin/env python3
"""Fits what is free of software presets on the rows that the data marks as fitted, each on
its own set, with pipesim as the only model. Errors of unseen rows are printed when all is done.

    fit_software.py [NAME ...]    prints what it finds; without names all presets, one by one
    --write                       puts it into the presets' files; build again for the next
    --check                       fails where presets are not where their rows err least
    --leave-one-out               predicts each fitted row by a fit on the others, with priors
                                  that are as firm as they are, softer and firmer

A constant has an expectation from elsewhere, so that few rows may have several. How firm that is,
is one number for all sets, STRENGTH: of STRENGTHS the one with the least errors of fitted rows of
NeMo, torchtitan and B200 that are left out.
Needs numpy and scipy: Debian's python3-numpy and python3-scipy.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import sqrt
from statistics import fmean

from command_line import Parser, run_program
from fit_costs import Parameter, Values
from minimise import Least, least_squares
from predictions import NamedError, command_of, predict_rows, summarise, times
from preset_files import carry_over, put_values
from program import InputError, Json, Pipesim, nanoseconds, value_of
from rows import Row, Use, read_rows
from software_constants import PRESETS, TIMES, Preset, of_network

STRENGTH = 0.1  # of expectations
STRENGTHS = (0.1, 0.3, 1.0, 3.0)
TOLERANCE = 0.01  # of the loss: how far from its least presets may be


def as_written(name: str, value: float) -> float | str:
    """To four digits; a time in milliseconds."""
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
                return of_network(software, constant.name)
            at = {"software": software, "device": device}
            for key in constant.keys:
                at = at[key]
            found = value_of(at)
            return nanoseconds(found) / 1e6 if isinstance(found, str) else found

        return {constant.name: value(constant) for constant in self.preset.constants}

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
    """Near-copies together: they differ in the number of microbatches and in runs only."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        key = (row.model, row.training, row.virtual_stages, row.software)
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
