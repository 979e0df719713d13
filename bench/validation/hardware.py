"""Devices of clusters, and what trains on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from program import Pipesim
from rows import Row


@dataclass(frozen=True)
class Hardware:
    """What a cluster is made of."""

    device: str
    title: str
    software: str  # what trains on it where a row doesn't say


def hardware_of(pipesim: Pipesim, name: str) -> Hardware:
    """Of a cluster's preset or file."""
    cluster = pipesim.preset("clusters", name)
    if "device" not in cluster:
        return hardware_of(pipesim, cluster["base"])
    device = cluster["device"]
    if isinstance(device, str):
        file = pipesim.preset("devices", device)
        return Hardware(device, file["title"], file["software"]["base"])
    base = hardware_of(pipesim, cluster["base"])
    return Hardware(device["name"], device["title"], base.software)


def all_hardware(pipesim: Pipesim, rows: Iterable[Row]) -> dict[str, Hardware]:
    return {name: hardware_of(pipesim, name) for name in sorted({row.cluster for row in rows})}
