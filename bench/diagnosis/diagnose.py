#!/usr/bin/env python3
"""How often a comparison names the cause of a slow run, and how well it knows its effect.

Draws pipelines and puts one or two things wrong with each: a slow stage, one slow microbatch, a
slow link, late launches, a pause, an action out of order, a clock that is ahead, or drifts
beside, a reduction of gradients that should go on beside the backward and does not, and with
--jitter durations that vary. Runs each on pipeexec's emulated device, compares the run with the prediction that knows nothing of it, and
holds the causes named to what the fault really costs, worked out by pipeline.py.

    python3 -B bench/diagnosis/diagnose.py              200 runs, by the seed 1
    python3 -B bench/diagnosis/diagnose.py --runs 40 --seed 7 --pace anchored
    python3 -B bench/diagnosis/diagnose.py --runs 40 --fault overlap

Exit status 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import dataclasses
import json
import random
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline import Action, Closing, Pipeline, parse_program

REPOSITORY = Path(__file__).resolve().parents[2]
FAMILIES = ["gpipe", "1f1b", "eager-1f1b", "interleaved", "interleaved-pytorch", "bfs", "zb-h1",
            "zb-h2", "interleaved-zb"]
LOOPED = {"interleaved", "interleaved-pytorch", "interleaved-zb", "bfs"}
FAULTS = ["stage", "microbatch", "bandwidth", "latency", "launch", "pause", "order", "clock",
          "drift", "overlap"]
ALONE = {"order", "clock", "drift", "overlap"}  # faults that come with no other
REPLICATED = {"gpipe", "1f1b", "eager-1f1b"}  # ranks of a stage, whose last action is a backward
LEAST_EFFECT = 0.03  # of the iteration
MS = 1_000_000


@dataclass
class Case:
    """A pipeline as it is planned, and as it runs."""

    family: str
    ranks: int
    chunks: int
    microbatches: int
    costs: dict[str, Any]
    pipeline: Pipeline
    faults: list[Fault] = field(default_factory=list)

    def flags(self) -> list[str]:
        flags = ["--schedule", self.family, "--stages", str(self.ranks)]
        flags += ["--microbatches", str(self.microbatches)]
        return flags + (["--virtual-stages", str(self.chunks)] if self.family in LOOPED else [])


@dataclass
class Fault:
    """What is wrong: how to put it into a run, and what a diagnosis has to name."""

    name: str
    named: dict[str, Any]  # keys of a root cause
    costs: dict[str, Any] | None = None  # changes of the costs: see with_faults()
    flag: str | None = None  # for --faults
    swap: tuple[int, int] | None = None  # rank, place
    clock: tuple[int, int, int] | None = None  # rank, ns ahead, ns a second
    closing: Closing | None = None  # of two replicas, as planned; at once, as it runs


class Programs:
    """pipesim and pipeexec."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, program: str, *arguments: str) -> str:
        path = REPOSITORY / "build" / "release" / program
        done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{program} {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def file(self, name: str, content: Any) -> str:
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)


def draw_case(rng: random.Random, programs: Programs) -> Case:
    family = rng.choice(FAMILIES)
    ranks = rng.randint(2, 5)
    chunks = rng.randint(2, 3) if family in LOOPED else 1
    microbatches = ranks * rng.randint(1, 3)
    stages = []
    for _ in range(ranks * chunks):
        forward = rng.randint(8, 20) * MS // 10 // chunks * 2
        stages.append({
            "forward_ns": forward,
            "backward_input_ns": round(forward * rng.uniform(0.8, 1.2)),
            "backward_weight_ns": round(forward * rng.uniform(0.8, 1.2)),
            "output_bytes": rng.choice([65_536, 262_144, 1_048_576]),
        })
    costs = {"format": "pipesim-costs", "version": 1, "stages": stages,
             "p2p": {"latency_ns": rng.choice([100_000, 200_000]),
                     "bandwidth_bytes_per_s": rng.choice([5, 20]) * 10**9, "edges": []}}
    case = Case(family, ranks, chunks, microbatches, costs, Pipeline([], [], {}, {}))
    path = programs.file("costs.json", costs)
    trace = programs.folder / "program.json"
    programs.run("pipesim", *case.flags(), "--costs", path, "--trace", str(trace), "--quiet")
    about = json.loads(trace.read_text())["metadata"]["pipesim"]
    case.pipeline = Pipeline(parse_program(about["program"]), about["rank_of_stage"], {}, {})
    set_times(case.pipeline, costs)
    return case


