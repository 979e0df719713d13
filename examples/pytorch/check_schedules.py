#!/usr/bin/env python3
"""Asks a real PyTorch about pipesim's schedule files.

For every family and many shapes: PyTorch parses what `pipesim schedule convert`
writes, finds it valid, inserts sends and receives by its own pass, and the
result must be what `pipesim schedule lower` writes; PyTorch's unit-step
simulation, which knows no overlapped cells, must take the steps that
`pipesim schedule check` counts. And the orders that PyTorch's own schedule classes
generate must be pipesim's.

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python examples/pytorch/check_schedules.py build/release/pipesim

Needs PyTorch (2.5 or newer, no GPU); nothing else in this project does.
"""

import csv
import io
import itertools
import json
import subprocess
import sys

import torch
from torch.distributed.pipelining import schedules as torch_schedules
from torch.distributed.pipelining.stage import _PipelineStageBase

ONE_CHUNK = ["gpipe", "1f1b", "eager-1f1b", "zb-h1", "zb-h2"]
MANY_CHUNKS = ["naive", "interleaved", "interleaved-pytorch", "bfs", "interleaved-zb"]
V_SHAPED = ["zb-v", "v-half", "v-min", "dualpipe-v"]

# Of each family PyTorch's class, and the numbers of chunks it takes.
GENERATED = {
    "interleaved-pytorch": ("ScheduleInterleaved1F1B", (1, 2, 3)),
    "interleaved-zb": ("ScheduleInterleavedZeroBubble", (1, 2, 3)),
    "bfs": ("ScheduleLoopedBFS", (1, 2, 3)),
    "zb-v": ("ScheduleZBVZeroBubble", (2,)),
    "dualpipe-v": ("ScheduleDualPipeV", (2,)),
}


class Stage(_PipelineStageBase):
    """As much of a stage as a schedule's constructor looks at."""

    def __init__(self, index, stages, ranks):
        self.stage_index = index
        self.num_stages = stages
        self.group_size = ranks
        self.group_rank = 0
        self.group = None
        self.submod = None
        self.has_backward = True
        self.stage_index_to_group_rank = {i: i % ranks for i in range(stages)}

    def _create_grad_recv_info(self, *_):
        return None

    def _prepare_forward_infra(self, *_):
        return None

    def _prepare_backward_infra(self, *_):
        return None


def run(pipesim, *arguments):
    done = subprocess.run([pipesim, "schedule", *arguments], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def parse(text):
    """Rank -> actions, None for an empty cell: PyTorch's own representation."""
    rows = csv.reader(io.StringIO(text))
    action = torch_schedules._Action.from_str
    return {rank: [action(c) if c.strip() else None for c in row] for rank, row in enumerate(rows)}


def parts(cell):
    """The actions of a cell: an overlapped one has two."""
    return cell.sub_actions or (cell,)


def check(pipesim, family, stages, chunks, microbatches):
    """True where both agree, None where pipesim refuses the shape."""
    shape = [family, "--stages", str(stages), "--virtual-stages", str(chunks)]
    shape += ["--microbatches", str(microbatches)]
    written = run(pipesim, "convert", *shape)
    lowered = run(pipesim, "lower", *shape)
    if written is None or lowered is None:
        return None
    order = parse(written)
    rank_of = {
        a.stage_index: rank for rank, row in order.items() for cell in row if cell for a in parts(cell)
    }
    total = stages * chunks
    torch_schedules._validate_schedule(order, stages, total, microbatches)
    program = torch_schedules._add_send_recv(order, lambda s: rank_of[s], total)
    if program != parse(lowered):
        return False
    if any(cell.sub_actions for row in program.values() for cell in row):
        return True
    steps = torch_schedules._simulate_comms_compute(
        {rank: list(row) for rank, row in program.items()}, lambda s: rank_of[s], total
    )
    counted = json.loads(run(pipesim, "check", *shape, "--json"))["unit_steps"]
    return max(len(row) for row in steps.values()) == counted


def check_order(pipesim, family, ranks, chunks, microbatches):
    """True where PyTorch generates the same order, None where pipesim refuses."""
    shape = [family, "--stages", str(ranks), "--virtual-stages", str(chunks)]
    written = run(pipesim, "convert", *shape, "--microbatches", str(microbatches))
    if written is None:
        return None
    own = [Stage(chunk * ranks, ranks * chunks, ranks) for chunk in range(chunks)]
    made = getattr(torch_schedules, GENERATED[family][0])
    theirs = made(own, microbatches, loss_fn=lambda *_: None).pipeline_order
    return parse(written) == {r: [a for a in row if a] for r, row in theirs.items()}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(f"PyTorch {torch.__version__}")
    agreed = refused = 0
    shapes = [(f, 1) for f in ONE_CHUNK] + list(itertools.product(MANY_CHUNKS, (1, 2, 3)))
    shapes += [(f, 2) for f in V_SHAPED]
    for (family, chunks), stages, m in itertools.product(shapes, (1, 2, 3, 4), (1, 2, 3, 4, 6, 8)):
        outcome = check(sys.argv[1], family, stages, chunks, m)
        if outcome is False:
            sys.exit(f"{family}, {stages} stages x {chunks}, {m} microbatches: they differ")
        agreed += outcome is True
        refused += outcome is None
    for family, (made, chunk_counts) in GENERATED.items():
        if not hasattr(torch_schedules, made):
            print(f"{family}: this PyTorch has no {made}")
            continue
        same = 0
        for ranks, chunks, m in itertools.product(range(1, 7), chunk_counts, range(1, 29)):
            outcome = check_order(sys.argv[1], family, ranks, chunks, m)
            if outcome is False:
                sys.exit(f"{family}, {ranks} ranks x {chunks}, {m} microbatches: the orders differ")
            same += outcome is True
        print(f"{family}: {same} orders as {made} generates them")
    print(f"{agreed} schedules: valid, lowered alike, as many unit steps; {refused} shapes refused")


if __name__ == "__main__":
    main()
