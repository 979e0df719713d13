#!/usr/bin/env python3
"""Fits clusters to a few rows at a time, as `pipesim fit` does for its user, and says how well the
other rows of the same set are predicted then.

    fit_draws.py                 20 draws of 5 rows a set
    fit_draws.py --rows 8        of as many
    fit_draws.py --set NAME      of one set

Rows that constants were fitted on are neither drawn nor predicted. Draws have fixed seeds.
Python's standard library is enough.
"""

from __future__ import annotations

import csv
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from command_line import Parser, run_program
from predictions import Outcome, predict_rows
from program import InputError, Json, Pipesim
from rows import Model, Part, Quantity, Row, Source, Use, read_one_gpu_steps, read_rows

WIDEST_TENSOR_PARALLEL = 8  # wider is wider than a node


@dataclass(frozen=True)
class Set:
    name: str
    source: Source
    model: str | None  # of its rows; all where absent
    presets: tuple[str, ...]  # of software to start from; the set's own last


SETS = (
    Set("nanotron 1B", Source.NANOTRON, "nanotron-1B", ("megatron-core", "nanotron")),
    Set("nanotron 8B", Source.NANOTRON, "nanotron-8B", ("megatron-core", "nanotron")),
    Set("BigScience", Source.BIGSCIENCE, None, ("megatron-2022", "deepspeed")),
    Set("one GPU", Source.ONE_GPU, None, ("pytorch",)),
    Set("NeMo", Source.NEMO, None, ("megatron-core", "nemo")),
    Set("MLPerf", Source.MLPERF, None, ("megatron-core", "nemo")),
)


def rows_of(one: Set, rows: Sequence[Row]) -> list[Row]:
    return [
        row
        for row in rows
        if row.source is one.source
        and row.use is Use.UNSEEN
        and row.quantity is Quantity.ITERATION
        and row.part is Part.DENSE  # a table of runs has no columns for more
        and row.training.tensor_parallel <= WIDEST_TENSOR_PARALLEL
        and (one.model is None or row.model.name == one.model)
    ]


def model_file(pipesim: Pipesim, model: Model) -> str:
    return pipesim.file(model.file)


def cells_of(pipesim: Pipesim, row: Row) -> Json:
    """A row of RUNS.csv."""
    training = row.training
    cells = {
        "model": model_file(pipesim, row.model),
        "stages": training.pipeline_parallel,
        "virtual_stages": row.virtual_stages,
        "microbatches": row.microbatches,
        "micro_batch_size": training.micro_batch_size,
        "sequence_length": training.sequence_length,
        "tensor_parallel": training.tensor_parallel,
        "data_parallel": training.data_parallel,
        "sequence_parallel": str(training.sequence_parallel).lower(),
        "recompute": training.recompute,
        "attention": training.attention,
        "precision": training.precision,
        "zero": training.zero,
        "gradient_bytes": training.gradient_bytes,
        "bucket_bytes": training.bucket_bytes,
        "overlap_gather": training.overlap_gather,
        "tensor_overlap": training.exchange_overlap,
        "seconds": row.published_s,
        "peak_bytes": None if row.published_peak_bytes is None else round(row.published_peak_bytes),
    }
    is_said = training.exchange_overlap is not None
    if not is_said and training.tensor_parallel > 1 and training.asynchronous_reduction is not None:
        cells["tensor_overlap"] = "on" if training.asynchronous_reduction else "off"
    return {key: "" if value is None else value for key, value in cells.items()}


def write_runs(pipesim: Pipesim, rows: Sequence[Row], path: Path) -> None:
    cells = [cells_of(pipesim, row) for row in rows]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, cells[0].keys())
        writer.writeheader()
        writer.writerows(cells)


@dataclass(frozen=True)
class Draw:
    before: list[float]  # sizes of errors of the rows that were not drawn
    after: list[float]
    by_others: float  # what the fit itself says of rows that it has not seen, in the mean
    told: list[str]
    peaks_before: list[float]  # likewise, of those rows whose peaks of memory are published
    peaks_after: list[float]


def peak_sizes(outcomes: Sequence[Outcome]) -> list[float]:
    return [abs(error) for outcome in outcomes if (error := outcome.peak_error) is not None]


