#!/usr/bin/env python3
"""How right predictions of checkpoints are: what a SAVE takes, and what it adds to a run.

Trains and saves, synchronously and asynchronously, calibrates on both runs together, and predicts
two others, of another schedule and another number of microbatches, that save less often: by
pipesim --costs --checkpoint-every and compare, as a user would. Cases are 1 and 2 ranks, in memory
and on the disk; each is calibrated on as many ranks as it predicts, since syncs of several ranks
wait for each other (traces/METRICS.md, "Calibrating"). Turns alternate over the cases, and each
measures everything anew.

    bash bench/fidelity/saves.sh               5 turns
    bash bench/fidelity/saves.sh --turns 1 --case memory-1 --case disk-2

Goal: the time of a synchronous SAVE within 10 %. Exit status 1 where the median of a case misses
it. What an asynchronous save hides it hides behind processors that it shares: of those the
prediction knows nothing, so that the whole run is told beside.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

CASES = ["memory-1", "memory-2", "disk-1", "disk-2"]
GOAL = 0.10
CALIBRATED = ["--schedule", "gpipe", "--microbatches", "4"]
PREDICTED = ["--schedule", "1f1b", "--microbatches", "8"]
EVERY = {"calibrated": 2, "predicted": 4}


class Bench:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.programs = Path(arguments.programs).resolve()
        self.arguments = arguments
        self.environment = os.environ | {
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def run(self, command: list[str | Path]) -> str:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              check=False, env=self.environment)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
        return done.stdout

    def pipesim(self, *words: str | Path) -> str:
        return self.run([self.programs / "pipesim", *words])

    def train(self, ranks: int, flags: list[str], every: int, beside: bool, folder: Path,
              trace: Path) -> dict:
        saved = folder / "checkpoints"
        shutil.rmtree(saved, ignore_errors=True)
        iterations = every * self.arguments.saves
        command: list[str | Path] = [self.programs / "pipeexec"]
        if self.arguments.transport == "local":
            command += ["--transport", "local", "--stages", str(ranks)]
        else:
            command = ["mpirun", "--oversubscribe", "-n", str(ranks), *command]
        command += [*flags, "--model", self.arguments.model, "--micro-batch-size", "4",
                    "--warmup", str(every), "--iterations", str(iterations),
                    "--checkpoint", saved, "--checkpoint-every", str(every), "--keep", "1",
                    "--trace", trace, "--json"]
        if beside:
            command.append("--async-checkpoint")
        result = json.loads(self.run(command))
        shutil.rmtree(saved, ignore_errors=True)
        return result

    def turn(self, case: str, traces: Path) -> dict[str, tuple[float, float]]:
        """What is predicted and measured, in ms, by what it is."""
        place, ranks = case.split("-")
        parent = "/dev/shm" if place == "memory" else self.arguments.disk
        costs = traces / "costs.json"
        with tempfile.TemporaryDirectory(dir=parent) as name:
            folder = Path(name)
            files = []
            for beside in (False, True):
                files.append(traces / f"calibrated-{int(beside)}.json")
                self.train(int(ranks), CALIBRATED, EVERY["calibrated"], beside, folder, files[-1])
            self.pipesim("calibrate", *files, "-o", costs)
            rows: dict[str, tuple[float, float]] = {}
            for beside in (False, True):
                kind = "async" if beside else "sync"
                predicted, measured = traces / "predicted.json", traces / "measured.json"
                every = EVERY["predicted"]
                flags = ["--checkpoint-every", str(every)] + (["--async-checkpoint"] if beside
                                                              else [])
                said = json.loads(self.pipesim(
                    *PREDICTED, "--stages", ranks, "--costs", costs, *flags, "--iterations",
                    str(2 * every), "--trace", predicted, "--json"))
                result = self.train(int(ranks), PREDICTED, every, beside, folder, measured)
                compared = json.loads(self.pipesim("compare", predicted, measured, "--json"))
                rows[f"{kind} SAVE"] = tuple(
                    max(row[side]["save_ns"] for row in compared["saves"]) / 1e6
                    for side in ("predicted", "measured"))
                if beside:
                    rows["async write"] = tuple(
                        max(row[side]["beside_ns"] for row in compared["saves"]) / 1e6
                        for side in ("predicted", "measured"))
                times = result["iteration_times_ns"]
                rows[f"{kind} mean iteration"] = (
                    said["save"]["mean_iteration_ns"] / 1e6, statistics.mean(times) / 1e6)
        return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default="build/release")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--saves", type=int, default=6, help="of each run")
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--model", default="gpt-mini")
    parser.add_argument("--disk", default=".", help="a folder on it")
    parser.add_argument("--transport", choices=["mpi", "local"], default="mpi")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    cases = arguments.case or CASES
    turns: dict[str, dict[str, list[tuple[float, float]]]] = {
        case: defaultdict(list) for case in cases}
    for turn in range(arguments.turns):
        # Alternated, so that what drifts meets all.
        for case in cases if turn % 2 == 0 else reversed(cases):
            with tempfile.TemporaryDirectory() as traces:
                for what, pair in bench.turn(case, Path(traces)).items():
                    turns[case][what].append(pair)
    print(f"{'case':<10}{'what':<24}{'predicted':>12}{'measured':>12}{'error':>9}{'worst':>9}")
    missed = False
    for case in cases:
        for what, pairs in turns[case].items():
            errors = [predicted / measured - 1 if measured > 0 else 0
                      for predicted, measured in pairs]
            error = statistics.median(errors)
            worst = max(errors, key=abs)
            print(f"{case:<10}{what:<24}"
                  f"{statistics.median(pair[0] for pair in pairs):>9.2f} ms"
                  f"{statistics.median(pair[1] for pair in pairs):>9.2f} ms"
                  f"{error:>+8.1%} {worst:>+8.1%}")
            missed = missed or (what == "sync SAVE" and abs(error) > GOAL)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
