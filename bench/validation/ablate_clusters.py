#!/usr/bin/env python3
"""What single terms are worth on several GPUs, for software that lists its kernels: mean errors of
the sound rows of each set without a term, in percent. Nothing is fitted again.

    ablate_clusters.py
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

from ablate_kernels import TERMS as KERNEL_TERMS
from command_line import Parser, run_program
from predictions import predict_rows
from program import Json, Pipesim, inlined
from rows import Row, Source, read_rows
from tables import table

SETS = (
    Source.DGXC,
    Source.NEMO,
    Source.MLPERF,
    Source.TORCHTITAN,
    Source.LLM_FOUNDRY,
    Source.INTERNLM,
    Source.ATORCH,
    Source.NANOTRON,
)
Change = Callable[[Json, Json], None]  # of a cluster's losses and a software's values


def loss(key: str, to: float) -> Change:
    def change(losses: Json, values: Json) -> None:
        losses[key] = {"value": to, "source": "ablated"}

    return change


def of_software(key: str, to: object) -> Change:
    def change(losses: Json, values: Json) -> None:
        values[key] = {"value": to, "source": "ablated"}

    return change


TERMS: dict[str, Change] = {
    "all terms": lambda losses, values: None,
    "a node loses nothing": loss("node", 1),
    "nodes lose nothing by number": loss("per_doubling", 0),
    "no cap of power": loss("watts", 700),
    "exchanges slow no compute": of_software("compute_slowdown", 0),
    "8-bit products as single ones": of_software("fp8_efficiency", 1),
    "products hide no exchanges": of_software("hidden_exchange", 0),
    "messages cost no compute": of_software("p2p_overhead", "0us"),
}
KERNELS = (
    "the clock of single kernels",
    "no ramp of products",
    "no epilogue",
    "kernels start at once",
    "norms at the rate of copies",
    "no casts",
    "no norms",
    "no activations, rotary, copies",
    "no cross entropy",
    "no optimizer",
    "recomputes to the end",
)


class Ablation:
    """Files of clusters and software without a term, each made once."""

    def __init__(self, pipesim: Pipesim, change: Change, of_kernels: Change) -> None:
        self.pipesim, self.change, self.of_kernels = pipesim, change, of_kernels
        self.files: dict[str, str] = {}
        self.device = pipesim.preset("devices", "h100-sxm-80gb")
        self.list = pipesim.software("nemo", "")["kernels"]

    def software(self, name: str) -> str:
        if name not in self.files:
            values = copy.deepcopy(self.pipesim.software(name, ""))
            # What changes a base's list has not all of it.
            values["kernels"] = copy.deepcopy(self.list) | values["kernels"]
            self.change({}, values)
            self.of_kernels(copy.deepcopy(self.device["kernels"]), values["kernels"])
            head = {"format": "pipesim-software", "version": 1, "name": name}
            self.files[name] = self.pipesim.file({**head, "values": values})
        return self.files[name]

    def device_of(self, cluster: Json) -> Json | None:
        """None where it changes another, whose kernels then follow from that."""
        while "device" not in cluster:
            cluster = self.pipesim.preset("clusters", cluster["base"])
        if not isinstance(cluster["device"], str):
            return None
        device = inlined(copy.deepcopy(self.pipesim.preset("devices", cluster["device"])))
        if "kernels" in device:
            self.of_kernels(device["kernels"], copy.deepcopy(self.list))
        return device

    def cluster(self, name: str) -> str:
        if name not in self.files:
            file = copy.deepcopy(self.pipesim.preset("clusters", name))
            losses = dict(file.get("losses", {}))
            self.change(losses, {})
            if "watts" not in file.get("losses", {}):
                losses.pop("watts", None)
            device = self.device_of(file)
            if device is not None:
                file["device"] = device
            self.files[name] = self.pipesim.file({**file, "losses": losses})
        return self.files[name]

    def error(self, rows: Sequence[Row]) -> float:
        changed = [
            replace(
                row, cluster=self.cluster(row.cluster), software=self.software(row.software or "")
            )
            for row in rows
        ]
        return fmean(abs(one.error) for one in predict_rows(self.pipesim, changed))


def main(arguments: Sequence[str]) -> int:
    given = Parser(__doc__).parse_args(arguments)
    rows = [row for row in read_rows() if row.is_sound and row.software != "deepspeed"]
    nothing = TERMS["all terms"]
    terms = [(term, change, nothing) for term, change in TERMS.items()]
    terms += [(term, nothing, KERNEL_TERMS[term]) for term in KERNELS]
    print("\n".join(table(["", *(one.value for one in SETS)], []).splitlines()), flush=True)
    with Pipesim(given.pipesim) as pipesim:
        for term, change, of_kernels in terms:
            ablation = Ablation(pipesim, change, of_kernels)
            cells = [
                f"{100 * ablation.error([row for row in rows if row.source is one]):.1f}"
                for one in SETS
            ]
            print(table([term, *cells], []).splitlines()[0], flush=True)
    return 0


if __name__ == "__main__":
    run_program("ablate_clusters.py", lambda: main(sys.argv[1:]))
