"""Single parts of the cost model: activation bytes of a block, matrix products."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from predictions import layer_of, model_flags
from program import Json, Pipesim, value_of
from rows import Model, Product, Training, read_json


@dataclass(frozen=True)
class BytesRow:
    """Of table 2 of Korthikanti et al.: a formula is tested, not an allocator."""

    name: str
    formula: str
    shape: str
    closed_form: int
    computed: int


# Sequence length, batch, hidden size, heads, tensor-parallel ranks where the form has them.
BLOCK_SHAPES = (
    (2048, 4, 6144, 64, 8),
    (2048, 1, 12288, 96, 8),
    (1024, 3, 2048, 16, 2),
    (4096, 2, 5120, 40, 4),
)


def closed_form(training: Training, hidden: int, heads: int) -> int:
    s, t = training.sequence_length, training.tensor_parallel
    sbh = s * training.micro_batch_size * hidden
    if training.recompute == "full":
        return 2 * sbh
    rest = 34 / t if training.sequence_parallel else 10 + 24 / t
    scores = 5 * heads * s / (hidden * t)
    return round(sbh * (rest if training.recompute == "selective" else rest + scores))


def activation_bytes(pipesim: Pipesim, folder: Path) -> list[BytesRow]:
    rows = []
    commands = []
    for form in read_json(folder / "korthikanti_2022.json")["activation_bytes"]:
        for sequence, batch, hidden, heads, split in BLOCK_SHAPES:
            model = Model(
                name="one block",
                blocks=1,
                hidden_size=hidden,
                heads=heads,
                kv_heads=heads,
                mlp_size=4 * hidden,
                vocabulary_size=51200,
                max_sequence_length=sequence,
                tied_head=False,
            )
            training = Training(
                micro_batch_size=batch,
                sequence_length=sequence,
                tensor_parallel=split if form["tensor_parallel"] else 1,
                sequence_parallel=form["sequence_parallel"],
                recompute=form["recompute"],
            )
            # The embedding, the block and the head have a rank each.
            command = ["--schedule", "1f1b", "--stages", "3", "--layout", "1,1,1"]
            command += ["--microbatches", "1"]
            commands.append(command + model_flags(pipesim, model, "dgx-a100", training))
            shape = f"s {sequence}, b {batch}, h {hidden}, a {heads}, t {training.tensor_parallel}"
            rows.append(
                (form["name"], form["formula"], shape, closed_form(training, hidden, heads))
            )
    results = pipesim.predict(commands)
    return [
        BytesRow(*row, computed=result["ranks"][1]["peak_activation_bytes"])
        for row, result in zip(rows, results)
    ]


@dataclass(frozen=True)
class ProductRow:
    product: Product
    computed: float  # share of the peak

    @property
    def error(self) -> float:
        """Of the time, as everywhere."""
        return self.product.efficiency / self.computed - 1


def cluster_of(device: Json) -> Json:
    """One device by itself, as a cluster's file."""
    inline = {key: value for key, value in device.items() if key not in ("format", "version")}
    return {
        "format": "pipesim-cluster",
        "version": 1,
        "name": "one device",
        "device": inline,
        "devices_per_node": 1,
    }


# Tokens, width and vocabulary of a head, the layer whose products can have any shape.
HeadShape = tuple[int, int, int]


def heads_of(product: Product) -> list[HeadShape]:
    """A head's forward is a product of tokens x width by width x vocabulary. Its
    backward has the gradient of its input, which is the forward of a head with width
    and vocabulary exchanged, and that of its weight, which accumulates."""
    if not product.accumulates:
        return [(product.rows, product.inner, product.columns)]
    tokens, vocabulary, width = product.inner, product.rows, product.columns
    return [(tokens, width, vocabulary), (tokens, vocabulary, width)]


def head_command(pipesim: Pipesim, cluster: str, shape: HeadShape) -> list[str]:
    tokens, width, vocabulary = shape
    model = {
        "format": "pipesim-model",
        "version": 1,
        "architecture": "mlp",
        "blocks": 1,
        "hidden_size": width,
        "vocabulary_size": vocabulary,
        "max_sequence_length": tokens,
    }
    command = ["--schedule", "1f1b", "--stages", "1", "--microbatches", "1", "--explain"]
    return command + ["--model", pipesim.file(model), "--cluster", cluster]


def flops_per_second(text: str) -> float:
    units = {"TFLOP/s": 1e12, "PFLOP/s": 1e15}
    unit = next(unit for unit in units if text.endswith(unit))
    return float(text.removesuffix(unit)) * units[unit]


def examine_products(pipesim: Pipesim, products: list[Product], device: Json) -> list[ProductRow]:
    """With 16 bits on that device. Times are whole nanoseconds, as pipesim prints them."""
    peak = flops_per_second(value_of(device["peak"]["bf16"]))
    cluster = pipesim.file(cluster_of(device))
    shapes = list({shape: None for product in products for shape in heads_of(product)})
    results = pipesim.predict([head_command(pipesim, cluster, shape) for shape in shapes])
    heads = {shape: layer_of(result, "head") for shape, result in zip(shapes, results)}

    def seconds(product: Product) -> float:
        first, *second = (heads[shape] for shape in heads_of(product))
        if not second:
            return first["forward_ns"]["matrix_products"] / 1e9
        both = first["backward_ns"]["matrix_products"]
        return (both - second[0]["forward_ns"]["matrix_products"]) / 1e9

    def share(product: Product) -> float:
        flops = 2 * product.rows * product.inner * product.columns
        return flops / peak / seconds(product)

    return [ProductRow(product, share(product)) for product in products]
