#!/usr/bin/env python3
"""What a device's `kernels` say of products and attention, against operators timed one by one.

    kernel_rates.py

The ramp of 16-bit products is the one that errs least on data/one_gpu.json's shapes; their rate
follows from a single product of 2048 x 8192 x 8192 on a cool device, and the clock that power
sustains from two products that ran for two seconds (bench/gpu/results/h100_device.jsonl). For all
else the preset's errors are printed. Products below 45 us, and attention below 0.1 ms, backward
0.25, show the host, and do not count; products above 1 ms heat the device, and do not count for
the ramp.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from math import exp, log
from statistics import fmean

from command_line import Parser, run_program
from program import REPOSITORY, Json, Pipesim, value_of
from rows import DATA, read_json
from tables import table

DEVICES = {"operators_h100": "h100-sxm-80gb", "operators_h200": "h200-sxm-141gb"}
MEASURED = REPOSITORY / "bench" / "gpu" / "results" / "h100_device.jsonl"
MULTIPROCESSORS = 132
TILE = 128 * 128
LONGEST_RAMP = 2500


def fit(times: Sequence[tuple[float, Callable[[int], float]]]) -> tuple[float, int, float]:
    """The rate and ramp for which seconds = work(ramp) / rate errs least, and the mean error."""

    def at(ramp: int) -> tuple[float, float]:
        logs = [log(work(ramp) / seconds) for seconds, work in times]
        return sum((one - fmean(logs)) ** 2 for one in logs), fmean(logs)

    ramp = min(range(LONGEST_RAMP + 1), key=lambda one: at(one)[0])
    rate = exp(at(ramp)[1])
    errors = [abs(work(ramp) / rate / seconds - 1) for seconds, work in times]
    return rate, ramp, fmean(errors)


def product_work(row: Json) -> Callable[[int], float]:
    m, n, k = row["m"], row["n"], row["k"]
    alone = max(1.0, MULTIPROCESSORS / (m * n / TILE))
    return lambda ramp: 2 * m * n * k * (1 + ramp / k) * alone


def attention_work(row: Json, backward: bool) -> Callable[[int], float]:
    s = row["seq"]
    flops = 2 * row["batch"] * row["heads"] * s * s * row["dim"] * (2.5 if backward else 1)
    return lambda ramp: flops * (1 + ramp / s)


def number(entry: Json) -> float:
    """Of a rate, a time or a plain number of a preset."""
    text = str(value_of(entry))
    for unit, factor in (("TFLOP/s", 1e12), ("TB/s", 1e12), ("us", 1e-6)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    return float(text)


def errors_of(kernels: Json, operators: Sequence[Json]) -> list[list[str]]:
    """The preset's."""

    def row(name: str, errors: Sequence[float]) -> list[str]:
        return [name, f"{100 * fmean(map(abs, errors)):.1f}", f"{100 * max(errors, key=abs):+.1f}"]

    rate, ramp = number(kernels["product_rate"]), int(number(kernels["product_ramp"]))
    rows = []
    for kind, faster in (("bf16", 1.0), ("fp8", number(kernels["fp8"]))):
        some = [one for one in operators if one["op"] == f"gemm_{kind}" and one["ms"] >= 0.045]
        errors = [product_work(one)(ramp) / rate / faster / one["ms"] * 1e3 - 1 for one in some]
        rows.append(row(f"{len(some)} products, {kind}", errors))
    for library in ("cudnn", "flash"):
        for way in ("forward", "backward"):
            given = kernels["attention"][library][way]
            key = f"{way}_ms"
            least = 0.1 if way == "forward" else 0.25
            some = [
                one
                for one in operators
                if one["op"] == f"attention_{library}" and one[key] >= least
            ]
            errors = [
                (
                    attention_work(one, way == "backward")(int(number(given["ramp"])))
                    / number(given["rate"])
                    + number(given["start"])
                )
                / one[key]
                * 1e3
                - 1
                for one in some
            ]
            rows.append(row(f"attention by {library}, {way}, {len(some)} shapes", errors))
    return rows


def products_of_h100(operators: Sequence[Json], kernels: Json) -> list[list[str]]:
    """What follows from the figures, and what the preset has."""
    times = [
        (one["ms"] / 1e3, product_work(one))
        for one in operators
        if one["op"] == "gemm_bf16" and 0.045 <= one["ms"] <= 1
    ]
    ramp = fit(times)[1]
    measured = [json.loads(line) for line in MEASURED.read_text().splitlines()]
    cool = next(one for one in measured if one.get("name") == "bf16 product, cool")
    rate = product_work(cool)(ramp) / (cool["ms"] / 1e3)
    hot = [one for one in measured if one.get("name") == "bf16 product, sustained"]
    long = [one for one in hot if one["k"] >= 8192]
    clock = fmean(product_work(one)(ramp) / rate / (one["ms"] / 1e3) for one in long)
    return [
        ["product_ramp", f"{ramp}", str(value_of(kernels["product_ramp"]))],
        ["product_rate", f"{rate / 1e12:.0f}TFLOP/s", str(value_of(kernels["product_rate"]))],
        ["sustained", f"{clock:.3f}", str(value_of(kernels["sustained"]))],
    ]


def main(arguments: Sequence[str]) -> int:
    given = Parser(__doc__).parse_args(arguments)
    file = read_json(DATA / "one_gpu.json")
    with Pipesim(given.pipesim) as pipesim:
        for key, name in DEVICES.items():
            kernels = pipesim.preset("devices", name)["kernels"]
            print(table([name, "mean error, %", "worst"], errors_of(kernels, file[key])) + "\n")
        kernels = pipesim.preset("devices", "h100-sxm-80gb")["kernels"]
        rows = products_of_h100(file["operators_h100"], kernels)
        print(table(["of an H100", "found", "preset"], rows))
    return 0


if __name__ == "__main__":
    run_program("kernel_rates.py", lambda: main(sys.argv[1:]))
