"""Everything that is compared with published figures, computed once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from activation_bytes import BytesRow, activation_bytes
from goodput_figures import GoodputFigures, goodput_figures
from predictions import ErrorSummary, NamedError, Outcome, peaks, predict_rows, summarise, times
from products import ProductRow, examine_products
from program import Json, Pipesim
from rows import DATA, Source, Use, read_products, read_rows
from schedule_figures import Figure, bubble_rates, gpipe_speedups, schedule_ratios
from v_shape_figures import controllable_memory, dualpipes


@dataclass(frozen=True)
class Findings:
    cluster: Json  # that of most rows of A100, and its device
    device: Json
    outcomes: list[Outcome]
    outcomes_at_1: list[Outcome]  # of SC21, with a software factor of 1
    outcomes_unhidden: list[Outcome]  # of B200, with no reduction beside products
    products: list[ProductRow]
    bytes: list[BytesRow]
    rates: list[Figure]
    ratios: list[Figure]
    speedups: list[Figure]
    v_shapes: list[Figure]
    dualpipes: list[Figure]
    goodput: GoodputFigures

    def of(self, source: Source) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.row.source is source]


# Errors of some rows, under the names that goals and bounds know them by.
Measures = dict[str, ErrorSummary]

USE_TITLES = {Use.FITTED: "fitted", Use.HOST_FLOOR: "host floor", Use.UNSEEN: "unseen"}


def by_use(name: str, outcomes: list[Outcome]) -> Measures:
    measures = {name: summarise(times(outcomes))}
    for use, title in USE_TITLES.items():
        some = [outcome for outcome in outcomes if outcome.row.use is use]
        if some:
            measures[f"{name}, {title}"] = summarise(times(some))
    return measures


def multi_node_measures(outcomes: list[Outcome]) -> Measures:
    name = "vtrain multi-node"
    sound = [outcome for outcome in outcomes if outcome.row.use is not Use.CONTRADICTS]

    def of_splits(some: list[Outcome], *splits: int) -> ErrorSummary:
        return summarise(times(one for one in some if one.row.training.tensor_parallel in splits))

    return {
        **by_use(name, outcomes),
        f"{name}, without contradicting rows": summarise(times(sound)),
        f"{name}, t 1 or 8": of_splits(outcomes, 1, 8),
        f"{name}, t 1 or 8, without contradicting rows": of_splits(sound, 1, 8),
        f"{name}, t 16, wider than a node": of_splits(sound, 16),
    }


def differences(figures: Iterable[Figure], columns: slice, relative: bool) -> list[NamedError]:
    return [
        (figure.name, (computed - published) / (published if relative else 1))
        for figure in figures
        for computed, published in zip(figure.computed[columns], figure.published[columns])
    ]


def measure(findings: Findings) -> Measures:
    measures: Measures = {}
    for source in (Source.KORTHIKANTI, Source.KORTHIKANTI_LAYERS, Source.SC21):
        measures |= by_use(source.value, findings.of(source))
    measures["sc21, software factor 1"] = summarise(times(findings.outcomes_at_1))
    measures |= multi_node_measures(findings.of(Source.VTRAIN_MULTI_NODE))
    single = "vtrain single-node, another simulator"
    measures |= by_use(single, findings.of(Source.VTRAIN_SINGLE_NODE))
    b200 = findings.of(Source.SIMUMAX_B200)
    measures["simumax b200"] = summarise(times(b200))
    measures["simumax b200, nothing hidden"] = summarise(times(findings.outcomes_unhidden))
    measures["simumax b200, peak memory"] = summarise(peaks(b200))
    for fitted, title in ((True, "fitted"), (False, "unseen")):
        some = [row for row in findings.products if row.product.fitted is fitted]
        errors = [(row.product.name, row.error) for row in some]
        measures[f"matrix products, {title}"] = summarise(errors)
    measures["activation bytes"] = summarise(
        [(row.name, row.computed / row.closed_form - 1) for row in findings.bytes]
    )
    without_interleaved = slice(0, 3)
    measures["bubble rates, 1F1B, ZB-H1, ZB-H2"] = summarise(
        differences(findings.rates, without_interleaved, relative=False)
    )
    for hop, columns in (("no device", slice(0, 2)), ("their senders", slice(2, 4))):
        measures[f"schedule ratios, hops that hold {hop}"] = summarise(
            differences(findings.ratios, columns, relative=True)
        )
    measures["V shapes, bubbles in parts of 1F1B's"] = summarise(
        differences(findings.v_shapes, slice(0, 1), relative=False)
    )
    measures["V shapes, microbatches kept"] = summarise(
        differences(findings.v_shapes, slice(1, 2), relative=True)
    )
    measures["DualPipe and DualPipeV, bubbles and chunks kept"] = summarise(
        differences(findings.dualpipes, slice(0, 2), relative=True)
    )
    return measures


def examine(pipesim: Pipesim, folder: Path = DATA) -> Findings:
    """`folder` holds the published figures."""
    rows = read_rows(folder)
    at_1 = [
        replace(row, training=replace(row.training, software_factor=1))
        for row in rows
        if row.source is Source.SC21
    ]
    unhidden = [
        replace(row, training=replace(row.training, asynchronous_reduction=False))
        for row in rows
        if row.source is Source.SIMUMAX_B200
    ]
    cluster = pipesim.preset("clusters", "dgx-a100")
    card, products = read_products(folder)
    return Findings(
        cluster=cluster,
        device=pipesim.preset("devices", cluster["device"]),
        outcomes=predict_rows(pipesim, rows),
        outcomes_at_1=predict_rows(pipesim, at_1),
        outcomes_unhidden=predict_rows(pipesim, unhidden),
        products=examine_products(pipesim, products, pipesim.preset("devices", card)),
        bytes=activation_bytes(pipesim, folder),
        rates=bubble_rates(pipesim, folder),
        ratios=schedule_ratios(pipesim, folder),
        speedups=gpipe_speedups(pipesim, folder),
        v_shapes=controllable_memory(pipesim, folder),
        dualpipes=dualpipes(pipesim),
        goodput=goodput_figures(pipesim, folder),
    )
