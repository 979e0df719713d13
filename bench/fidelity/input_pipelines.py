#!/usr/bin/env python3
"""How right predictions of input pipelines are.

Each turn runs each program of a case and predicts it by pipesim --costs, as a user would:

    threads   4 emulated ranks, threads of one process, on the costs of input_costs.json
    mpi       the same as 4 processes
    cards     threads again, where two ranks share a network card of twice the bandwidth
    cpu       2 ranks over MPI train a DLRM on the CPU; costs are calibrated on base, in each turn

What is exposed of a kind is the mean over ranks, a batch. Goals, for emulated ranks: the steady
iteration within 3 %; of each kind, of the host's calls and of skew, exposed time within 5 % or
100 us a batch, whichever is more; what sparse-dist takes off base within 2 percentage points. What
waits have no reason for, `other`, no prediction has: threads that start late. Goals are for the
medians of all turns; exit status 1 where one is missed. Written are tables in Markdown.
input_pipelines.sh builds what this runs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
MS = 1_000_000
EMULATED = ["base", "sparse-dist", "lite", "fused", "semi-sync", "prefetch"]
ON_CPU = ["base", "sparse-dist", "fused"]
CPU_BATCH = 2048
CPU_RANKS = 2


@dataclass
class Figures:
    """Of one run or prediction, nanoseconds; what is exposed is of a batch."""

    iteration: float
    exposed: dict[str, float]

    @staticmethod
    def of(result: dict) -> Figures:
        return Figures(result["steady_iteration_ns"],
                       {what: ns / result["batches"] for what, ns in result["exposed_ns"].items()})


@dataclass
class Row:
    """A program of a case, over turns."""

    predicted: list[Figures] = field(default_factory=list)
    measured: list[Figures] = field(default_factory=list)

    def errors(self) -> list[float]:
        return [p.iteration / m.iteration - 1
                for p, m in zip(self.predicted, self.measured, strict=True)]

    def kinds(self) -> list[str]:
        """What has goals: `other` has none."""
        return sorted({what for figures in self.predicted + self.measured
                       for what in figures.exposed if what != "other"})

    def exposed(self, what: str) -> tuple[float, float]:
        """Predicted and measured, medians."""
        return tuple(statistics.median(f.exposed.get(what, 0) for f in side)
                     for side in (self.predicted, self.measured))

    def misses(self) -> list[str]:
        """Kinds whose exposed time is off by more than the goal."""
        missed = []
        for what in self.kinds():
            predicted, measured = self.exposed(what)
            if abs(predicted - measured) > max(0.05 * measured, 100_000):
                missed.append(what)
        return missed

    def worst(self) -> str:
        """The kind whose exposed time is off by most."""
        return max(self.kinds(), key=lambda what: abs(self.off(what)))

    def off(self, what: str) -> float:
        predicted, measured = self.exposed(what)
        return predicted - measured


class Programs:
    """pipesim and pipeexec, in a folder of their files."""

    def __init__(self, programs: Path, folder: Path, batches: int) -> None:
        self.programs = programs.resolve()
        self.folder = folder
        self.batches = batches

    def run(self, *command: object) -> str:
        environment = dict(os.environ, OMPI_MCA_rmaps_base_oversubscribe="1")
        if os.geteuid() == 0:
            environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        words = [str(word) for word in command]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def execute(self, ranks: int, processes: bool, *flags: object) -> dict:
        pipeexec = [self.programs / "pipeexec", "--batches", self.batches, "--json", *flags]
        if processes:
            return json.loads(self.run("mpirun", "-n", ranks, *pipeexec))
        return json.loads(self.run(*pipeexec, "--ranks", ranks, "--transport", "local"))

    def predict(self, name: str, costs: Path) -> Figures:
        return Figures.of(json.loads(self.run(
            self.programs / "pipesim", "--input-pipeline", name, "--costs", costs,
            "--batches", self.batches, "--json")))


def costs_of(case: str, folder: Path) -> Path:
    path = REPOSITORY / "bench" / "fidelity" / "input_costs.json"
    if case != "cards":
        return path
    # Cards of ranks 0 and 1 become one, as do those of 2 and 3.
    costs = json.loads(path.read_text())
    shared = {f"card of rank {rank}": f"card of ranks {rank // 2 * 2} and {rank // 2 * 2 + 1}"
              for rank in range(costs["ranks"])}
    bandwidths = {}
    for link in costs["links"]:
        name = shared.get(link["name"], link["name"])
        bandwidths[name] = bandwidths.get(name, 0) + link["bandwidth_bytes_per_s"]
    costs["links"] = [{"name": name, "bandwidth_bytes_per_s": bandwidth}
                      for name, bandwidth in bandwidths.items()]
    for work in costs["work"].values():
        for of_rank in work if isinstance(work, list) else [work]:
            if "links" in of_rank:
                of_rank["links"] = [shared.get(name, name) for name in of_rank["links"]]
    own = folder / "cards.json"
    own.write_text(json.dumps(costs))
    return own


def emulated_turn(programs: Programs, case: str, rows: dict[str, Row]) -> None:
    costs = costs_of(case, programs.folder)
    for name in EMULATED:
        result = programs.execute(4, case == "mpi", "--input-pipeline", name, "--device",
                                  "emulated", "--costs", costs)
        rows[name].measured.append(Figures.of(result))
        rows[name].predicted.append(programs.predict(name, costs))


# What the CPU trains: tables of several sizes, and batches in a file, so that hosts read them as
# from a loader instead of making them up.
CPU_TABLES = [(1_000, 1), (5_000, 2), (20_000, 4), (50_000, 8), (100_000, 1), (100_000, 2)]
CPU_FEATURES = 13


def write_cpu_model(folder: Path) -> Path:
    path = folder / "model.json"
    path.write_text(json.dumps({
        "format": "pipesim-model", "version": 1, "name": "dlrm-fidelity",
        "dense_features": CPU_FEATURES, "bottom": [128, 64], "top": [256, 128, 1],
        "interaction": "dot",
        "tables": [{"name": f"table {i}", "rows": rows, "ids_per_sample": ids}
                   for i, (rows, ids) in enumerate(CPU_TABLES)]}))
    return path


def write_cpu_batches(folder: Path, samples: int) -> Path:
    path = folder / "batches.txt"
    draw = random.Random(1)
    with path.open("w", encoding="ascii") as file:
        print(f"pipesim-batches 1\nsamples {samples}\ndense {CPU_FEATURES}", file=file)
        for i in range(len(CPU_TABLES)):
            print(f"table table {i}", file=file)
        for _ in range(samples):
            parts = [str(draw.getrandbits(1)),
                     " ".join(f"{draw.gauss(0, 1):.3f}" for _ in range(CPU_FEATURES))]
            parts += [" ".join(str(draw.randrange(rows)) for _ in range(ids))
                      for rows, ids in CPU_TABLES]
            print(" | ".join(parts), file=file)
    return path


def cpu_turn(programs: Programs, rows: dict[str, Row]) -> None:
    folder = programs.folder
    model, data = folder / "model.json", folder / "batches.txt"
    if not data.exists():
        write_cpu_model(folder)
        write_cpu_batches(folder, CPU_RANKS * CPU_BATCH * programs.batches)
    costs, trace = folder / "calibrated.json", folder / "base.json"
    for name in ON_CPU:
        flags = ["--trace", trace] if name == "base" else []
        result = programs.execute(CPU_RANKS, True, "--input-pipeline", name, "--model", model,
                                  "--data", data, "--batch-size", CPU_BATCH, *flags)
        rows[name].measured.append(Figures.of(result))
        if name == "base":
            programs.run(programs.programs / "pipesim", "calibrate", trace, "-o", costs)
        rows[name].predicted.append(programs.predict(name, costs))


def gain(base: Figures, other: Figures) -> float:
    """Percentage points of base's iteration that the other takes less."""
    return (1 - other.iteration / base.iteration) * 100


