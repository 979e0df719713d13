"""A DLRM with pipeexec's initial weights, in PyTorch, and batches that both train on.

What is drawn stands in traces/FORMAT.md and exec/input_pipeline: dense layers are normal, rows of
tables uniform, by Philox. The interaction is `dot`; the loss that of a logit.
"""

import json

import numpy
import torch
from torch.nn import functional

from model import INITIAL_WEIGHTS, normals, words

TABLE, BOTTOM, TOP = 0, 1, 3  # sites
LEARNING_RATE = 0.5  # so high that a table's steps show in the losses


def read_model(path):
    with open(path, encoding="utf-8") as file:
        model = json.load(file)
    assert model["interaction"] == "dot"
    return model


def table_rows(seed, table, rows, width):
    drawn = words(seed, INITIAL_WEIGHTS, TABLE, table, 0, numpy.arange(rows * width // 4))
    drawn = (drawn.reshape(-1) >> numpy.uint64(8)).astype(numpy.float32)
    bound = numpy.float32(1) / numpy.sqrt(numpy.float32(rows))
    unit = drawn * numpy.float32(2.0**-23) - numpy.float32(1)
    return torch.from_numpy((unit * bound).reshape(rows, width))


def layers_of(inputs, widths, seed, site):
    layers, drawn = [], 0
    for i, outputs in enumerate(widths):
        linear = torch.nn.Linear(inputs, outputs)
        of_weight = numpy.sqrt(numpy.float32(2) / numpy.float32(inputs + outputs))
        of_bias = numpy.sqrt(numpy.float32(1) / numpy.float32(outputs))
        weight = normals(inputs * outputs, of_weight, seed, drawn, site).reshape(inputs, outputs)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(weight.T.copy()))
            linear.bias.copy_(torch.from_numpy(normals(outputs, of_bias, seed, drawn + 1, site)))
        drawn += 2
        layers.append(linear)
        if site == BOTTOM or i + 1 < len(widths):
            layers.append(torch.nn.ReLU())
        inputs = outputs
    return torch.nn.Sequential(*layers)


class Dense(torch.nn.Module):
    """All but the tables: the loss of dense features, pooled rows [samples, tables, width], labels."""

    def __init__(self, model, seed=1):
        super().__init__()
        features = len(model["tables"]) + 1
        width = model["bottom"][-1]
        self.bottom = layers_of(model["dense_features"], model["bottom"], seed, BOTTOM)
        self.top = layers_of(width + features * (features - 1) // 2, model["top"], seed, TOP)
        self.register_buffer("pairs", torch.tril_indices(features, features, -1))

    def forward(self, dense, pooled, labels):
        below = self.bottom(dense)
        features = torch.cat([below.unsqueeze(1), pooled], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))
        crossed = products[:, self.pairs[0], self.pairs[1]]
        logits = self.top(torch.cat([below, crossed], dim=1)).squeeze(1)
        return functional.binary_cross_entropy_with_logits(logits, labels)


def owners(model, ranks):
    """The rank of each table, as pipeexec deals out whole tables by default."""
    sizes = [table["rows"] for table in model["tables"]]
    held, of_table = [0] * ranks, [0] * len(sizes)
    for table in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        of_table[table] = held.index(min(held))
        held[of_table[table]] += sizes[table]
    return of_table


# ---- Batches


def draw_samples(model, samples):
    """Arrays by name; ids of a table one behind the other, popular ones far more often."""
    draw = numpy.random.default_rng(1)
    dense = numpy.round(draw.normal(size=(samples, model["dense_features"])), 3)
    score = dense @ draw.normal(size=model["dense_features"]) + draw.normal(size=samples)
    arrays = {"labels": (score > 0).astype(numpy.float32), "dense": dense.astype(numpy.float32)}
    for i, table in enumerate(model["tables"]):
        mean = table["ids_per_sample"]
        if table.get("id_count") == "uniform":
            lengths = draw.integers(0, 2 * mean + 1, samples)
        else:
            lengths = numpy.full(samples, mean)
        ids = (table["rows"] * draw.random(int(lengths.sum())) ** 3).astype(numpy.int64)
        arrays[f"lengths{i}"], arrays[f"ids{i}"] = lengths.astype(numpy.int64), ids
    return arrays


def write_batches(model, arrays, path):
    """`pipesim-batches`, as traces/FORMAT.md has it."""
    samples = len(arrays["labels"])
    columns = []
    for i in range(len(model["tables"])):
        ends = numpy.cumsum(arrays[f"lengths{i}"])
        columns.append(numpy.split(arrays[f"ids{i}"], ends[:-1]))
    with open(path, "w", encoding="ascii") as file:
        print(f"pipesim-batches 1\nsamples {samples}", file=file)
        print(f"dense {model['dense_features']}", file=file)
        for table in model["tables"]:
            print("table", table["name"], file=file)
        for s in range(samples):
            parts = [f"{arrays['labels'][s]:.0f}", " ".join(f"{x:.3f}" for x in arrays["dense"][s])]
            parts += [" ".join(map(str, ids[s])) for ids in columns]
            print(" | ".join(parts), file=file)


def batches_of(model, arrays, batch_size, rank, ranks):
    """Batches of a rank: dense, labels, and of each table lengths and ids."""
    starts = [numpy.concatenate([[0], numpy.cumsum(arrays[f"lengths{i}"])])
              for i in range(len(model["tables"]))]
    batches = []
    for b in range(len(arrays["labels"]) // (batch_size * ranks)):
        first = (b * ranks + rank) * batch_size
        last = first + batch_size
        tables = [(torch.from_numpy(arrays[f"lengths{i}"][first:last].copy()),
                   torch.from_numpy(arrays[f"ids{i}"][start[first] : start[last]].copy()))
                  for i, start in enumerate(starts)]
        batches.append((torch.from_numpy(arrays["dense"][first:last].copy()),
                        torch.from_numpy(arrays["labels"][first:last].copy()), tables))
    return batches
