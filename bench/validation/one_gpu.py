"""What one GPU did, measured here: PyTorch's steps and pipeexec's iterations, predicted from the
device's table of kernels and the software's list of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from program import Json, Pipesim
from rows import DATA, read_json


@dataclass(frozen=True)
class OneGpuRow:
    software: str
    name: str
    measured_s: float
    predicted_s: float
    measured_peak: int
    predicted_peak: int

    @property
    def error(self) -> float:
        return self.predicted_s / self.measured_s - 1

    @property
    def peak_error(self) -> float:
        return self.predicted_peak / self.measured_peak - 1


def flags(
    pipesim: Pipesim, cluster: str, software: str, model: Json, row: Json, microbatches: int
) -> list[str]:
    return [
        *("--model", pipesim.file(model), "--cluster", cluster, "--software", software),
        *("--schedule", "1f1b", "--stages", "1", "--microbatches", str(microbatches)),
        *("--micro-batch-size", str(row["micro_batch"]), "--sequence-length", str(row["seq"])),
        *("--attention", "fused", "--precision", "bf16", "--recompute", row["recompute"]),
    ]


def step_model(row: Json) -> Json:
    """Of one of PyTorch's steps."""
    model = {
        "format": "pipesim-model",
        "version": 1,
        "name": f"{row['model']} of {row['layers']} x {row['hidden']}",
        "architecture": row["model"],
        "blocks": row["layers"],
        "hidden_size": row["hidden"],
        "heads": row["heads"],
        "mlp_size": row["ffn"],
        "vocabulary_size": row["vocab"],
        "max_sequence_length": row["seq"],
        "tied_head": False,
        "dropout": 0.0,
    }
    return model | ({"kv_heads": row["kv_heads"]} if row["model"] == "llama" else {})


def one_gpu_rows(
    pipesim: Pipesim,
    cluster: str = "dgx-h100",
    files: dict[str, str] | None = None,
    folder: Path = DATA,
) -> list[OneGpuRow]:
    """`cluster` and `files`, by the names of software: to be predicted with instead of presets."""
    file = read_json(folder / "one_gpu.json")
    files = files or {}
    asked: list[tuple[str, Json, Json, int, float, int]] = []
    for row in file["pytorch_steps"]:
        software = "pytorch-compile" if row["compile"] else "pytorch"
        measured = row["median_ms"] / 1e3
        asked.append(
            (software, step_model(row), row, row["microbatches"], measured, row["peak_bytes"])
        )
    for row in file["pipeexec_iterations"]:
        model = file["pipeexec_models"][row["model"]]
        asked.append(("pipeexec", model, row, 8, row["iteration"] / 1e9, row["peak"]))
    results = pipesim.predict(
        flags(pipesim, cluster, files.get(software, software), model, row, microbatches)
        for software, model, row, microbatches, _, _ in asked
    )
    return [
        OneGpuRow(
            software,
            f"{model['name']}, s {row['seq']}, b {row['micro_batch']}"
            + (", recomputed" if row["recompute"] == "full" else ""),
            measured,
            result["makespan_ns"] / 1e9,
            peak,
            result["peak_memory_bytes"],
        )
        for (software, model, row, _, measured, peak), result in zip(asked, results)
    ]
