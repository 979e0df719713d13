"""The model that pipeexec trains, in PyTorch: with the same weights, on the same sequences.

What is drawn stands in traces/FORMAT.md. No dropout; the head is not tied.
"""

import json

import numpy
import torch
from torch.nn import functional

import gpt2_block
import llama_block

INITIAL_WEIGHTS, BATCH = 0, 2


def philox(counter, seed):
    """Philox4x32-10 of counters [n, 4]."""
    c = [counter[:, i].astype(numpy.uint64) for i in range(4)]
    low = numpy.uint64(0xFFFFFFFF)
    half = numpy.uint64(32)
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p0 = numpy.uint64(0xD2511F53) * c[0]
        p1 = numpy.uint64(0xCD9E8D57) * c[2]
        c = [
            (p1 >> half) ^ c[1] ^ numpy.uint64(key[0]),
            p1 & low,
            (p0 >> half) ^ c[3] ^ numpy.uint64(key[1]),
            p0 & low,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return numpy.stack(c, axis=1)


def words(seed, purpose, site, layer, step, blocks):
    """The four words of each block of four elements."""
    blocks = numpy.asarray(blocks, dtype=numpy.uint64)
    counter = numpy.zeros((len(blocks), 4), dtype=numpy.uint64)
    counter[:, 0] = blocks & numpy.uint64(0xFFFFFFFF)
    counter[:, 1] = purpose << 28 | site << 20 | layer
    counter[:, 2] = step
    counter[:, 3] = blocks >> numpy.uint64(32)
    return philox(counter, seed)


def normals(count, deviation, seed, layer, site):
    drawn = words(seed, INITIAL_WEIGHTS, site, layer, 0, numpy.arange((count + 3) // 4))
    drawn = drawn.astype(numpy.float64)
    pairs = drawn.reshape(-1, 2)
    radius = numpy.sqrt(-2 * numpy.log((pairs[:, 0] + 1) * 2.0**-32))
    angle = 6.283185307179586 * (pairs[:, 1] * 2.0**-32)
    unit = numpy.stack([radius * numpy.cos(angle), radius * numpy.sin(angle)], axis=1)
    return (float(numpy.float32(deviation)) * unit.reshape(-1)[:count]).astype(numpy.float32)


class Embedding(torch.nn.Module):
    def __init__(self, vocabulary, positions, hidden):
        super().__init__()
        self.table = torch.nn.Embedding(vocabulary, hidden)
        self.positions = torch.nn.Embedding(positions, hidden)

    def forward(self, tokens):
        return self.table(tokens) + self.positions.weight[: tokens.shape[1]]


class Head(torch.nn.Module):
    def __init__(self, vocabulary, norm):
        super().__init__()
        self.norm = norm
        self.matrix = torch.nn.Linear(norm.weight.numel(), vocabulary, bias=False)

    def forward(self, x):
        return self.matrix(self.norm(x))


class Model(torch.nn.Module):
    """A gpt or a llama from its file: all layers, or those [first, last) of a stage."""

    def __init__(self, path, seed=1, first=0, last=None):
        super().__init__()
        with open(path, encoding="utf-8") as file:
            model = json.load(file)
        assert not model["tied_head"] and model["dropout"] == 0
        self.blocks = model["blocks"]
        layers = self.layers_of(model)
        last = len(layers) if last is None else last
        self.layers = torch.nn.ModuleList(layers[first:last])
        with torch.no_grad():
            for i, layer in enumerate(self.layers):
                self.draw(layer, seed, first + i)

    @staticmethod
    def layers_of(model):
        hidden, vocabulary = model["hidden_size"], model["vocabulary_size"]
        positions = model["max_sequence_length"]
        if model["architecture"] == "llama":
            embedding = torch.nn.Embedding(vocabulary, hidden)
            block = lambda: llama_block.Block(
                hidden,
                model["heads"],
                model["kv_heads"],
                model["mlp_size"],
                positions,
                float(model["rotary_base"]),
                model["qkv_bias"],
            )
            norm = torch.nn.RMSNorm(hidden, eps=1e-5)
        else:
            embedding = Embedding(vocabulary, positions, hidden)
            block = lambda: gpt2_block.Block(hidden, model["heads"])
            norm = torch.nn.LayerNorm(hidden)
        return [embedding, *(block() for _ in range(model["blocks"])), Head(vocabulary, norm)]

    def draw(self, layer, seed, index):
        """A parameter's site is its place in pipeexec's layer. Norms start as PyTorch's do."""

        def put(parameter, deviation, site, transposed=True):
            shape = parameter.shape[::-1] if transposed else parameter.shape
            drawn = normals(parameter.numel(), deviation, seed, index, site).reshape(shape)
            parameter.copy_(torch.from_numpy(drawn.T if transposed else drawn))

        if isinstance(layer, torch.nn.Embedding):
            put(layer.weight, 0.02, 0, False)
        elif isinstance(layer, Embedding):
            put(layer.table.weight, 0.02, 0, False)
            put(layer.positions.weight, 0.02, 1, False)
        elif isinstance(layer, Head):
            put(layer.matrix.weight, 0.02, 0, False)
        else:
            added = float(numpy.float32(0.02) / numpy.sqrt(numpy.float32(2 * self.blocks)))
            site = 0
            for part, deviation in [
                (layer.norm1, None),
                (layer.qkv, 0.02),
                (layer.out, added),
                (layer.norm2, None),
                (layer.up, 0.02),
                (layer.down, added),
            ]:
                if deviation is not None:
                    put(part.weight, deviation, site)
                has_bias = getattr(part, "bias", None) is not None
                if has_bias:
                    part.bias.zero_()
                site += 2 if has_bias else 1

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def loss_of(logits, targets):
    return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


class Text:
    def __init__(self, path, seed=1):
        with open(path, "rb") as file:
            self.bytes = numpy.frombuffer(file.read(), dtype=numpy.uint8).astype(numpy.int64)
        self.seed = seed

    def microbatch(self, step, first, batch, sequence):
        """Tokens and targets of sequences [first, first + batch) of the global batch."""
        drawn = words(self.seed, BATCH, 0, 0, step, numpy.arange(first, first + batch))
        places = len(self.bytes) - sequence
        rows = []
        for row in drawn:
            at = (int(row[0]) << 32 | int(row[1])) % places
            rows.append(self.bytes[at : at + sequence + 1])
        rows = torch.from_numpy(numpy.stack(rows))
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def adamw(module, learning_rate=1e-4):
    """As pipeexec steps: weight decay for matrices and the table alone."""
    decays, others = [], []
    for name, parameter in module.named_parameters():
        is_matrix = parameter.dim() == 2 and "positions" not in name
        (decays if is_matrix else others).append(parameter)
    groups = [{"params": decays, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.95), eps=1e-8)
