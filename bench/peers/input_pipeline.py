"""One rank of a DLRM's training by PyTorch on gloo, its tables dealt out whole.

input_pipeline.py HOW MODEL SAMPLES BATCH, with torchrun's variables; HOW is

    plain        tables by hand, with all-to-alls of lengths, ids and pooled rows; dense part by DDP
    base         torchrec's TrainPipelineBase
    sparse-dist  torchrec's TrainPipelineSparseDist

SAMPLES is a .npz of recommendation.draw_samples(). Rank 0 prints one JSON object: losses and
samples per second. `input_pipeline.py --versions` prints PyTorch's, and torchrec's where there is
one.
"""

import dataclasses
import json
import os
import sys
import time

import numpy
import torch
import torch.distributed as dist

from recommendation import LEARNING_RATE, Dense, batches_of, owners, read_model, table_rows


def exchange(given, sizes_to, sizes_from):
    """Rows of `given` to each rank and from each."""
    got = given.new_empty((sum(sizes_from), *given.shape[1:]))
    dist.all_to_all_single(got, given, sizes_from, sizes_to)
    return got


def plain_steps(model, batches):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    width = model["bottom"][-1]
    of_table = owners(model, ranks)
    tables_of = [[t for t, owner in enumerate(of_table) if owner == r] for r in range(ranks)]
    own = tables_of[rank]
    rows = {t: table_rows(1, t, model["tables"][t]["rows"], width) for t in own}
    dense = torch.nn.parallel.DistributedDataParallel(Dense(model))
    optimizer = torch.optim.SGD(dense.parameters(), LEARNING_RATE)
    sent_order = [t for tables in tables_of for t in tables]
    back = torch.tensor([sent_order.index(t) for t in range(len(of_table))])

    def step(features, labels, tables):
        samples = len(labels)
        lengths = torch.cat([tables[t][0] for t in sent_order])
        ids = torch.cat([tables[t][1] for t in sent_order])
        splits = torch.tensor([sum(len(tables[t][1]) for t in to) for to in tables_of])
        counts = torch.empty_like(splits)
        dist.all_to_all_single(counts, splits)
        ids = exchange(ids, splits.tolist(), counts.tolist())
        to = [len(tables) * samples for tables in tables_of]
        lengths = exchange(lengths, to, [len(own) * samples] * ranks)

        # By rank they come from, then by table; lookups take a table's of all ranks together.
        lengths = lengths.view(ranks, len(own), samples)
        sizes = lengths.sum(2).view(-1).tolist()
        pieces = torch.split(ids, sizes)
        looked_up, pooled = [], []
        for i, t in enumerate(own):
            of_all = torch.cat(pieces[i :: len(own)])
            of_each = lengths[:, i].reshape(-1)
            offsets = torch.cumsum(of_each, 0) - of_each
            pooled.append(torch.nn.functional.embedding_bag(of_all, rows[t], offsets, mode="sum"))
            looked_up.append((of_all, of_each))
        given = torch.stack(pooled).view(len(own), ranks, samples, width).transpose(0, 1)
        sizes_to, sizes_from = [len(own)] * ranks, [len(tables) for tables in tables_of]
        got = exchange(given.reshape(-1, samples, width), sizes_to, sizes_from)
        pooled = got[back].transpose(0, 1).contiguous().requires_grad_()

        optimizer.zero_grad()
        loss = dense(features, pooled, labels)
        loss.backward()
        by_pooled = pooled.grad.transpose(0, 1)[torch.tensor(sent_order)].contiguous()
        by_rows = exchange(by_pooled, sizes_from, sizes_to).view(ranks, len(own), samples, width)
        for i, t in enumerate(own):
            of_all, of_each = looked_up[i]
            gradient = by_rows[:, i].reshape(-1, width).repeat_interleave(of_each, 0)
            rows[t].index_add_(0, of_all, gradient, alpha=-LEARNING_RATE / ranks)
        optimizer.step()
        return loss.detach()

    for batch in batches:
        yield step(*batch)


