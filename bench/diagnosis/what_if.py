#!/usr/bin/env python3
"""How right `pipesim whatif` is: what it says of a run, against that run made otherwise.

On the emulated device draws pipelines, some with late launches or jitter, runs each, asks what
it would take with other times, links, schedules or numbers of microbatches, and runs it so. On
the CPU trains a small model by several schedules, layouts and numbers of microbatches, and asks
one run for all others; runs are made in turn, and medians are compared.

    python3 -B bench/diagnosis/what_if.py                     30 on the emulated device
    python3 -B bench/diagnosis/what_if.py --device cpu        on the CPU; an idle machine

Exit status 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from diagnose import LOOPED, Case, Programs, draw_case, ways

FLAT = ["gpipe", "1f1b", "eager-1f1b", "zb-h1", "zb-h2"]
EMULATED_GOAL = 0.03
CPU_GOAL = 0.05

Change = tuple[list[str], dict[str, Any], list[str]]  # of whatif, costs, flags of pipeexec


def draw_change(rng: random.Random, case: Case) -> Change:
    """Something else about a run: as whatif is asked, and as it is run."""
    costs = copy.deepcopy(case.costs)
    kind = rng.choice(["scale", "link", "schedule", "microbatches"])
    if kind == "scale":
        stage = rng.randrange(len(costs["stages"]))
        factor = round(rng.uniform(0.5, 1.8), 3)
        what, keys = rng.choice([("F", ["forward_ns"]),
                                 ("B", ["backward_input_ns", "backward_weight_ns"])])
        for key in keys:
            costs["stages"][stage][key] = round(costs["stages"][stage][key] * factor)
        return ["--scale", f"{what}@stage{stage}={factor}"], costs, case.flags()
    if kind == "link":
        a, b = rng.choice(ways(case))
        speed = rng.choice([0.5, 2, 4])  # emulated messages don't share a link: they must not meet
        for pair in ((a, b), (b, a)):
            base = costs["p2p"]
            costs["p2p"]["edges"].append(
                {"from": pair[0], "to": pair[1], "latency_ns": round(base["latency_ns"] / speed),
                 "bandwidth_bytes_per_s": round(base["bandwidth_bytes_per_s"] * speed)})
        return ["--link", f"{a}-{b}={speed}x"], costs, case.flags()
    other = copy.copy(case)
    if kind == "schedule":
        choices = sorted(LOOPED) if case.family in LOOPED else FLAT
        other.family = rng.choice([name for name in choices if name != case.family])
        return ["--schedule", other.family], costs, other.flags()
    other.microbatches = case.microbatches + case.ranks * rng.randint(1, 2)
    return ["--microbatches", str(other.microbatches)], costs, other.flags()


def iteration_of(programs: Programs, flags: list[str]) -> tuple[int, str]:
    """The median iteration of a run, and where its trace is."""
    trace = programs.folder / "run.json"
    programs.run("pipeexec", *flags, "--trace", str(trace), "--quiet")
    about = json.loads(trace.read_text())["metadata"]["pipesim"]
    return round(statistics.median_low(about["iteration_ns"])), str(trace)


def ask(programs: Programs, trace: str, question: list[str]) -> dict[str, Any]:
    return json.loads(programs.run("pipesim", "whatif", trace, *question, "--json"))["rows"][0]


def emulated(arguments: argparse.Namespace, programs: Programs) -> list[float]:
    rng = random.Random(arguments.seed)
    device = ["--device", "emulated", "--pace", arguments.pace, "--iterations", "6", "--warmup",
              "1"]
    errors = []
    for run in range(arguments.runs):
        case = draw_case(rng, programs)
        fault: list[str] = []
        if run % 3 == 1:
            fault = ["--faults", f"launch@rank{rng.randrange(case.ranks)}={rng.randint(20, 200)}us"]
        elif run % 3 == 2:
            fault = ["--faults", "jitter=3%"]
        question, costs, flags = draw_change(rng, case)
        _, trace = iteration_of(
            programs, [*case.flags(), *device, *fault, "--costs",
                       programs.file("costs.json", case.costs)])
        said = ask(programs, trace, question)
        took, _ = iteration_of(programs, [*flags, *device, *fault, "--costs",
                                          programs.file("other.json", costs)])
        errors.append(verdict(" ".join(case.flags() + fault), " ".join(question), said, took))
    return errors


def verdict(run: str, question: str, said: dict[str, Any], took: int) -> float:
    error = said["makespan_ns"] / took - 1
    plain = said["predicted_ns"] / took - 1
    print(f"{error:+7.1%}  (uncorrected {plain:+.1%})  {run}: {question}", flush=True)
    return abs(error)


def on_cpu(arguments: argparse.Namespace, programs: Programs) -> list[float]:
    base = ["--schedule", "1f1b", "--microbatches", "8", "--layout", "5,5"]
    others = {
        "--schedule gpipe": ["--schedule", "gpipe", "--microbatches", "8", "--layout", "5,5"],
        "--schedule zb-h1": ["--schedule", "zb-h1", "--microbatches", "8", "--layout", "5,5"],
        "--schedule interleaved": ["--schedule", "interleaved", "--microbatches", "8"],
        "--layout 6,4": ["--schedule", "1f1b", "--microbatches", "8", "--layout", "6,4"],
        "--layout 7,3": ["--schedule", "1f1b", "--microbatches", "8", "--layout", "7,3"],
        "--microbatches 4": ["--schedule", "1f1b", "--microbatches", "4", "--layout", "5,5"],
        "--microbatches 16": ["--schedule", "1f1b", "--microbatches", "16", "--layout", "5,5"],
    }
    machine = ["--stages", "2", "--transport", "local", "--micro-batch-size", "8", "--iterations",
               "10"]
    said: dict[str, list[dict[str, Any]]] = {name: [] for name in others}
    took: dict[str, list[int]] = {name: [] for name in others}
    for _ in range(arguments.turns):
        for name, flags in others.items():
            _, trace = iteration_of(programs, [*base, *machine])
            said[name].append(ask(programs, trace, name.split()))
            took[name].append(iteration_of(programs, [*flags, *machine])[0])
    errors = []
    for name in others:
        middle = {key: statistics.median([row[key] for row in said[name]])
                  for key in ("makespan_ns", "predicted_ns")}
        errors.append(verdict(" ".join(base), name, middle, round(statistics.median(took[name]))))
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=["emulated", "cpu"], default="emulated")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--turns", type=int, default=5, help="of the CPU: runs of each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pace", choices=["wall", "anchored"], default="wall")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(Path(folder))
        work = emulated if arguments.device == "emulated" else on_cpu
        errors = work(arguments, programs)
    goal = EMULATED_GOAL if arguments.device == "emulated" else CPU_GOAL
    print(f"{len(errors)} what-ifs: largest error {max(errors):.1%} (goal {goal:.0%}), median "
          f"{statistics.median(errors):.1%}")
    if max(errors) > goal:
        sys.exit(1)


if __name__ == "__main__":
    main()
