"""What fit_software.py fits: constants of software presets, on which rows, and what is expected of
them from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log

from fit_costs import Parameter, Values
from program import Json, value_of
from rows import Source

TIMES = ("host_", "p2p_overhead")  # in ms here

Derive = Callable[[Values], Json]


@dataclass(frozen=True)
class Preset:
    """Some constants of a software on a device, and of the device, which a set shows."""

    name: str
    source: Source
    device: str
    constants: tuple[Parameter, ...]
    derive: Derive = lambda values: {}  # keys of the software that follow from constants
    usual_error: float = 0.03


def one(name: str, expected: float, spread: float, most: float = 100) -> Parameter:
    least = 0 if name.startswith((*TIMES, "hidden_")) else 0.02  # of a factor
    return Parameter(name, expected, spread, least, most, ("software", name))


def of_matmul(name: str, expected: float, spread: float, least: float, most: float) -> Parameter:
    return Parameter(name, expected, spread, least, most, ("device", "matmul", name))


def by_nodes(values: Values) -> Json:
    """Shares of the cards that fall as a power of the nodes."""

    def share(name: str, nodes: int) -> float:
        return round(min(1, values[f"{name}_of_2"] * (nodes / 2) ** -values[f"{name}_falls"]), 3)

    def entry(nodes: int) -> Json:
        shares = {name: share(name, nodes) for name in ("share", "gather_share")}
        return {"nodes": nodes, **shares}

    return {"network": [entry(nodes) for nodes in (2, 4, 8, 16, 32, 64)]}


def of_network(software: Json, name: str) -> float:
    """The inverse: what a software's list says of such a constant."""
    key = name.removesuffix("_of_2").removesuffix("_falls")
    shares = [one[key] for one in value_of(software["network"])]
    # The first may be cut off at all of the cards.
    return shares[0] if name.endswith("_of_2") else log(shares[1] / shares[-1]) / log(16)


def of_nodes(name: str, expected: float, spread: float, most: float) -> Parameter:
    return Parameter(name, expected, spread, 0, most, ())


A100, H100, B200 = "a100-sxm-80gb", "h100-sxm-80gb", "b200"
# Expectations: what other presets have and what data sheets and code let expect, not these rows.
# Efficiencies are of a device's own share of its peak; traffic is 1 where kernels are fused as
# counted, and 3 and more where each operation of a formula is a kernel of its own.
PRESETS = (
    Preset("nemo-2023", Source.MLPERF, H100, (one("efficiency", 1, 0.1),)),
    # Products alone reached 0.68 of the device's rate, as if it were cool, on that machine.
    Preset("megatron-core", Source.SIMUMAX_B200, B200, (one("efficiency", 0.75, 0.1),)),
    Preset(
        "deepspeed",
        Source.BIGSCIENCE,
        A100,
        (
            one("efficiency", 0.95, 0.1),
            one("elementwise_traffic", 1.5, 1),
            one("p2p_overhead", 1, 2),
            of_matmul("unaligned_8", 4, 4, 1, 60),  # without tensor cores
        ),
    ),
    Preset("deepspeed", Source.SC21_ZERO3, A100, (one("gather_share", 0.3, 0.3, most=1),)),
    Preset(
        "nanotron",
        Source.NANOTRON,
        H100,
        (
            one("host_forward", 0.8, 0.8),
            one("host_backward", 1.5, 1),
            one("host_peers", 0.1, 0.2),
            one("host_peer", 0.055, 0.05),
            one("host_far_peers", 1, 1),
            one("host_far_peer", 0.5, 0.5),
            one("hidden_reduction", 0.3, 0.3, most=1),
            one("hidden_exchange", 0.3, 0.3, most=1),
            one("p2p_overhead", 0.4, 0.3),
            of_nodes("share_of_2", 0.8, 0.2, 1),
            of_nodes("share_falls", 0.2, 0.2, 2),
            of_nodes("gather_share_of_2", 0.6, 0.2, 1),
            of_nodes("gather_share_falls", 0.2, 0.2, 2),
        ),
        by_nodes,
    ),
)
