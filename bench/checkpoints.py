#!/usr/bin/env python3
"""What checkpoints cost a training, and what failures do to one under supervision.

  async    the mean iteration with asynchronous saves every 10 iterations, against the same without,
           in alternated runs; one rank, and two
  resume   from the start of the process to the end of the first iteration behind a checkpoint
  failures the share of useful time of a training that `pipeexec supervise` starts again, whose
           ranks are killed when `pipesim goodput` says, against what that predicts for the same seed

    bash bench/checkpoints.sh                      all of it
    bash bench/checkpoints.sh --turns 3 --case async

Goals: one rank with asynchronous saves at most 3 % slower; a resume within 2 s; useful time within
5 points of the prediction. Exit status 1 where one is missed.
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
import time
from pathlib import Path

CASES = ["async", "resume", "failures"]
SCHEDULE = ["--schedule", "1f1b", "--microbatches", "8"]
SLOWER, RESUMED_S, POINTS = 0.03, 2.0, 5.0


class Bench:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.programs = Path(arguments.programs).resolve()
        self.folder = Path(tempfile.mkdtemp(dir=arguments.folder))
        self.missed: list[str] = []

    def run(self, program: str, *words: object, status: int = 0) -> str:
        command = [str(self.programs / program), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != status:
            sys.exit(f"{' '.join(command)}\nexit status {done.returncode}\n{done.stderr}")
        return done.stdout

    def train(self, ranks: int, iterations: int, *words: object) -> dict:
        return json.loads(self.run("pipeexec", *SCHEDULE, "--stages", ranks, "--json", "--iterations",
                                   iterations, *words))

    def fresh(self) -> Path:
        saved = self.folder / "ck"
        shutil.rmtree(saved, ignore_errors=True)
        return saved

    def check(self, what: str, holds: bool) -> str:
        if not holds:
            self.missed.append(what)
        return "" if holds else "  MISSED"

    def asynchronous(self) -> None:
        for ranks in (1, 2):
            ratios = []
            for turn in range(self.arguments.turns):
                means = {}
                for saves in ((False, True), (True, False))[turn % 2]:
                    words = ["--checkpoint", self.fresh(), "--async-checkpoint"] if saves else []
                    result = self.train(ranks, 60, *words)
                    means[saves] = statistics.fmean(result["iteration_times_ns"])
                ratios.append(means[True] / means[False] - 1)
            slower = statistics.median(ratios)
            told = self.check(f"async, {ranks} ranks", ranks > 1 or slower <= SLOWER)
            print(f"async    {ranks} rank(s): {slower:+.1%} a mean iteration, "
                  f"{min(ratios):+.1%} to {max(ratios):+.1%} in {len(ratios)} turns{told}")

    def resume(self) -> None:
        saved = self.fresh()
        self.train(2, 10, "--checkpoint", saved)
        times = []
        for _ in range(self.arguments.turns):
            start = time.monotonic()
            result = self.train(2, 11, "--resume", saved)
            times.append(time.monotonic() - start)
            assert result["resumed_at"] == 12
        took = statistics.median(times)
        told = self.check("resume", took <= RESUMED_S)
        print(f"resume   {took:.2f} s from the start to the end, with one iteration{told}")

    def supervised(self, iterations: int, every: int, *words: object) -> dict:
        saved = self.fresh()
        return json.loads(self.run(
            "pipeexec", "supervise", "--json", "--restarts", 1000, *words, "--",
            self.programs / "pipeexec", *SCHEDULE, "--stages", 2, "--quiet", "--warmup", 0,
            "--iterations", iterations, "--checkpoint", saved, "--checkpoint-every", every))

    def failures(self) -> None:
        every = 20
        # What the prediction is told: an iteration, a save, and from a failure to training again.
        plain = self.train(2, 100)["iteration_ns"]
        trace = self.folder / "saves.json"
        self.train(2, 60, "--checkpoint", self.fresh(), "--checkpoint-every", 2, "--trace", trace)
        saves = [event["dur"] * 1000 for event in json.loads(trace.read_text())["traceEvents"]
                 if event.get("name", "").endswith("SAVE") and event.get("ph") == "X"]
        save = int(statistics.median(saves))
        rehearsed = self.supervised(60, 1000, "--kill-at", "2s")
        first = rehearsed["attempts"][0]
        begin = first["first_iteration_ns"] - first["start_ns"] - plain
        restart = statistics.median(
            event["end_ns"] - event["start_ns"] for event in rehearsed["events"]
            if event["kind"] == "restart") - plain
        print(f"failures iterations of {plain / 1e6:.1f} ms, saves of {save / 1e6:.1f} ms every "
              f"{every}, restarts of {restart / 1e9:.2f} s")
        for seed in range(1, 1 + self.arguments.seeds):
            work = 45_000_000_000 // plain * plain
            said = json.loads(self.run(
                "pipesim", "goodput", "--iteration-time", f"{plain}ns", "--save-time", f"{save}ns",
                "--restart", f"{int(restart)}ns", "--mtbf", "10s", "--interval", every, "--work",
                f"{work}ns", "--seed", seed, "--trials", 1, "--json"))
            trial = said["trial"]
            predicted = trial["goodput"] * trial["wall_ns"] / (trial["wall_ns"] + begin)
            kills = ",".join(f"{int(at + begin)}ns" for at in said["failures_ns"])
            measured = self.supervised(work // plain, every, *(["--kill-at", kills] if kills else []))
            apart = (measured["useful_fraction"] - predicted) * 100
            told = self.check(f"failures, seed {seed}", abs(apart) <= POINTS)
            print(f"failures seed {seed}: {len(measured['attempts']) - 1} restarts, predicted "
                  f"{trial['failures']}; useful {measured['useful_fraction']:.1%}, predicted "
                  f"{predicted:.1%}, {apart:+.1f} points{told}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", required=True, help="the folder of pipesim and pipeexec")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", default=None, help="where checkpoints are saved")
    parser.add_argument("--case", action="append", choices=CASES)
    arguments = parser.parse_args()
    os.environ.pop("PIPEEXEC_PROGRESS", None)
    bench = Bench(arguments)
    try:
        for case in arguments.case or CASES:
            {"async": bench.asynchronous, "resume": bench.resume,
             "failures": bench.failures}[case]()
    finally:
        shutil.rmtree(bench.folder)
    return 1 if bench.missed else 0


if __name__ == "__main__":
    sys.exit(main())
