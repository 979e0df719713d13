"""One rank of a PyTorch training by DDP, FSDP2 or torch.distributed.pipelining on gloo.

replicas.py HOW MODEL TEXT MICROBATCHES BATCH SEQUENCE ITERATIONS, with torchrun's variables;
HOW is ddp, fsdp or pipeline. Rank 0 prints one JSON object: losses and tokens per second.
`replicas.py --version` prints PyTorch's.
"""

import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

from model import Model, Text, adamw, loss_of

WARMUP = 2


def steps_of_replicas(how, path, text, microbatches, batch, sequence):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = Model(path)
    if how == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (ranks,))
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = adamw(model)

    def step(iteration):
        optimizer.zero_grad()
        total = torch.zeros(())
        for j in range(microbatches):
            tokens, targets = text.microbatch(
                iteration, (rank * microbatches + j) * batch, batch, sequence
            )
            is_last = j + 1 == microbatches
            if how == "ddp":
                model.require_backward_grad_sync = is_last
            else:
                model.set_requires_gradient_sync(is_last)
            loss = loss_of(model(tokens), targets) / microbatches
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        dist.all_reduce(total)
        return total.item() / ranks

    return step, ranks


def steps_of_pipeline(path, text, microbatches, batch, sequence):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    rank, ranks = dist.get_rank(), dist.get_world_size()
    layers = Model(path).blocks + 2
    cuts = [layers * i // ranks for i in range(ranks + 1)]
    module = Model(path, first=cuts[rank], last=cuts[rank + 1])
    optimizer = adamw(module)
    stage = PipelineStage(module, rank, ranks, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, microbatches, loss_fn=loss_of)

    def step(iteration):
        optimizer.zero_grad()
        tokens, targets = text.microbatch(iteration, 0, microbatches * batch, sequence)
        losses = []
        if rank == 0:
            schedule.step(tokens)
        else:
            schedule.step(target=targets, losses=losses)
        squares = sum(p.grad.pow(2).sum() for p in module.parameters())
        dist.all_reduce(squares)
        clip = min(1.0, 1.0 / (squares.sqrt().item() + 1e-6))
        for parameter in module.parameters():
            parameter.grad.mul_(clip)
        optimizer.step()
        total = torch.stack(losses).mean() if losses else torch.zeros(())
        total = total.detach().clone()
        dist.all_reduce(total)
        return total.item()

    return step, 1


def main():
    if sys.argv[1:] == ["--version"]:
        print(torch.__version__)
        return
    how, path, text = sys.argv[1:4]
    microbatches, batch, sequence, iterations = map(int, sys.argv[4:])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    text = Text(text)
    make = steps_of_pipeline if how == "pipeline" else None
    if make:
        step, replicas = make(path, text, microbatches, batch, sequence)
    else:
        step, replicas = steps_of_replicas(how, path, text, microbatches, batch, sequence)
    losses, times = [], []
    for iteration in range(WARMUP + iterations):
        start = time.perf_counter()
        losses.append(step(iteration))
        times.append(time.perf_counter() - start)
    if dist.get_rank() == 0:
        tokens = replicas * microbatches * batch * sequence
        rate = tokens / statistics.median(times[WARMUP:])
        print(json.dumps({"losses": losses, "tokens_per_second": rate}), flush=True)
    dist.barrier()
    os._exit(0)


main()