def draws_of(
    pipesim: Pipesim, rows: Sequence[Row], preset: str, count: int, draws: int
) -> list[Draw]:
    drawn = [sorted(random.Random(seed).sample(range(len(rows)), count)) for seed in range(draws)]
    before = predict_rows(pipesim, as_software(rows, preset))
    with tempfile.TemporaryDirectory(prefix="pipesim-draws-") as folder:
        commands, clusters = [], []
        for number, chosen in enumerate(drawn):
            runs, cluster = Path(folder) / f"{number}.csv", Path(folder) / f"{number}.json"
            write_runs(pipesim, [rows[i] for i in chosen], runs)
            name = rows[0].cluster
            commands.append(
                ["fit", str(runs), "--cluster", name, "--software", preset, "-o", str(cluster)]
            )
            clusters.append(str(cluster))
        fits = pipesim.predict(commands)
        result = []
        for chosen, cluster, fit in zip(drawn, clusters, fits):
            others = [i for i in range(len(rows)) if i not in chosen]
            fitted = [replace(rows[i], cluster=cluster, software=None) for i in others]
            after = predict_rows(pipesim, fitted)
            told = [one["name"] for one in fit["constants"] if one["told"]]
            by_others = fit["errors"]["by_others"]["mean"]
            result.append(
                Draw(
                    [abs(before[i].error) for i in others],
                    [abs(outcome.error) for outcome in after],
                    by_others,
                    told,
                    peak_sizes([before[i] for i in others]),
                    peak_sizes(after),
                )
            )
    return result


def as_software(rows: Sequence[Row], software: str) -> list[Row]:
    return [replace(row, software=software) for row in rows]


def percent(values: Sequence[float]) -> str:
    return f"{100 * median(values):6.1f}" if values else f"{'-':>6}"


def line_of(one: Set, preset: str, rows: int, draws: Sequence[Draw]) -> str:
    before = [error for draw in draws for error in draw.before]
    after = [error for draw in draws for error in draw.after]
    medians = [median(draw.after) for draw in draws]
    told = sum(len(draw.told) for draw in draws) / len(draws)
    within = sum(draw.by_others for draw in draws) / len(draws)
    return (
        f"{one.name:<12} {preset:<14} {rows:>5} {percent(before)} {percent(after)} "
        f"{100 * max(medians):6.1f} {100 * within:9.1f} {told:6.1f} "
        f"{percent([error for draw in draws for error in draw.peaks_before])} "
        f"{percent([error for draw in draws for error in draw.peaks_after])}"
    )


def main(arguments: Sequence[str]) -> int:
    parser = Parser(__doc__)
    parser.add_argument("--rows", type=int, default=5, metavar="N", help="in a draw; default 5")
    parser.add_argument("--draws", type=int, default=20, metavar="N", help="a set; default 20")
    parser.add_argument("--set", metavar="NAME", help="one of " + ", ".join(s.name for s in SETS))
    given = parser.parse_args(arguments)
    sets = [one for one in SETS if given.set in (None, one.name)]
    if not sets:
        raise InputError(f"--set: '{given.set}' is none; see --help")
    all_rows = read_rows() + read_one_gpu_steps()
    print("errors of the rows that were not drawn, %: median before; after, of all draws and of")
    print("the worst draw; what fits say themselves, by others, in the mean; constants told;")
    print("median errors of peaks of memory before and after\n")
    print(
        f"{'set':<12} {'from':<14} {'rows':>5} {'before':>6} {'after':>6} {'worst':>6} "
        f"{'by others':>9} {'told':>6} {'peaks':>6} {'after':>6}"
    )
    for one in sets:
        rows = rows_of(one, all_rows)
        if len(rows) <= given.rows:
            raise InputError(f"{one.name}: has {len(rows)} rows; draw fewer by --rows")
        for preset in one.presets:
            with Pipesim(given.pipesim) as pipesim:
                draws = draws_of(pipesim, rows, preset, given.rows, given.draws)
            print(line_of(one, preset, len(rows), draws), flush=True)
    return 0


if __name__ == "__main__":
    run_program("fit_draws.py", lambda: main(sys.argv[1:]))
