#!/usr/bin/env python3
"""What a cluster loses, 8-bit products reach and FSDP leaves open, scanned: errors of the rows that
are marked as fitted, for values around those of the presets.

    fit_cluster.py    prints the means of absolute errors in percent, and of signed ones in brackets

`losses.node` and `per_doubling` of dgx-h100 are on NeMo's rows of dgxc, its `fp8_efficiency` on
those and the ones of NeMo 24.07; `compute_slowdown` of llm-foundry and the rates of attention by
Triton on an A100 are on LLM Foundry's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean

from command_line import Parser, run_program
from predictions import predict_rows
from program import Json, Pipesim, inlined
from rows import Row, Source, Use, read_rows

NODES = (0.83, 0.85, 0.87, 0.89, 0.91)
DOUBLINGS = (0, 0.003, 0.0062, 0.009)
FP8 = (0.88, 0.9, 0.915, 0.93, 0.95)
TRITON = ((160, 91), (160, 103), (170, 97), (180, 91), (180, 103))  # TFLOP/s forward, backward
SLOWDOWNS = (0, 0.6, 1.27, 2)


def fitted(source: Source) -> list[Row]:
    return [row for row in read_rows() if row.source is source and row.use is Use.FITTED]


def errors_text(pipesim: Pipesim, rows: Iterable[Row]) -> str:
    errors = [outcome.error for outcome in predict_rows(pipesim, list(rows))]
    return f"{100 * fmean(map(abs, errors)):.2f} ({100 * fmean(errors):+.1f})"


def cluster_file(pipesim: Pipesim, node: float, per_doubling: float) -> str:
    losses: Json = {"node": node, "per_doubling": per_doubling}
    changed = {name: {"value": value, "source": "scanned"} for name, value in losses.items()}
    head = {"format": "pipesim-cluster", "version": 1, "base": "dgx-h100", "name": "scanned"}
    return pipesim.file({**head, "losses": changed})


def software_file(pipesim: Pipesim, name: str, key: str, value: float) -> str:
    file = pipesim.preset("software", name)
    file["values"][key] = {"value": value, "source": "scanned"}
    return pipesim.file(file)


def triton_file(pipesim: Pipesim, cluster: str, forward: float, backward: float) -> str:
    device = inlined(pipesim.preset("devices", "a100-sxm-80gb"))
    for way, rate in (("forward", forward), ("backward", backward)):
        device["kernels"]["attention"]["triton"][way]["rate"]["value"] = f"{rate}TFLOP/s"
    return pipesim.file({**pipesim.preset("clusters", cluster), "device": device})


def main(arguments: Sequence[str]) -> int:
    given = Parser(__doc__).parse_args(arguments)
    with Pipesim(given.pipesim) as pipesim:
        dgxc, foundry = fitted(Source.DGXC), fitted(Source.LLM_FOUNDRY)
        for node in NODES:
            cluster = cluster_file(pipesim, node, 0.0062)
            text = errors_text(pipesim, [replace(row, cluster=cluster) for row in dgxc])
            print(f"node {node}: dgxc {text}", flush=True)
        for part in DOUBLINGS:
            cluster = cluster_file(pipesim, 0.87, part)
            text = errors_text(pipesim, [replace(row, cluster=cluster) for row in dgxc])
            print(f"per_doubling {part}: dgxc {text}", flush=True)
        nemo = [row for row in fitted(Source.NEMO) + dgxc if row.training.precision == "fp8"]
        for value in FP8:
            software = software_file(pipesim, "nemo", "fp8_efficiency", value)
            text = errors_text(pipesim, [replace(row, software=software) for row in nemo])
            print(f"fp8_efficiency {value}: nemo {text}", flush=True)
        for forward, backward in TRITON:
            cluster = triton_file(pipesim, foundry[0].cluster, forward, backward)
            text = errors_text(pipesim, [replace(row, cluster=cluster) for row in foundry])
            print(f"triton {forward}, {backward} TFLOP/s: llm foundry {text}", flush=True)
        for slowdown in SLOWDOWNS:
            software = software_file(pipesim, "llm-foundry", "compute_slowdown", slowdown)
            text = errors_text(pipesim, [replace(row, software=software) for row in foundry])
            print(f"compute_slowdown {slowdown}: llm foundry {text}", flush=True)
    return 0


if __name__ == "__main__":
    run_program("fit_cluster.py", lambda: main(sys.argv[1:]))
