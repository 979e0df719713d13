"""Fits how matrix products depend on their shape, on every second row of a table of
one card."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from math import log1p

from minimise import minimise
from predictions import NamedError, summarise
from products import examine_products
from program import Json, Pipesim, value_of
from rows import read_products

HALF_AREA = 128 * 128
QUARTER_AREA = 128 * 64


@dataclass(frozen=True)
class ShapeConstants:
    """What the fit may change: of the tiles, all those of one area alike. The best one is
    1, and what no row of the table takes stays as it is."""

    peak_share: float
    ramp: float
    whole_waves: float
    accumulation: float
    half: float  # of tiles of 128 x 128
    quarter: float  # of tiles of 128 x 64 and 64 x 128


SPREADS = ShapeConstants(0.1, 100, 0.3, 0.05, 0.1, 0.1)
TITLES = {"half": "tile 128x128", "quarter": "tile 128x64"}


def area(tile: Json) -> int:
    return tile["rows"] * tile["columns"]


def constants_of(device: Json) -> ShapeConstants:
    matmul = device["matmul"]
    efficiency = {area(tile): value_of(tile["efficiency"]) for tile in value_of(matmul["tiles"])}
    return ShapeConstants(
        peak_share=value_of(matmul["peak_share"]),
        ramp=value_of(matmul["ramp"]),
        whole_waves=value_of(matmul["whole_waves"]),
        accumulation=value_of(matmul["accumulation"]),
        half=efficiency[HALF_AREA],
        quarter=efficiency[QUARTER_AREA],
    )


def with_constants(device: Json, constants: ShapeConstants) -> Json:
    changed = deepcopy(device)
    matmul = changed["matmul"]
    matmul["peak_share"] = constants.peak_share
    matmul["ramp"] = round(max(0, constants.ramp))
    matmul["whole_waves"] = min(max(constants.whole_waves, 0), 1)
    matmul["accumulation"] = max(1, constants.accumulation)
    for tile in value_of(matmul["tiles"]):
        if area(tile) == HALF_AREA:
            tile["efficiency"] = constants.half
        elif area(tile) == QUARTER_AREA:
            tile["efficiency"] = constants.quarter
    return changed


def fit_products(pipesim: Pipesim) -> str:
    """What was found, and the errors on fitted and unseen rows, as text."""
    card, products = read_products()
    device = pipesim.preset("devices", card)
    start = constants_of(device)

    def at(point: Sequence[float]) -> ShapeConstants:
        values = [
            value + position * spread
            for value, position, spread in zip(
                asdict(start).values(), point, asdict(SPREADS).values()
            )
        ]
        return ShapeConstants(*values)

    def errors(constants: ShapeConstants, fitted: bool) -> list[NamedError]:
        some = [product for product in products if product.fitted is fitted]
        rows = examine_products(pipesim, some, with_constants(device, constants))
        return [(row.product.name, row.error) for row in rows]

    def loss(point: Sequence[float]) -> float:
        usual_error = 0.02
        return sum(log1p((error / usual_error) ** 2) for _, error in errors(at(point), fitted=True))

    # Times are whole nanoseconds: closer than this the loss has steps.
    end = at(minimise(loss, [0.0] * len(asdict(start)), tolerance=1e-3))
    text = f"{'constant':<16} {'start':>9} {'end':>9}\n"
    for name, before in asdict(start).items():
        text += f"{TITLES.get(name, name):<16} {before:>9.4f} {getattr(end, name):>9.4f}\n"
    text += "\nabsolute errors, %: mean, median, worst\n"
    text += f"{'':<10} {'at the start':<20}   at the end\n"
    for fitted in (True, False):
        text += f"{'fitted' if fitted else 'unseen':<10}"
        for constants in (start, end):
            some = summarise(errors(constants, fitted))
            text += f" {100 * some.mean:6.2f} {100 * some.median:6.2f} {100 * some.worst:6.2f}  "
        text += "\n"
    return text
