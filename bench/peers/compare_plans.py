"""How many layouts a second of one core Calculon evaluates, and pipesim's planner, in turns.

compare_plans.py CALCULON PLAN_BENCH PIPESIM SECONDS ROUNDS; see calculon.sh. Seconds are of
processor time, so that other programs on the machine matter little.
"""

import json
import pathlib
import re
import resource
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
# What both vary: Calculon has no bubbles of other schedules than these, no ZeRO 2 or 3, and
# recomputes nothing, attention, or all.
AXES = (
    "schedule=1f1b,interleaved",
    "zero=0,1",
    "bucket-bytes=off",
    "overlap-gather=off",
    "recompute=none,selective,full",
    "shard-over=all",
)
CELLS = 2500  # that plan_bench draws; there are 2,520
PLAN = "plan --model gpt3-175b --cluster dgx-a100 --devices 4096 --global-batch 2304 --threads 1"


def run(*command):
    """What it prints, and the processor time that it took."""

    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = used()
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, check=True)
    return done.stdout.decode(), used() - before


def by_calculon(checkout, seconds, seed):
    text, _ = run(sys.executable, "-B", HERE / "calculon_rate.py", checkout, seconds, seed)
    result = json.loads(text)
    return result["evaluated"] / result["seconds"], result["feasible"] / result["seconds"]


def by_plan_bench(plan_bench):
    text, seconds = run(plan_bench, CELLS, *AXES)
    points, fit = map(int, re.match(r"(\d+) of \d+ points: .* (\d+) fit\n", text).groups())
    return points / seconds, fit / seconds


def by_plan(pipesim):
    text, seconds = run(pipesim, *PLAN.split(), "--json")
    result = json.loads(text)
    return result["space"], result["space"] - result["impossible"], seconds


def main():
    checkout, plan_bench, pipesim = map(pathlib.Path, sys.argv[1:4])
    seconds, rounds = float(sys.argv[4]), int(sys.argv[5])
    print("layouts a second of one core; fit: feasible, evaluated in full")
    print(f"{'round':8}{'Calculon':>10}{'fit':>8}{'pipesim':>10}{'fit':>8}{'ratio of fit':>14}")
    lines = []
    for i in range(rounds):
        theirs = by_calculon(checkout, seconds, i)
        ours = by_plan_bench(plan_bench)
        lines.append((*theirs, *ours, ours[1] / theirs[1]))
        print_line(str(i + 1), lines[-1])
    medians = [statistics.median(column) for column in zip(*lines)]
    print_line("median", medians)
    searches = [by_plan(pipesim) for _ in range(rounds)]
    space, possible, _ = searches[0]
    took = statistics.median(one[2] for one in searches)
    print(f"pipesim plan, all of its axes: {space:,} layouts, {possible:,} of them possible, each with")
    print(f"the reason why it is not the best, in {took:.1f} s: {possible / took:,.0f} possible ones a second,")
    print(f"{possible / took / medians[0]:,.0f} times as many as Calculon evaluates")


def print_line(name, figures):
    theirs, theirs_fit, ours, ours_fit, ratio = figures
    print(f"{name:8}{theirs:10.0f}{theirs_fit:8.1f}{ours:10.0f}{ours_fit:8.0f}{ratio:13.1f}x", flush=True)


main()
