#!/usr/bin/env python3
"""Whether recordings of torch.distributed.pipelining cost nothing and predict well.

    python3 bench/peers/recorder.py build/release/pipesim [--ranks 4] [--products] [--keep FOLDER]

Trains one model by several schedules, in turns, on processes that meet over gloo. Prints the median
over the turns, least and most, of how much longer a step takes while it is recorded, how far
predictions by costs of one recording are off from that of another schedule, and in how many turns
`compare` names a stage first that was made 1.5 times slower. Layers sleep, so that ranks need no
processor each; with --products they multiply matrices.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch import distributed, nn
from torch.distributed import pipelining

from pipesim.torch import record

LAYERS, WIDTH, NAP_S, SLOWER = 4, 256, 4e-3, 1.5  # layers per rank
SCHEDULES = {"gpipe": ("ScheduleGPipe", 1), "1f1b": ("Schedule1F1B", 1),  # and chunks per rank
             "bfs": ("ScheduleLoopedBFS", 2), "interleaved-pytorch": ("ScheduleInterleaved1F1B", 2),
             "zb-v": ("ScheduleZBVZeroBubble", 2)}
PREDICTED = [("gpipe", "1f1b"), ("bfs", "interleaved-pytorch"), ("bfs", "zb-v")]


class Nap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, seconds):
        ctx.seconds = seconds
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(ctx.seconds)
        return gradient.clone(), None


class Sleeping(nn.Module):
    """F, I, through x, and W, through the bias, take equally long."""

    def __init__(self, factor):
        super().__init__()
        self.nap_s, self.bias = factor * NAP_S, nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        time.sleep(self.nap_s)
        return Nap.apply(x, self.nap_s) + Nap.apply(self.bias, self.nap_s)


def products(factor):
    wide = round(factor * 8 * WIDTH)
    return nn.Sequential(nn.Linear(WIDTH, wide), nn.GELU(), nn.Linear(wide, WIDTH))


LAYER = {False: Sleeping, True: products}


def run_rank(rank, given):
    ranks, folder = given.ranks, given.folder
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=ranks)

    def training(name, slow_rank=None):
        kind, chunks = SCHEDULES[name]
        count = chunks * ranks
        mine = [rank, count - 1 - rank] if name == "zb-v" else [*range(rank, count, ranks)]
        layer, factor = LAYER[given.products], SLOWER if rank == slow_rank else 1.0
        torch.manual_seed(1)
        modules = [nn.Sequential(*(layer(factor) for _ in range(LAYERS // chunks))) for _ in mine]
        stages = [pipelining.PipelineStage(module, i, count, torch.device("cpu"))
                  for module, i in zip(modules, mine)]
        schedule = getattr(pipelining.schedules, kind)(
            stages if chunks > 1 else stages[0], given.microbatches, loss_fn=nn.MSELoss())
        optimizer = torch.optim.SGD([p for module in modules for p in module.parameters()], lr=1e-3)
        x, y = (torch.randn(given.microbatches * 64, WIDTH) for _ in range(2))
        inputs, targets = (x,) * (0 in mine), {"target": y} if count - 1 in mine else {}

        def steps(number):
            """Times of all but the first, in s."""
            times = []
            for _ in range(number):
                start = time.perf_counter()
                schedule.step(*inputs, **targets)
                optimizer.step()
                optimizer.zero_grad()
                times.append(time.perf_counter() - start)
            return times[1:]
        return schedule, steps

    overheads = []
    for turn in range(given.turns):
        for name in (*SCHEDULES, "slow"):
            schedule, steps = training("1f1b", 1) if name == "slow" else training(name)
            with record(schedule, f"{folder}/{name}.{turn}.json", warmup=2):
                steps(2 + given.steps)
        schedule, steps = training("1f1b")
        plain, recorded = [], []
        for _ in range(3):
            plain += steps(1 + given.steps // 2)
            with record(schedule, f"{folder}/unused.json", warmup=0):
                recorded += steps(1 + given.steps // 2)
        overheads.append(statistics.median(recorded) / statistics.median(plain) - 1)
    if rank == 0:
        pathlib.Path(folder, "overheads.json").write_text(json.dumps(overheads))
    distributed.destroy_process_group()


def evaluate(given, turn, overhead):
    """A turn's figures: fractions, or whether something holds."""
    def pipesim(*words):
        return subprocess.check_output([given.pipesim, *map(str, words)], cwd=given.folder)

    reports = {name: json.loads(pipesim("report", f"{name}.{turn}.json", "--json"))
               for name in SCHEDULES}
    taken = max(one["taken_fraction"] for one in reports.values())
    found = {"time taken by other processes": taken, "a step, recorded": overhead}
    for source, name in PREDICTED:
        pipesim("calibrate", f"{source}.{turn}.json", "-o", "costs.json")
        predicted = json.loads(pipesim(
            "--schedule", name, "--stages", given.ranks, "--virtual-stages", SCHEDULES[name][1],
            "--microbatches", given.microbatches, "--costs", "costs.json", "--trace",
            f"predicted-{name}.{turn}.json", "--json"))["makespan_ns"]
        found[f"{name} by {source}"] = predicted / reports[name]["iteration_ns"]["p50"] - 1
    causes = json.loads(pipesim("compare", f"predicted-1f1b.{turn}.json", f"slow.{turn}.json",
                                "--json"))["root_causes"]
    found["slow stage named first"] = (causes[0]["stage"], causes[0]["term"]) == (1, "compute")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pipesim", type=os.path.abspath, help="the program")
    for name, default in (("ranks", 2), ("microbatches", 8), ("turns", 5), ("steps", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--products", action="store_true", help="matrix products, not sleep")
    parser.add_argument("--keep", metavar="FOLDER", help="where recordings stay")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        given.folder = os.path.abspath(given.keep or scratch)
        os.makedirs(given.folder, exist_ok=True)
        pathlib.Path(given.folder, "meet").unlink(missing_ok=True)
        torch.multiprocessing.spawn(run_rank, (given,), given.ranks)
        overheads = json.loads(pathlib.Path(given.folder, "overheads.json").read_text())
        turns = [evaluate(given, turn, overhead) for turn, overhead in enumerate(overheads)]
    print(f"{given.ranks} ranks, {os.cpu_count()} processors, {given.turns} turns of {given.steps} "
          f"steps; layers {'multiply' if given.products else 'sleep'}")
    for name in turns[0]:
        values = [turn[name] for turn in turns]
        print(f"{name:32}", f"in {sum(values)} of {len(values)}" if isinstance(values[0], bool) else
              f"{100 * statistics.median(values):+6.2f} %   "
              f"({100 * min(values):+.2f} to {100 * max(values):+.2f})")


if __name__ == "__main__":
    main()