def report(case: str, rows: dict[str, Row], exposed: bool) -> bool:
    """Prints a case; whether it keeps to the goals."""
    median = statistics.median
    within = True
    print(f"\n| {case}: program | iteration, ms | predicted | error | of each turn "
          "| exposed off by most, us a batch | off by more than the goal | other, us |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, row in rows.items():
        errors, missed, worst = row.errors(), row.misses(), row.worst()
        within = within and abs(median(errors)) <= 0.03 and not missed
        print(f"| {name} | {median(f.iteration for f in row.measured) / MS:.2f} "
              f"| {median(f.iteration for f in row.predicted) / MS:.2f} | {median(errors):+.1%} "
              f"| {', '.join(f'{error:+.1%}' for error in errors)} "
              f"| {worst} {row.off(worst) / 1000:+.0f} of {row.exposed(worst)[1] / 1000:.0f} "
              f"| {', '.join(missed) or 'none'} | {row.exposed('other')[1] / 1000:.0f} |")
    gains = [median(gain(base, other) for base, other in
                    zip(getattr(rows["base"], side), getattr(rows["sparse-dist"], side),
                        strict=True)) for side in ("predicted", "measured")]
    within = within and abs(gains[0] - gains[1]) <= 2
    print(f"\n{case}: sparse-dist takes {gains[1]:.1f} % off base's iteration, predicted "
          f"{gains[0]:.1f} %.", flush=True)
    if exposed:
        print_exposed(case, rows)
    return within


def print_exposed(case: str, rows: dict[str, Row]) -> None:
    print(f"\n| {case}: exposed, us a batch, predicted / measured | {' | '.join(rows)} |")
    print("| --- |" + " --- |" * len(rows))
    for what in sorted({kind for row in rows.values() for kind in row.kinds()}):
        cells = []
        for row in rows.values():
            predicted, measured = row.exposed(what)
            cells.append(f"{predicted / 1000:.0f} / {measured / 1000:.0f}")
        print(f"| {what} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", type=Path, default=REPOSITORY / "build" / "release")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--batches", type=int, default=24)
    parser.add_argument("--case", choices=["threads", "mpi", "cards", "cpu"], action="append")
    parser.add_argument("--exposed", action="store_true", help="of all kinds, predicted, measured")
    arguments = parser.parse_args()
    within = True
    for case in arguments.case or ["threads", "mpi", "cards", "cpu"]:
        rows = {name: Row() for name in (ON_CPU if case == "cpu" else EMULATED)}
        with tempfile.TemporaryDirectory() as folder:
            programs = Programs(arguments.programs, Path(folder), arguments.batches)
            for _ in range(arguments.turns):
                if case == "cpu":
                    cpu_turn(programs, rows)
                else:
                    emulated_turn(programs, case, rows)
        within = report(case, rows, arguments.exposed) and (within or case == "cpu")
    sys.exit(0 if within else 1)


if __name__ == "__main__":
    main()
