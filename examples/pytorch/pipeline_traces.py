#!/usr/bin/env python3
"""Trains a small model by a pipesim schedule file in PyTorch and records it.

torch.distributed.pipelining runs the file as it is written, a process a rank,
over gloo on the CPU; torch.profiler records a few iterations of each rank in
PREFIX.rank0.json.gz, PREFIX.rank1.json.gz, ...

    python3 -m venv venv && venv/bin/pip install torch numpy
    build/release/pipesim schedule convert 1f1b --stages 2 --microbatches 4 -o 1f1b.csv
    venv/bin/python examples/pytorch/pipeline_traces.py 1f1b.csv 1f1b

Instead of a file, ScheduleGPipe runs PyTorch's own class of that name, on two
ranks and four microbatches: what it does bears older names, "Forward 0".

The files are what the profiler wrote, less three members that name the machine
and its folders or differ at random: host_name, traceName and trace_id.

Needs PyTorch (2.5 or newer, no GPU).
"""

import argparse
import csv
import gzip
import json
import os
import re
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.pipelining import schedules as torch_schedules
from torch.profiler import ProfilerActivity, profile, schedule

OWN_RANKS = 2
OWN_MICROBATCHES = 4


def rows_of(path):
    """The actions of each rank; PyTorch's own form."""
    with open(path, newline="") as file:
        parse = torch_schedules._Action.from_str
        cells = [[parse(cell) for cell in row if cell.strip()] for row in csv.reader(file)]
    return [[sub for a in row for sub in (a.sub_actions or (a,))] for row in cells]


def shape_of(options):
    """Ranks, the stages of each, microbatches."""
    if options.schedule == "ScheduleGPipe":
        return OWN_RANKS, [[rank] for rank in range(OWN_RANKS)], OWN_MICROBATCHES
    rows = rows_of(options.schedule)
    stages = [sorted({action.stage_index for action in row}) for row in rows]
    microbatches = 1 + max(a.microbatch_index for row in rows for a in row if a.is_compute_op)
    return len(rows), stages, microbatches


def block(size):
    return nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))


def schedule_of(options, stages, microbatches):
    loss = nn.functional.mse_loss
    if options.schedule == "ScheduleGPipe":
        return ScheduleGPipe(stages[0], microbatches, loss_fn=loss)
    runtime = torch_schedules._PipelineScheduleRuntime(stages, microbatches, loss_fn=loss)
    runtime._load_csv(options.schedule)
    return runtime


def without_machine(text):
    text = re.sub(r'"(host_name|traceName|trace_id)": "[^"]*",', "", text)
    text = re.sub(r',\s*"(host_name|traceName|trace_id)": "[^"]*"', "", text)
    assert not {"host_name", "traceName", "trace_id"} & json.loads(text).keys()
    return text


def train(rank, options, meeting_place):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    ranks, stages_of_rank, microbatches = shape_of(options)
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting_place}", rank=rank, world_size=ranks
    )
    total = sum(len(stages) for stages in stages_of_rank)
    mine = stages_of_rank[rank]
    cpu = torch.device("cpu")
    stages = [PipelineStage(block(options.size), stage, total, cpu) for stage in mine]
    runner = schedule_of(options, stages, microbatches)
    optimizer = torch.optim.AdamW([p for s in stages for p in s.submod.parameters()])
    batch = torch.randn(microbatches * options.rows, options.size)
    target = torch.sin(batch)

    def iterate():
        optimizer.zero_grad()
        losses = []
        arguments = (batch,) if 0 in mine else ()
        last = {"target": target, "losses": losses} if total - 1 in mine else {}
        runner.step(*arguments, **last)
        optimizer.step()
        if losses:
            print(f"loss {sum(loss.item() for loss in losses) / microbatches:.4f}")

    steps = schedule(wait=0, warmup=options.warmup, active=options.iterations, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps) as profiler:
        for _ in range(options.warmup + options.iterations):
            dist.barrier()
            iterate()
            profiler.step()
    with tempfile.TemporaryDirectory() as folder:
        raw = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(raw)
        with open(raw) as file:
            text = without_machine(file.read())
    with open(f"{options.prefix}.rank{rank}.json.gz", "wb") as file:
        file.write(gzip.compress(text.encode(), mtime=0))
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("schedule", help="a schedule file, or ScheduleGPipe")
    parser.add_argument("prefix", help="of the files that are written")
    parser.add_argument("--iterations", type=int, default=3, help="recorded, default 3")
    parser.add_argument("--warmup", type=int, default=2, help="before those, default 2")
    parser.add_argument("--size", type=int, default=256, help="of a layer, default 256")
    parser.add_argument("--rows", type=int, default=512, help="of a microbatch, default 512")
    options = parser.parse_args()
    ranks, stages, microbatches = shape_of(options)
    print(f"PyTorch {torch.__version__}: {ranks} ranks with stages {stages}, {microbatches} microbatches")
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "meeting_place")
        multiprocessing.spawn(train, (options, place), nprocs=ranks)


if __name__ == "__main__":
    main()
