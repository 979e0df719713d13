"""Everything that is compared with published figures, computed once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from activation_bytes import BytesRow, activation_bytes
from goodput_figures import GoodputFigures, goodput_figures
from hardware import Hardware, all_hardware
from layouts import Layout, read_layouts
from one_gpu import OneGpuRow, one_gpu_rows
from plans import Plans, read_plans, stale
from predictions import Outcome, predict_possible, predict_rows
from products import ProductRow, examine_products
from program import Json, Pipesim
from rows import DATA, LeftOut, Row, Source, Use, read_left_out, read_products, read_rows
from schedule_figures import Figure, bubble_rates, gpipe_speedups, schedule_ratios
from v_shape_figures import controllable_memory, dualpipes


@dataclass(frozen=True)
class Findings:
    cluster: Json  # that of most rows of A100, its device, and its software's values
    device: Json
    software: Json
    hardware: dict[str, Hardware]  # by cluster
    outcomes: list[Outcome]  # of rows that ran
    failed: list[Outcome]  # of rows that did not
    refused: list[Row]  # the others of those: pipesim says that they can't be
    left_out: list[LeftOut]
    outcomes_at_1: list[Outcome]  # of SC21, with a software factor of 1
    products: list[ProductRow]
    bytes: list[BytesRow]
    rates: list[Figure]
    ratios: list[Figure]
    speedups: list[Figure]
    v_shapes: list[Figure]
    dualpipes: list[Figure]
    goodput: GoodputFigures
    one_gpu: list[OneGpuRow]
    layouts: list[Layout]  # that are published
    plans: Plans
    stale_plans: list[str]  # what the plans say that is no longer so

    def of(self, source: Source) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.row.source is source]

    def software_of(self, row: Row) -> str:
        return row.software or self.hardware[row.cluster].software


def examine(pipesim: Pipesim, folder: Path = DATA) -> Findings:
    """`folder` holds the published figures."""
    rows = read_rows(folder)
    ran = [row for row in rows if row.use is not Use.DID_NOT_RUN]
    not_run = [row for row in rows if row.use is Use.DID_NOT_RUN]
    possible = predict_possible(pipesim, not_run)
    at_1 = [
        replace(row, training=replace(row.training, software_factor=1))
        for row in rows
        if row.source is Source.SC21
    ]
    layouts, plans = read_layouts(folder), read_plans()
    hardware = all_hardware(pipesim, [*rows, *(one.row for one in layouts)])
    cluster = pipesim.preset("clusters", "dgx-a100")
    device = pipesim.preset("devices", cluster["device"])
    card, products = read_products(folder)
    return Findings(
        cluster=cluster,
        device=device,
        software=pipesim.software(device["software"]["base"], cluster["device"]),
        hardware=hardware,
        outcomes=predict_rows(pipesim, ran),
        failed=[outcome for outcome in possible if outcome is not None],
        refused=[row for row, outcome in zip(not_run, possible) if outcome is None],
        left_out=read_left_out(folder),
        outcomes_at_1=predict_rows(pipesim, at_1),
        products=examine_products(pipesim, products, pipesim.preset("devices", card)),
        bytes=activation_bytes(pipesim, folder),
        rates=bubble_rates(pipesim, folder),
        ratios=schedule_ratios(pipesim, folder),
        speedups=gpipe_speedups(pipesim, folder),
        v_shapes=controllable_memory(pipesim, folder),
        dualpipes=dualpipes(pipesim),
        goodput=goodput_figures(pipesim, folder),
        one_gpu=one_gpu_rows(pipesim, folder=folder),
        layouts=layouts,
        plans=plans,
        stale_plans=stale(pipesim, plans, layouts, rows, hardware),
    )
