#!/usr/bin/env python3
"""What each term of the model of kernels is worth: the errors of one GPU's rows without it.

    ablate_kernels.py

Each term is switched off in the files of the device or of the software, nothing is fitted again.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from statistics import fmean

from command_line import Parser, run_program
from one_gpu import one_gpu_rows
from program import Json, Pipesim, inlined
from tables import table

SOFTWARE = {"PyTorch": ("pytorch", "pytorch-compile"), "pipeexec": ("pipeexec",)}


def without_lines(*words: str) -> Callable[[Json, Json], None]:
    """Kernels whose name has one of these words move nothing."""

    def change(device: Json, software: Json) -> None:
        for part in ("block", "head"):
            for line in software[part]["value"]:
                if any(word in line["kernel"] for word in words):
                    line["bytes"], line["launches"] = {}, 0

    return change


def value(where: str, key: str, to: object) -> Callable[[Json, Json], None]:
    def change(device: Json, software: Json) -> None:
        {"device": device, "software": software}[where][key] = to

    return change


def no_host(device: Json, software: Json) -> None:
    for key in ("host_forward", "host_backward", "host_step"):
        software.pop(key, None)


def flash(device: Json, software: Json) -> None:
    if software["attention"]["value"] == "cudnn":
        software["attention"] = "flash"


def norms_as_copies(device: Json, software: Json) -> None:
    device["norm"] = device["stream"]


TERMS: dict[str, Callable[[Json, Json], None]] = {
    "all terms": lambda device, software: None,
    "the clock of single kernels": value("device", "sustained", 1),
    "no ramp of products": value("device", "product_ramp", 0),
    "no epilogue": value("device", "epilogue", 0),
    "kernels start at once": value("device", "start", "0us"),
    "norms at the rate of copies": norms_as_copies,
    "FlashAttention-2 instead of cuDNN's": flash,
    "no casts": without_lines("cast", "added in fp32"),
    "no norms": without_lines("norm"),
    "no activations, rotary, copies": without_lines("SiLU", "GELU", "rotary", "copied", "biases"),
    "no cross entropy": without_lines("cross entropy"),
    "no optimizer": value("software", "optimizer_bytes", 0),
    "no launches": no_host,
    "recomputes to the end": value("software", "stops_early", False),
}


def main(arguments: Sequence[str]) -> int:
    given = Parser(__doc__).parse_args(arguments)
    with Pipesim(given.pipesim) as pipesim:
        device = pipesim.preset("devices", "h100-sxm-80gb")
        cluster = pipesim.preset("clusters", "dgx-h100")
        names = [name for some in SOFTWARE.values() for name in some]
        presets = {name: pipesim.preset("software", name) for name in names}
        rows = []
        for term, change in TERMS.items():
            own = copy.deepcopy(device)
            software = copy.deepcopy(presets)
            for one in software.values():
                change(own["kernels"], one["values"]["kernels"])
            files = {name: pipesim.file(one) for name, one in software.items()}
            found = one_gpu_rows(pipesim, pipesim.file(cluster | {"device": inlined(own)}), files)
            cells = []
            for some in SOFTWARE.values():
                errors = [abs(row.error) for row in found if row.software in some]
                cells += [f"{100 * fmean(errors):.1f}", f"{100 * max(errors):.1f}"]
            rows.append([term, *cells])
    heads = [f"{name}, {what}, %" for name in SOFTWARE for what in ("mean", "worst")]
    print(table(["", *heads], rows))
    return 0


if __name__ == "__main__":
    run_program("ablate_kernels.py", lambda: main(sys.argv[1:]))