def set_times(pipeline: Pipeline, costs: dict[str, Any]) -> None:
    for stage, entry in enumerate(costs["stages"]):
        for kind, keys in {"F": ["forward_ns"], "I": ["backward_input_ns"],
                           "W": ["backward_weight_ns"],
                           "B": ["backward_input_ns", "backward_weight_ns"]}.items():
            pipeline.durations[stage, kind] = sum(entry[key] for key in keys)
    edges = {(edge["from"], edge["to"]): edge for edge in costs["p2p"]["edges"]}
    for stage in range(len(costs["stages"]) - 1):
        ends = pipeline.rank_of_stage[stage], pipeline.rank_of_stage[stage + 1]
        size = costs["stages"][stage]["output_bytes"]
        for way, pair in (((stage, stage + 1), ends), ((stage + 1, stage), ends[::-1])):
            link = edges.get(pair, costs["p2p"])
            took = link["latency_ns"] + -(-size * 10**9 // link["bandwidth_bytes_per_s"])
            pipeline.links[way] = took


def ways(case: Case) -> list[tuple[int, int]]:
    ranks = case.pipeline.rank_of_stage
    pairs = {(a, b) for a, b in zip(ranks, ranks[1:], strict=False) if a != b}
    return sorted(pairs | {(b, a) for a, b in pairs})


def draw_fault(rng: random.Random, case: Case, name: str) -> Fault | None:
    """One of that kind, of a random size; nothing where the pipeline has no place for it."""
    rank = rng.randrange(case.ranks)
    row = case.pipeline.program[rank]
    stage, kind, microbatch = rng.choice(row)
    action = f"{stage}{kind}{microbatch}"
    if name == "stage":
        factor = rng.uniform(1.1, 2)
        return Fault(name, {"term": "compute", "rank": rank, "stage": stage, "kind": kind},
                     flag=f"{kind}@stage{stage}=x{factor:.3f}")
    if name == "microbatch":
        if case.microbatches < 3:
            return None
        return Fault(name, {"term": "compute", "rank": rank, "stage": stage, "kind": kind,
                            "microbatch": microbatch}, flag=f"{action}=x{rng.uniform(2, 8):.3f}")
    if name == "launch":
        return Fault(name, {"term": "launch", "rank": rank},
                     flag=f"launch@rank{rank}={rng.randint(50, 800)}us")
    if name == "pause":
        if row.index((stage, kind, microbatch)) == 0:
            return None
        return Fault(name, {"term": "launch", "rank": rank, "microbatch": microbatch},
                     flag=f"pause@{action}={rng.randint(2, 20)}ms")
    if name == "order":
        places = list(range(len(row) - 1))
        rng.shuffle(places)
        for place in places:
            if row[place][2] != row[place + 1][2] and row[place][1] != row[place + 1][1]:
                return Fault(name, {"term": "order"}, swap=(rank, place))
        return None
    if name == "overlap":
        if case.family not in REPLICATED:
            return None
        size = rng.randint(1, 3) * 1_000_000  # of a piece at most
        closing = Closing(size, size // rng.randint(4, 10), 50_000,
                          rng.choice([100, 200, 400]) * 1_000_000, 200_000)
        return Fault(name, {"term": "exchange", "kind": "REDUCE_GRAD"}, closing=closing)
    if name in ("clock", "drift"):
        if case.ranks < 3:
            return None  # of two clocks nobody knows which one is off
        drift = rng.randint(20, 200) * 1000 if name == "drift" else 0
        return Fault(name, {"term": "clock", "rank": rank},
                     clock=(rank, rng.randint(3, 30) * MS, drift))
    a, b = rng.choice(ways(case))
    named = {"term": "transfer", "rank": a, "to_rank": b}
    base = case.costs["p2p"]
    edge = {"from": a, "to": b, "latency_ns": base["latency_ns"],
            "bandwidth_bytes_per_s": base["bandwidth_bytes_per_s"]}
    if name == "latency":
        edge["latency_ns"] += rng.randint(200, 3000) * 1000
    else:
        edge["bandwidth_bytes_per_s"] //= rng.randint(10, 100)
    return Fault(name, named, costs=edge)


def with_faults(case: Case, faults: list[Fault]) -> tuple[dict[str, Any], Pipeline]:
    costs = copy.deepcopy(case.costs)
    pipeline = copy.deepcopy(case.pipeline)
    for fault in faults:
        if fault.costs:
            costs["p2p"]["edges"].append(fault.costs)
        if fault.closing:
            pipeline.closing = dataclasses.replace(fault.closing, bucket_bytes=None)
    pipeline.links.clear()
    set_times(pipeline, costs)
    for fault in faults:
        if fault.swap:
            rank, place = fault.swap
            row = pipeline.program[rank]
            row[place], row[place + 1] = row[place + 1], row[place]
        if not fault.flag:
            continue
        what, value = fault.flag.split("=")
        if what.startswith("launch"):
            pipeline.launches[int(what.split("rank")[1])] = int(value[:-2]) * 1000
        elif what.startswith("pause"):
            pipeline.pauses[parse_program([what.split("@")[1]])[0][0]] = int(value[:-2]) * MS
        elif "@" in what:
            kind, stage = what.split("@stage")
            for action in pipeline.program[pipeline.rank_of_stage[int(stage)]]:
                if action[:2] == (int(stage), kind):
                    pipeline.scales[action] = pipeline.scales.get(action, 1) * float(value[1:])
        else:
            action = parse_program([what])[0][0]
            pipeline.scales[action] = pipeline.scales.get(action, 1) * float(value[1:])
    return costs, pipeline


def truths(case: Case, faults: list[Fault]) -> list[int]:
    """Of each fault the mean of what its removal gains alone and after the other's."""
    def taken(some: list[Fault]) -> int:
        return with_faults(case, some)[1].iteration_ns()
    whole = taken(faults)
    if faults[0].closing:
        planned = copy.deepcopy(case.pipeline)
        planned.closing = faults[0].closing
        return [whole - planned.iteration_ns()]
    base = taken([])
    if len(faults) == 1:
        return [whole - base]
    first, second = faults
    one, other = taken([first]), taken([second])
    return [((whole - other) + (one - base)) // 2, ((whole - one) + (other - base)) // 2]


def shift_clock(trace: dict[str, Any], rank: int, by_ns: int, drift: int) -> None:
    for event in trace["traceEvents"]:
        if "ts" in event and event.get("args", {}).get("rank", event.get("pid")) == rank:
            event["ts"] += by_ns / 1000 + event["ts"] * drift / 1e9


def ahead_by(case: Case, trace: dict[str, Any]) -> int:
    """Of the clock that is off, in the middle of the iteration that is compared."""
    rank, by_ns, drift = case.faults[0].clock or (0, 0, 0)
    times = trace["metadata"]["pipesim"]["iteration_ns"]
    middle = times.index(statistics.median_low(times))
    return by_ns + round(sum(times[:middle]) + times[middle] / 2) * drift // 10**9


def with_replicas(costs: dict[str, Any], closing: Closing) -> dict[str, Any]:
    stages = [entry | {"parameters": closing.gradient_bytes // 4} for entry in costs["stages"]]
    return costs | {"stages": stages, "optimizer_ns": closing.step_ns,
                    "replicas": {"latency_ns": closing.latency_ns,
                                 "bandwidth_bytes_per_s": closing.bytes_per_second}}


def program_text(program: list[list[Action]]) -> str:
    return "".join(",".join(f"{s}{k}{m}" for s, k, m in row) + "\n" for row in program)


def run_case(case: Case, programs: Programs, device: list[str], jitter: str) -> dict[str, Any]:
    predicted = str(programs.folder / "predicted.json")
    measured = programs.folder / "measured.json"
    costs, pipeline = with_faults(case, case.faults)
    replicas: list[str] = []
    buckets: list[str] = []
    planned = case.costs
    if closing := case.faults[0].closing:
        replicas = ["--data-parallel", "2"]
        buckets = ["--bucket-bytes", f"{closing.bucket_bytes}B"]
        planned = costs = with_replicas(costs, closing)
    programs.run("pipesim", *case.flags(), "--costs", programs.file("costs.json", planned),
                 *replicas, *buckets, "--trace", predicted, "--quiet", "--iterations", "4")
    flags = [fault.flag for fault in case.faults if fault.flag]
    flags += [f"jitter={jitter}"] if jitter else []
    schedule = case.flags()
    if any(fault.swap for fault in case.faults):
        schedule = ["--schedule", programs.file("order.csv", program_text(pipeline.program))]
    programs.run("pipeexec", *schedule, "--device", "emulated", *device,
                 "--costs", programs.file("faulty.json", costs), *replicas, "--trace", str(measured),
                 "--quiet", *(["--faults", ",".join(flags)] if flags else []))
    right: dict[str, Any] = {}
    ahead_ns = 0
    for fault in case.faults:
        if fault.clock:
            right = json.loads(programs.run("pipesim", "compare", predicted, str(measured), "--json"))
            trace = json.loads(measured.read_text())
            ahead_ns = ahead_by(case, trace)
            shift_clock(trace, *fault.clock)
            measured.write_text(json.dumps(trace))
    found = json.loads(programs.run("pipesim", "compare", predicted, str(measured), "--json"))
    if right:
        found["clock_ahead_ns"] = ahead_ns
        found["clock_effect_ns"] = found["makespan_ns"]["measured"] - right["makespan_ns"]["measured"]
    return found


def is_of(cause: dict[str, Any], fault: Fault) -> bool:
    return all(cause.get(key) == value for key, value in fault.named.items())


@dataclass
class Verdict:
    right: bool
    errors: list[float]
    largest_other: float  # as a fraction of the smallest truth
    text: str


def judge(case: Case, comparison: dict[str, Any], effects: list[int]) -> Verdict:
    if not effects:
        # What a clock is off by is seen in the recorded makespan alone.
        effects = [comparison["clock_effect_ns"]]
        if abs(effects[0]) < LEAST_EFFECT * comparison["makespan_ns"]["predicted"]:
            return judge_clock(case, comparison)
    order = sorted(range(len(effects)), key=lambda i: -effects[i])
    causes = comparison["root_causes"]
    found = [next((c for c in causes if is_of(c, case.faults[i])), None) for i in order]
    right = len(causes) >= len(order) and all(
        is_of(causes[place], case.faults[i]) for place, i in enumerate(order))
    errors = [abs(cause["effect_ns"] - effects[i]) / abs(effects[i])
              for cause, i in zip(found, order, strict=True) if cause]
    others = [c for c in causes if not any(is_of(c, f) for f in case.faults)]
    other = max(others, key=lambda c: abs(c["effect_ns"]), default=None)
    largest = abs(other["effect_ns"]) / min(abs(e) for e in effects) if other else 0
    what = " and ".join(f.flag or f"{f.name} {f.named}" for f in case.faults)
    said = "; ".join(f"{c['why']} ({c['effect_ns'] / MS:+.2f} ms)" for c in causes[:3])
    text = (f"{case.family} {case.ranks}x{case.chunks} m{case.microbatches}, {what}: "
            f"{', '.join(f'{effects[i] / MS:.2f} ms' for i in order)}; said: {said}")
    if largest > 0.1:
        text += f"; other: {other['why']} ({other['effect_ns'] / MS:+.2f} ms)"
    text += f"; noise {comparison['noise']['effect_ns'] / MS:+.2f} ms"
    return Verdict(right, errors, largest, text)


def judge_clock(case: Case, comparison: dict[str, Any]) -> Verdict:
    """Of a clock that hardly changes the makespan: is it found, and by how much is it off?"""
    rank = case.faults[0].named["rank"]
    truth = comparison["clock_ahead_ns"]
    ahead = comparison["clocks"][rank]["ahead_ns"]
    text = f"{case.family} {case.ranks}x{case.chunks}: rank {rank} {truth}, found {ahead}"
    return Verdict(abs(ahead - truth) < 0.05 * truth, [], 0, text)


def draw_faulty(rng: random.Random, programs: Programs, count: int,
                among: list[str]) -> tuple[Case, list[int]]:
    while True:
        case = draw_case(rng, programs)
        base = case.pipeline.iteration_ns()
        names = rng.sample([n for n in among if count == 1 or n not in ALONE], count)
        faults = [draw_fault(rng, case, name) for name in names]
        if any(fault is None for fault in faults):
            continue
        case.faults = [fault for fault in faults if fault]
        keys = {json.dumps(fault.named) for fault in case.faults}
        if len(keys) < count:
            continue
        try:
            effects = truths(case, case.faults)
        except ValueError:  # an order that waits for itself
            continue
        if case.faults[0].clock:
            return case, []
        if min(effects) < LEAST_EFFECT * base:
            continue
        if count == 2 and abs(effects[0] - effects[1]) < 0.1 * max(effects):
            continue  # either may stand above the other
        return case, effects


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", choices=FAULTS, help="this one alone; default any, or two")
    parser.add_argument("--pace", choices=["wall", "anchored"], default="wall")
    parser.add_argument("--jitter", default="", help="of all durations beside, such as 2%%")
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--verbose", action="store_true", help="prints what was said of each run")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    device = ["--pace", arguments.pace, "--iterations", str(arguments.iterations), "--warmup", "1"]
    verdicts: list[tuple[str, Verdict]] = []
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(Path(folder))
        for run in range(arguments.runs):
            count = 2 if run % 4 == 3 and not arguments.fault else 1
            among = [arguments.fault] if arguments.fault else FAULTS
            case, effects = draw_faulty(rng, programs, count, among)
            verdict = judge(case, run_case(case, programs, device, arguments.jitter), effects)
            kind = "two" if count == 2 else case.faults[0].name
            verdicts.append((kind, verdict))
            is_good = verdict.right and verdict.largest_other <= 0.1
            if arguments.verbose or not is_good:
                word = "right" if is_good else "CROWDED" if verdict.right else "WRONG"
                print(f"{word} {verdict.text}")
    report(verdicts)


def report(verdicts: list[tuple[str, Verdict]]) -> None:
    print(f"{'fault':<12}{'runs':>6}{'right':>9}{'median error':>15}{'largest other':>16}")
    kinds = sorted({kind for kind, _ in verdicts}) + ["all"]
    for kind in kinds:
        own = [v for k, v in verdicts if kind in (k, "all")]
        errors = [e for v in own for e in v.errors] or [float("nan")]
        print(f"{kind:<12}{len(own):>6}{sum(v.right for v in own) / len(own):>9.1%}"
              f"{statistics.median(errors):>15.1%}{max(v.largest_other for v in own):>16.1%}")
    right = sum(v.right for _, v in verdicts) / len(verdicts)
    error = statistics.median([e for _, v in verdicts for e in v.errors])
    crowded = sum(v.largest_other > 0.1 for _, v in verdicts)
    print(f"goals: right {right:.1%} (98 %), median error {error:.1%} (5 %), "
          f"runs that name something else above a tenth: {crowded} of {len(verdicts)} (0)")
    if right < 0.98 or error > 0.05 or crowded > 0:
        sys.exit(1)


if __name__ == "__main__":
    main()
