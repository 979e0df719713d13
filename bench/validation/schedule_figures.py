"""Published figures of schedules alone, which need no cost model: bubble rates and
ratios of the zero-bubble paper, speed-ups of GPipe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from program import InputError, Json, Pipesim
from rows import read_json


@dataclass(frozen=True)
class Figure:
    name: str
    computed: list[float]  # a column each
    published: list[float]  # of the same columns


def run_name(times: Json) -> str:
    return f"{times['model']}, p {times['p']}, m {times['m']}"


def same_run(a: Json, b: Json) -> bool:
    return a["model"] == b["model"] and a["m"] == b["m"]


def interleaved_chunks(file: Json, times: Json) -> int:
    """One layer a chunk; the first rank and the last hold one layer fewer."""
    for model in file["table3_models"]:
        if model["model"] == times["model"]:
            return (model["layers"] + 2) // times["p"]
    raise InputError(f"zero_bubble_2023.json: no model {times['model']} in table3_models; add it")


def profiled_costs(times: Json, chunks: int, holds_sender: bool) -> Json:
    """Of a row of table 9: p stages alike, each cut into chunks. The paper's B is the
    input gradient. A hop takes its latency, or that time of its sender."""
    forward, backward, weight, hop = (
        round(times[key] * 1e6) for key in ("T_F", "T_B", "T_W", "T_comm")
    )
    held = hop if holds_sender else 0
    last = times["p"] * chunks - 1
    stages = [
        {
            "forward_ns": forward // chunks + (held if stage < last else 0),
            "backward_input_ns": backward // chunks + (held if stage > 0 else 0),
            "backward_weight_ns": weight // chunks,
        }
        for stage in range(last + 1)
    ]
    latency = 0 if holds_sender else hop
    return {
        "format": "pipesim-costs",
        "version": 1,
        "stages": stages,
        "p2p": {"latency_ns": latency},
    }


def profiled_runs(
    pipesim: Pipesim, file: Json, times: Json, schedules: list[str], holds_sender: bool = False
) -> list[Json]:
    commands = []
    for schedule in schedules:
        chunks = interleaved_chunks(file, times) if schedule == "interleaved" else 1
        command = ["--schedule", schedule, "--stages", str(times["p"])]
        if chunks > 1:
            command += ["--virtual-stages", str(chunks)]
        costs = pipesim.file(profiled_costs(times, chunks, holds_sender))
        commands.append(command + ["--microbatches", str(times["m"]), "--costs", costs])
    return pipesim.predict(commands)


def longest_span_ns(result: Json) -> int:
    return max(rank["last_end_ns"] - rank["first_start_ns"] for rank in result["ranks"])


def bubble_rates(pipesim: Pipesim, folder: Path) -> list[Figure]:
    """Table 5 from table 9's times: the rates of 1F1B, ZB-H1, ZB-H2 and 1F1B-I."""
    file = read_json(folder / "zero_bubble_2023.json")
    columns = {"1F1B": "1f1b", "ZB-H1": "zb-h1", "ZB-H2": "zb-h2", "1F1B-I": "interleaved"}
    figures = []
    for times in file["table9_profiled_ms"]:
        for rates in file["table5_bubble_rate"]:
            if not same_run(times, rates):
                continue
            results = profiled_runs(pipesim, file, times, list(columns.values()))
            computed = [result["bubble_fraction"]["span"] for result in results]
            figures.append(Figure(run_name(times), computed, [rates[column] for column in columns]))
    return figures


def schedule_ratios(pipesim: Pipesim, folder: Path) -> list[Figure]:
    """Table 4 by table 9's times: how many times as long 1F1B takes as ZB-1p and as
    1F1B-I, both first with hops that hold no device, then with their senders held."""
    file = read_json(folder / "zero_bubble_2023.json")
    figures = []
    for times in file["table9_profiled_ms"]:
        measured = {
            row["schedule"]: row["derived_iteration_s"]
            for row in file["table4_throughput_memory"]
            if same_run(row, times)
        }
        if not measured:
            continue
        figure = Figure(run_name(times), [], [])
        for holds_sender in (False, True):
            schedules = ["1f1b", "zb-h1", "interleaved"]
            results = profiled_runs(pipesim, file, times, schedules, holds_sender)
            plain, *others = map(longest_span_ns, results)
            figure.computed.extend(plain / other for other in others)
            figure.published.extend(
                measured["1F1B"] / measured[column] for column in ("ZB-1p", "1F1B-I")
            )
        figures.append(figure)
    return figures


def gpipe_seconds(pipesim: Pipesim, shapes: list[tuple[int, int]]) -> list[float]:
    """Of iterations whose work is cut into partitions x microbatches like parts; the
    backward computes the forward again."""
    all_forwards_ns = 3_360_000_000  # divides well
    commands = []
    for partitions, microbatches in shapes:
        forward_ns = all_forwards_ns // partitions // microbatches
        flags = {
            "schedule": "gpipe",
            "stages": partitions,
            "microbatches": microbatches,
            "forward": f"{forward_ns}ns",
            "backward-input": f"{2 * forward_ns}ns",
            "backward-weight": f"{forward_ns}ns",
        }
        commands.append(
            [text for name, value in flags.items() for text in (f"--{name}", str(value))]
        )
    return [result["makespan_ns"] / 1e9 for result in pipesim.predict(commands)]


def gpipe_speedups(pipesim: Pipesim, folder: Path) -> list[Figure]:
    """Throughput with K partitions and M microbatches against K = 2 and M = 1 of the same
    table, or M = 32 where it has no other, with partitions that are all alike."""
    file = read_json(folder / "gpipe_2019.json")
    tpu = file["table2_tpu"]
    gpu = file["table3_p100_pcie_32_microbatches"]
    rows = [
        (f"Transformer-48, TPU, M {m}", tpu["K"], tpu["Transformer-48"][f"M={m}"], m, 1)
        for m in (1, 4, 32)
    ]
    rows.append(("Transformer-24, P100, M 32", gpu["K"], gpu["Transformer-24"], 32, 32))
    figures = []
    for name, partitions, published, microbatches, least in rows:
        shapes = [(2, least)] + [(k, microbatches) for k in partitions]
        against, *seconds = gpipe_seconds(pipesim, shapes)
        figures.append(Figure(name, [against / one for one in seconds], published))
    return figures
