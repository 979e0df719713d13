#!/usr/bin/env python3
"""How often a comparison names what slowed a training down, on real processors.

Trains a small model with two ranks, and again with something wrong: a slow stage, one slow
microbatch, late launches, a pause, a host that others keep busy. Each case is five pairs of runs
in alternation; the truth is what the medians of pairs differ by, and a cause counts as named
where most of the five comparisons name it first. What a busy host costs is to be called noise.

    python3 -B bench/diagnosis/on_cpu.py                40 cases, by the seed 1, on an idle machine
    python3 -B bench/diagnosis/on_cpu.py --cases 8 --seed 3 --verbose

Exit status 1 where a goal is missed.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnose import Programs

FAMILIES = ["gpipe", "1f1b", "zb-h1", "interleaved", "bfs"]
LOOPED = {"interleaved", "bfs"}
FAULTS = ["stage", "microbatch", "launch", "pause", "host"]
LEAST_EFFECT = 0.15
MS = 1_000_000


@dataclass
class Case:
    flags: list[str]
    name: str  # of the fault
    fault: str  # for --faults; empty of a busy host
    named: dict[str, Any]  # keys of the root cause


def draw(rng: random.Random) -> Case:
    family = rng.choice(FAMILIES)
    microbatches = rng.choice([4, 8])
    flags = ["--schedule", family, "--microbatches", str(microbatches)]
    stages = 2
    if family in LOOPED:
        stages = 4
    elif rng.random() < 0.3:
        flags += ["--layout", rng.choice(["6,4", "4,6"])]
    stage = rng.randrange(stages)
    rank = stage % 2
    kind = rng.choice(["F", "I" if family == "zb-h1" else "B"])
    microbatch = rng.randrange(1, microbatches)
    action = f"{stage}{kind}{microbatch}"
    name = rng.choice(FAULTS)
    if name == "stage":
        return Case(flags, name, f"{kind}@stage{stage}=x{rng.uniform(1.5, 2.5):.2f}",
                    {"term": "compute", "rank": rank, "stage": stage, "kind": kind})
    if name == "microbatch":
        return Case(flags, name, f"{action}=x{rng.uniform(4, 10):.1f}",
                    {"term": "compute", "rank": rank, "stage": stage, "kind": kind,
                     "microbatch": microbatch})
    if name == "launch":
        return Case(flags, name, f"launch@rank{rank}={rng.randint(1500, 4000)}us",
                    {"term": "launch", "rank": rank})
    if name == "pause":
        return Case(flags, name, f"pause@{action}={rng.randint(20, 80)}ms",
                    {"term": "launch", "rank": rank, "microbatch": microbatch})
    return Case(flags, name, "", {})


def train(programs: Programs, name: str, case: Case, faulty: bool) -> tuple[str, int]:
    """A run's trace, and its median iteration."""
    trace = programs.folder / name
    hogs = []
    if faulty and case.name == "host":
        hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                for _ in range((os.cpu_count() or 2) // 2)]
    try:
        programs.run("pipeexec", *case.flags, "--stages", "2", "--transport", "local",
                     "--micro-batch-size", "8", "--iterations", "10", "--trace", str(trace),
                     "--quiet", *(["--faults", case.fault] if faulty and case.fault else []))
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    about = json.loads(trace.read_text())["metadata"]["pipesim"]
    return str(trace), int(statistics.median_low(about["iteration_ns"]))


@dataclass
class Verdict:
    right: bool
    error: float
    text: str


def judge(case: Case, pairs: list[tuple[dict[str, Any], int]], base: int) -> Verdict | None:
    """Nothing where the fault costs less than it has to."""
    truth = statistics.median(ns for _, ns in pairs)
    if truth < LEAST_EFFECT * base:
        return None
    rights, effects = 0, []
    for comparison, _ in pairs:
        causes = comparison["root_causes"]
        if case.name == "host":
            noise = comparison["noise"]["effect_ns"]
            effects.append(noise)
            largest = max((abs(c["effect_ns"]) for c in causes), default=0)
            rights += abs(noise) > 5 * largest
            continue
        found = [c for c in causes
                 if all(c.get(key) == value for key, value in case.named.items())]
        rights += bool(causes) and causes[0] in found
        effects.append(found[0]["effect_ns"] if found else 0)
    error = abs(statistics.median(effects) - truth) / truth
    right = 2 * rights > len(pairs)
    first = pairs[0][0]
    said = "; ".join(f"{c['why']} ({c['effect_ns'] / MS:+.2f} ms)"
                     for c in first["root_causes"][:2])
    text = (f"{'right' if right else 'WRONG'} {rights}/{len(pairs)}, off by {error:.1%}: "
            f"{' '.join(case.flags)} {case.fault or 'busy host'}: {truth / MS:.1f} ms of "
            f"{base / MS:.0f}; said: {said}; noise {first['noise']['effect_ns'] / MS:+.2f} ms")
    return Verdict(right, error, text)


def run_case(rng: random.Random, programs: Programs, pairs: int) -> tuple[str, Verdict]:
    while True:
        case = draw(rng)
        results, clean_ns = [], []
        for pair in range(pairs):
            order = [False, True] if pair % 2 == 0 else [True, False]
            made = {faulty: train(programs, f"{'faulty' if faulty else 'clean'}.json", case, faulty)
                    for faulty in order}
            comparison = json.loads(programs.run("pipesim", "compare", made[False][0],
                                                 made[True][0], "--json"))
            results.append((comparison, made[True][1] - made[False][1]))
            clean_ns.append(made[False][1])
            if pair == 0 and results[0][1] < 0.8 * LEAST_EFFECT * clean_ns[0]:
                break  # too small: another one
        if len(results) < pairs:
            continue
        verdict = judge(case, results, round(statistics.median(clean_ns)))
        if verdict:
            return case.name, verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="prints what was said of each case")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    verdicts = []
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(Path(folder))
        for _ in range(arguments.cases):
            name, verdict = run_case(rng, programs, arguments.pairs)
            verdicts.append((name, verdict))
            if arguments.verbose or not verdict.right or verdict.error > 0.2:
                print(verdict.text, flush=True)
    print(f"{'fault':<12}{'cases':>6}{'right':>9}{'median error':>15}{'largest':>10}")
    for kind in [*sorted({name for name, _ in verdicts}), "all"]:
        own = [v for name, v in verdicts if kind in (name, "all")]
        print(f"{kind:<12}{len(own):>6}{sum(v.right for v in own) / len(own):>9.1%}"
              f"{statistics.median(v.error for v in own):>15.1%}{max(v.error for v in own):>10.1%}")
    right = sum(v.right for _, v in verdicts) / len(verdicts)
    within = sum(v.error <= 0.2 for _, v in verdicts) / len(verdicts)
    print(f"goals: right {right:.1%} (90 %), effect within 20 % in {within:.1%} of cases")
    if right < 0.9 or statistics.median(v.error for _, v in verdicts) > 0.2:
        sys.exit(1)


if __name__ == "__main__":
    main()
