"""Published closed forms of V-shaped schedules: bubbles, and what ranks keep."""

from __future__ import annotations

from pathlib import Path

from program import Json, Pipesim
from rows import read_json
from schedule_figures import Figure, longest_span_ns

CHUNKS = 2  # a rank of a V holds


def costs(stages: int, chunks: int) -> Json:
    """A model of CHUNKS like chunks a rank, F = I = W, cut into so many a rank. A chunk
    keeps one byte until W."""
    time_ns, size = 1000 * CHUNKS // chunks, CHUNKS // chunks
    stage = {
        "forward_ns": time_ns,
        "backward_input_ns": time_ns,
        "backward_weight_ns": time_ns,
        "activation_bytes": size,
        "weight_residue_bytes": size,
    }
    return {
        "format": "pipesim-costs",
        "version": 1,
        "stages": [stage] * (stages * chunks),
        "p2p": {"latency_ns": 0},
    }


def bubble_ns(result: Json) -> int:
    return longest_span_ns(result) - result["ranks"][0]["busy_ns"]


def controllable_memory(pipesim: Pipesim, folder: Path) -> list[Figure]:
    """The bubble in parts of 1F1B's, microbatches kept, and these in parts of 1F1B's."""
    file = read_json(folder / "controllable_memory_2024.json")
    figures = []
    for row in file["rows"]:
        for p in (8, 16, 32, 64):
            m = 2 * p
            commands = [
                ["--schedule", schedule, "--stages", str(p), "--microbatches", str(m)]
                + ["--costs", pipesim.file(costs(p, chunks))]
                for schedule, chunks in ((row["schedule"], CHUNKS), ("1f1b", 1))
            ]
            own, plain = pipesim.predict(commands)
            kept = own["peak_activation_bytes"] / CHUNKS
            more, parts = row["microbatches_kept"]
            computed = [bubble_ns(own) / bubble_ns(plain), kept, kept * CHUNKS / plain["peak_activation_bytes"]]
            published = [row["bubble_of_1f1b"], (p + more) // parts, row["kept_of_1f1b"]]
            figures.append(Figure(f"{row['name']}, p {p}, m {m}", computed, published))
    return figures


def dualpipes(pipesim: Pipesim) -> list[Figure]:
    """The bubble (PP/2-1)(F&B + B - 3W) of the rank that idles longest, in microseconds, and
    PP + 1 chunks kept: of DualPipe on PP ranks, of DualPipeV on half as many. F = I, as the
    formula has it where cells are shorter than both parts."""
    figures = []
    for schedule, ranks_of in (("dualpipe", lambda stages: stages), ("dualpipe-v", lambda stages: stages // 2)):
        for forward, weight, overlapped in ((10, 10, 30), (10, 5, 25), (10, 10, 24), (12, 8, 25)):
            for stages in (4, 8, 16, 32):
                m = 2 * stages + 4 if schedule == "dualpipe" else stages + 4
                flags = {
                    "schedule": schedule,
                    "stages": ranks_of(stages),
                    "microbatches": m,
                    "forward": f"{forward}us",
                    "backward-input": f"{forward}us",
                    "backward-weight": f"{weight}us",
                    "overlapped": f"{overlapped}us",
                }
                command = [text for name, value in flags.items() for text in (f"--{name}", str(value))]
                (result,) = pipesim.predict([command])
                idle_ns = max(result["makespan_ns"] - rank["busy_ns"] for rank in result["ranks"])
                backward = forward + weight
                name = f"{schedule}, PP {stages}, m {m}, F {forward}, B {backward}, W {weight}, F&B {overlapped} us"
                computed = [idle_ns / 1e3, result["peak_activation_chunks"]]
                published = [(stages // 2 - 1) * (overlapped + backward - 3 * weight), stages + 1]
                figures.append(Figure(name, computed, published))
    return figures
