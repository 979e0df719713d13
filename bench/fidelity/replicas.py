#!/usr/bin/env python3
"""How right predictions of replicas are: exposed reduction, and the iteration.

Runs replicas of a pipeline on pipeexec's emulated device, whose actions take the time that costs
say while what replicas exchange are real messages. Costs are calibrated from runs with two sizes
of buckets, and predict runs with others, with another stage of ZeRO, and with another number of
replicas, as a user would: by pipesim --costs and compare. Each turn measures everything anew.

    python3 -B bench/fidelity/replicas.py                5 turns, on an idle machine
    python3 -B bench/fidelity/replicas.py --turns 1 --case links

Cases: `links` emulates the links between replicas, 100 us and 200 MB/s; in `real` messages take
what the machine's memory and processors take. Reduction of 8 replicas shares processors that
that of 4 has alone, so that `real` predicts no other number of replicas. Goals: exposed reduction
within 5 % or 100 us, whichever is more, and iterations within 3 %, of runs that differ from the
calibrated ones in their buckets alone. Exit status 1 where the median of a row misses them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
MS = 1_000_000
SCHEDULE = ["--schedule", "1f1b", "--stages", "2", "--microbatches", "4"]
CALIBRATED = [["--bucket-bytes", "300kB"], ["--bucket-bytes", "1MB"]]


@dataclass
class Row:
    """Something to predict: flags of replicas."""

    name: str
    replicas: int
    flags: list[str]
    counts: bool = False  # for the goals


ROWS = [
    Row("one bucket", 4, [], True),
    Row("buckets of 150 kB", 4, ["--bucket-bytes", "150kB"], True),
    Row("buckets of 500 kB", 4, ["--bucket-bytes", "500kB"], True),
    Row("buckets of 1.5 MB", 4, ["--bucket-bytes", "1.5MB"], True),
    Row("ZeRO 1, buckets of 500 kB", 4, ["--zero", "1", "--bucket-bytes", "500kB"]),
    Row("ZeRO 2", 4, ["--zero", "2"]),
    Row("ZeRO 3", 4, ["--zero", "3"]),
    Row("2 replicas, buckets of 500 kB", 2, ["--bucket-bytes", "500kB"]),
    Row("8 replicas, buckets of 500 kB", 8, ["--bucket-bytes", "500kB"]),
]


def costs_of(case: str) -> dict[str, object]:
    stage = {"forward_ns": 8 * MS, "backward_ns": 16 * MS, "output_bytes": 65_536,
             "parameters": 500_000}
    costs = {"format": "pipesim-costs", "version": 1, "stages": [stage, stage],
             "optimizer_ns": MS, "gradient_norm": {"latency_ns": 100_000}}
    if case == "links":
        costs["replicas"] = {"latency_ns": 100_000, "bandwidth_bytes_per_s": 200_000_000}
    return costs


class Programs:
    """pipesim and pipeexec, in a folder of their files."""

    def __init__(self, folder: Path, iterations: int) -> None:
        self.folder = folder
        self.iterations = iterations

    def run(self, program: str, *arguments: str) -> str:
        path = REPOSITORY / "build" / "release" / program
        done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{program} {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def measure(self, costs: str, replicas: int, flags: list[str], name: str) -> tuple[str, int]:
        """A trace, and what the median iteration took."""
        trace = str(self.folder / f"{name}.json")
        result = self.run("pipeexec", *SCHEDULE, "--device", "emulated", "--transport", "local",
                          "--costs", costs, "--data-parallel", str(replicas), *flags,
                          "--iterations", str(self.iterations), "--trace", trace, "--json")
        return trace, json.loads(result)["iteration_ns"]

    def predict(self, costs: str, replicas: int, flags: list[str]) -> tuple[str, int]:
        trace = str(self.folder / "predicted.json")
        result = self.run("pipesim", *SCHEDULE, "--costs", costs, "--data-parallel", str(replicas),
                          *flags, "--iterations", "4", "--trace", trace, "--json")
        return trace, json.loads(result)["steady_iteration_ns"]


def exposed_ns(side: list[dict[str, int]]) -> float:
    return statistics.mean(rank.get("exposed_collective_ns", 0) for rank in side)


@dataclass
class Figures:
    """Of a row in one turn."""

    exposed: tuple[float, float]  # predicted, measured
    iteration: tuple[int, int]

    def exposed_error(self) -> float:
        return self.exposed[0] - self.exposed[1]

    def iteration_error(self) -> float:
        return self.iteration[0] / self.iteration[1] - 1


def take_turn(programs: Programs, case: str, rows: list[Row]) -> list[Figures]:
    given = programs.folder / f"{case}.costs.json"
    given.write_text(json.dumps(costs_of(case)))
    traces = [programs.measure(str(given), 4, flags, f"calibrated{i}")[0]
              for i, flags in enumerate(CALIBRATED)]
    costs = str(programs.folder / "calibrated.costs.json")
    programs.run("pipesim", "calibrate", *traces, "-o", costs)
    figures = []
    for row in rows:
        measured, took_ns = programs.measure(str(given), row.replicas, row.flags, "measured")
        predicted, expected_ns = programs.predict(costs, row.replicas, row.flags)
        found = json.loads(programs.run("pipesim", "compare", predicted, measured, "--json"))
        ranks = found["ranks"]
        figures.append(Figures((exposed_ns(ranks["predicted"]), exposed_ns(ranks["measured"])),
                               (expected_ns, took_ns)))
    return figures


def report(case: str, rows: list[Row], all_figures: dict[str, list[Figures]]) -> bool:
    print(f"\n| {case}: predicted row | exposed, ms | predicted | off by, us | of each turn | "
          "iteration, ms | predicted | error | of each turn |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    within = True
    for row in rows:
        own = all_figures[row.name]
        middle = statistics.median
        exposed = middle(f.exposed[1] for f in own)
        off = middle(f.exposed_error() for f in own)
        error = middle(f.iteration_error() for f in own)
        good = abs(off) <= max(0.05 * exposed, 100_000) and abs(error) <= 0.03
        within = within and (good or not row.counts)
        print(f"| {row.name}{'' if good else ', missed'} | {exposed / MS:.2f} "
              f"| {middle(f.exposed[0] for f in own) / MS:.2f} | {off / 1000:+.0f} "
              f"| {', '.join(f'{f.exposed_error() / 1000:+.0f}' for f in own)} "
              f"| {middle(f.iteration[1] for f in own) / MS:.2f} "
              f"| {middle(f.iteration[0] for f in own) / MS:.2f} | {error:+.1%} "
              f"| {', '.join(f'{f.iteration_error():+.1%}' for f in own)} |", flush=True)
    return within


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--case", choices=["links", "real"], action="append")
    arguments = parser.parse_args()
    within = True
    for case in arguments.case or ["links", "real"]:
        rows = [row for row in ROWS if case == "links" or row.replicas == 4]
        figures: dict[str, list[Figures]] = defaultdict(list)
        for _ in range(arguments.turns):
            with tempfile.TemporaryDirectory() as folder:
                programs = Programs(Path(folder), arguments.iterations)
                for row, own in zip(rows, take_turn(programs, case, rows), strict=True):
                    figures[row.name].append(own)
        within = report(case, rows, figures) and within
    sys.exit(0 if within else 1)


if __name__ == "__main__":
    main()
