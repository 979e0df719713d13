"""Matrix products on one card, as shares of its peak."""

from __future__ import annotations

from dataclasses import dataclass

from predictions import layer_of
from program import Json, Pipesim, inlined, value_of
from rows import Product


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
    return {
        "format": "pipesim-cluster",
        "version": 1,
        "name": "one device",
        "device": inlined(device),
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
