#!/usr/bin/env python3
"""Whether a recording of torch.distributed.pipelining is right and costs nothing.

    python3 bench/peers/recorder.py build/release/pipesim [--ranks 2] [--products] [--turns 5]

Trains one model by several schedules on processes that meet over gloo, in turns, and prints the
median over the turns of
- how much longer a step takes while it is recorded, steps with and without in turns;
- how far predictions are off: of 1F1B by costs of GPipe, and of interleaved 1F1B and ZB-V by those
  of breadth-first, each from one recording and against the recording of the schedule itself;
- in how many turns `compare` names a stage first that was made 1.5 times slower.
Layers sleep, so that ranks need no processor each; with --products they multiply matrices.
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

HERE = pathlib.Path(__file__).resolve()
LAYERS, WIDTH, NAP_S, SLOWER = 8, 256, 4e-3, 1.5
# A name, the class, and chunks per rank.
SCHEDULES = {"gpipe": ("ScheduleGPipe", 1), "1f1b": ("Schedule1F1B", 1),
             "bfs": ("ScheduleLoopedBFS", 2), "interleaved-pytorch": ("ScheduleInterleaved1F1B", 2),
             "zb-v": ("ScheduleZBVZeroBubble", 2)}
PREDICTED = [("gpipe", "1f1b"), ("bfs", "interleaved-pytorch"), ("bfs", "zb-v")]


def run_rank(given):
    import torch
    from torch.distributed import pipelining
    sys.path.insert(0, str(HERE.parents[2] / "sim/python"))
    from pipesim.torch import record
    dist, nn = torch.distributed, torch.nn
    rank, ranks = given.rank, given.ranks
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{given.folder}/meet", rank=rank,
                            world_size=ranks)

    class Nap(torch.autograd.Function):
        """Sleeps forward, if so, and backward."""

        @staticmethod
        def forward(ctx, x, forward_s, backward_s):
            ctx.backward_s = backward_s
            time.sleep(forward_s)
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            time.sleep(ctx.backward_s)
            return gradient.clone(), None, None

    class Layer(nn.Module):
        """F, I and W take equally long: I passes through x, W through the bias alone."""

        def __init__(self, factor):
            super().__init__()
            self.nap_s = factor * NAP_S
            self.bias = nn.Parameter(torch.zeros(WIDTH))

        def forward(self, x):
            return Nap.apply(x, self.nap_s, self.nap_s) + Nap.apply(self.bias, 0, self.nap_s)

    class Products(nn.Module):
        def __init__(self, factor):
            super().__init__()
            wide = round(factor * 8 * WIDTH)
            self.both = nn.Sequential(nn.Linear(WIDTH, wide), nn.GELU(), nn.Linear(wide, WIDTH))

        def forward(self, x):
            return x + self.both(x)

    def training(name, slow_rank=None):
        """A function that does a step; and the schedule."""
        kind, chunks = SCHEDULES[name]
        count = chunks * ranks
        mine = [rank, count - 1 - rank] if name == "zb-v" else [rank + i * ranks for i in range(chunks)]
        layer = Products if given.products else Layer
        torch.manual_seed(1)
        modules = [nn.Sequential(*(layer(SLOWER if rank == slow_rank else 1.0)
                                   for _ in range(LAYERS * ranks // 2 // count))) for _ in mine]
        stages = [pipelining.PipelineStage(module, i, count, torch.device("cpu"))
                  for module, i in zip(modules, mine)]
        schedule = getattr(pipelining.schedules, kind)(
            stages[0] if chunks == 1 else stages, n_microbatches=given.microbatches,
            loss_fn=nn.MSELoss())
        optimizer = torch.optim.SGD([p for m in modules for p in m.parameters()], lr=1e-3)
        rows = given.microbatches * 64
        x, y = torch.randn(rows, WIDTH), torch.randn(rows, WIDTH)
        last = {"target": y, "losses": []} if count - 1 in mine else {}

        def step():
            schedule.step(*((x,) if 0 in mine else ()), **last)
            optimizer.step()
            optimizer.zero_grad()
        return step, schedule

    def timed(step):
        dist.barrier()
        start = time.perf_counter()
        step()
        dist.barrier()
        return time.perf_counter() - start

    for turn in range(given.turns):
        for name in SCHEDULES:
            step, schedule = training(name)
            with record(schedule, f"{given.folder}/{name}.{turn}.json", warmup=2):
                for _ in range(2 + given.steps):
                    step()
        step, schedule = training("1f1b", slow_rank=1)
        with record(schedule, f"{given.folder}/slow.{turn}.json", warmup=2):
            for _ in range(2 + given.steps):
                step()
        step, schedule = training("1f1b")
        times = {False: [], True: []}
        timed(step)
        for _ in range(given.steps):
            times[False].append(timed(step))
            with record(schedule, f"{given.folder}/unused.json", warmup=0):
                times[True].append(timed(step))
        if rank == 0:
            print(json.dumps([statistics.median(times[on]) for on in (False, True)]), flush=True)
    dist.destroy_process_group()


def pipesim(given, *words):
    return subprocess.run([given.pipesim, *map(str, words)], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def evaluate(given, turn, off_and_on):
    """The figures of a turn."""
    def file(name, ending="json"):
        return f"{given.folder}/{name}.{turn}.{ending}"

    found = {"overhead": off_and_on[1] / off_and_on[0] - 1}
    reports = {name: json.loads(pipesim(given, "report", file(name), "--json")) for name in SCHEDULES}
    found["taken"] = max(report["taken_fraction"] or 0 for report in reports.values())
    for source, name in PREDICTED:
        pipesim(given, "calibrate", file(source), "-o", file(source, "costs.json"))
        predicted = json.loads(pipesim(
            given, "--schedule", name, "--stages", given.ranks, "--virtual-stages",
            SCHEDULES[name][1], "--microbatches", given.microbatches, "--costs",
            file(source, "costs.json"), "--trace", file(f"predicted-{name}"), "--json"))
        measured = reports[name]["iteration_ns"]["p50"]
        found[f"{name} by {source}"] = predicted["makespan_ns"] / measured - 1
    causes = json.loads(pipesim(given, "compare", file("predicted-1f1b"), file("slow"),
                                "--json"))["root_causes"]
    found["slow stage first"] = bool(causes) and (causes[0]["stage"], causes[0]["term"]) == (1, "compute")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pipesim", help="the program")
    for name, default in (("--ranks", 2), ("--microbatches", 8), ("--turns", 5), ("--steps", 10)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--products", action="store_true", help="matrix products instead of sleeping")
    parser.add_argument("--keep", help="a folder for the recordings")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank is not None:
        return run_rank(given)
    with tempfile.TemporaryDirectory() as scratch:
        given.folder = given.keep or scratch
        os.makedirs(given.folder, exist_ok=True)
        pathlib.Path(given.folder, "meet").unlink(missing_ok=True)
        ranks = [subprocess.Popen([sys.executable, HERE, *sys.argv[1:], "--folder", given.folder,
                                   "--rank", str(rank)], stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, "OMP_NUM_THREADS": "1"})
                 for rank in range(given.ranks)]
        output = [rank.communicate()[0] for rank in ranks][0]
        if any(rank.returncode for rank in ranks):
            sys.exit("recorder.py: a rank failed")
        turns = [evaluate(given, turn, json.loads(line))
                 for turn, line in enumerate(output.splitlines())]
    print(f"{given.ranks} ranks, {given.turns} turns of {given.steps} steps, "
          f"{'products' if given.products else 'sleeping'}, {os.cpu_count()} processors")
    for name in turns[0]:
        values = [turn[name] for turn in turns]
        if isinstance(values[0], bool):
            print(f"{name:32} in {sum(values)} of {len(values)}")
        else:
            print(f"{name:32} {100 * statistics.median(values):+6.2f} %   "
                  f"({100 * min(values):+.2f} to {100 * max(values):+.2f})")


if __name__ == "__main__":
    main()