def torchrec_steps(how, model, batches):
    import torchrec
    from torchrec.distributed import train_pipeline
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
    from torchrec.distributed.sharding_plan import construct_module_sharding_plan, table_wise
    from torchrec.distributed.types import ShardingEnv, ShardingPlan
    from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
    from torchrec.streamable import Pipelineable

    ranks, width = dist.get_world_size(), model["bottom"][-1]
    names = [table["name"] for table in model["tables"]]

    @dataclasses.dataclass
    class Batch(Pipelineable):
        dense: torch.Tensor
        labels: torch.Tensor
        ids: torchrec.KeyedJaggedTensor

        def to(self, device, non_blocking=False):
            return Batch(*(part.to(device, non_blocking=non_blocking)
                           for part in (self.dense, self.labels, self.ids)))

        def record_stream(self, stream):
            pass  # of a device

        def pin_memory(self):
            return self

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = torchrec.EmbeddingBagCollection(tables=[
                torchrec.EmbeddingBagConfig(name=table["name"], feature_names=[table["name"]],
                                            num_embeddings=table["rows"], embedding_dim=width)
                for table in model["tables"]])
            self.dense = Dense(model)

        def forward(self, batch):
            pooled = self.tables(batch.ids)
            loss = self.dense(batch.dense, torch.stack([pooled[name] for name in names], dim=1),
                              batch.labels)
            return loss, loss.detach()

    module = Model()
    apply_optimizer_in_backward(torch.optim.SGD, module.tables.parameters(),
                                {"lr": LEARNING_RATE})
    sharder = EmbeddingBagCollectionSharder()
    plan = construct_module_sharding_plan(
        module.tables,
        {name: table_wise(rank=owner)
         for name, owner in zip(names, owners(model, ranks), strict=True)},
        sharder=sharder, local_size=ranks, world_size=ranks, device_type="cpu")
    whole = torchrec.distributed.DistributedModelParallel(
        module, env=ShardingEnv.from_process_group(dist.group.WORLD), device=torch.device("cpu"),
        plan=ShardingPlan({"tables": plan}), sharders=[sharder])
    with torch.no_grad():
        for key, weight in whole.state_dict().items():
            if not key.endswith(".weight") or ".embedding_bags." not in key:
                continue
            table = names.index(key.split(".")[-2])
            for shard in weight.local_shards():
                shard.tensor.copy_(table_rows(1, table, model["tables"][table]["rows"], width))
    dense = [own for name, own in whole.named_parameters() if "embedding_bags" not in name]
    optimizer = torch.optim.SGD(dense, LEARNING_RATE)
    pipelines = {"base": train_pipeline.TrainPipelineBase,
                 "sparse-dist": train_pipeline.TrainPipelineSparseDist}
    pipeline = pipelines[how](whole, optimizer, torch.device("cpu"))
    source = iter([
        Batch(dense_features, labels, torchrec.KeyedJaggedTensor(
            names, torch.cat([ids for _, ids in tables]),
            lengths=torch.cat([lengths for lengths, _ in tables])))
        for dense_features, labels, tables in batches])
    for _ in batches:
        yield pipeline.progress(source)


def versions():
    told = torch.__version__
    try:
        import torchrec

        told += f" torchrec {torchrec.__version__}"
    except Exception:  # where its operators are missing or of another PyTorch, too
        pass
    return told


def main():
    if sys.argv[1:] == ["--versions"]:
        print(versions())
        return
    how, path, samples, batch_size = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = read_model(path)
    batches = batches_of(model, numpy.load(samples), int(batch_size), rank, ranks)
    steps = plain_steps(model, batches) if how == "plain" else torchrec_steps(how, model, batches)
    losses, ends = [], []
    for loss in steps:
        losses.append(loss)
        ends.append(time.perf_counter())
    losses = torch.stack(losses).double()
    dist.all_reduce(losses)
    if rank == 0:
        first = len(ends) // 4  # the middle half, as pipeexec reports it
        last = len(ends) - 1 - first
        rate = int(batch_size) * ranks * (last - first) / (ends[last] - ends[first])
        print(json.dumps({"losses": (losses / ranks).tolist(), "samples_per_second": rate}),
              flush=True)
    dist.barrier()
    os._exit(0)


main()
