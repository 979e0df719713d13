"""What pipesim says of the published rows, and by how much it errs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median

from program import Json, Pipesim
from rows import Model, Quantity, Row, Training


@dataclass(frozen=True)
class Outcome:
    row: Row
    seconds: float
    mfu: float
    peak_bytes: int  # what the fullest rank holds
    device_bytes: int  # what a device has

    @property
    def fits(self) -> bool:
        return self.peak_bytes <= self.device_bytes

    @property
    def error(self) -> float:
        return self.seconds / self.row.published_s - 1

    @property
    def deviation(self) -> float:
        """Of what was measured from what is predicted."""
        return self.row.published_s / self.seconds - 1

    @property
    def peak_deviation(self) -> float | None:
        """Where a peak is published."""
        published = self.row.published_peak_bytes
        return None if published is None else published / self.peak_bytes - 1

    @property
    def peak_error(self) -> float | None:
        """Where a peak is published."""
        published = self.row.published_peak_bytes
        return None if published is None else self.peak_bytes / published - 1


@dataclass(frozen=True)
class ErrorSummary:
    """Absolute errors but for the first, as fractions."""

    rows: int
    signed_mean: float
    mean: float
    median: float
    worst: float
    worst_name: str


NamedError = tuple[str, float]


def model_path(pipesim: Pipesim, model: Model) -> str:
    return pipesim.file(model.file)


def model_flags(pipesim: Pipesim, model: Model, cluster: str, training: Training) -> list[str]:
    """But for the ranks of the pipeline, which are the schedule's."""
    flags = ["--model", model_path(pipesim, model), "--cluster", cluster]
    for name, value in asdict(training).items():
        is_flag = name not in ("pipeline_parallel", "asynchronous_reduction", "exchange_overlap")
        if is_flag and value is not None and not isinstance(value, bool):
            flags += [f"--{name.replace('_', '-')}", str(value)]
    if training.sequence_parallel:
        flags.append("--sequence-parallel")
    if training.fused_loss:
        flags.append("--fused-loss")
    if training.tensor_parallel > 1 and training.exchange_overlap is not None:
        flags += ["--tensor-overlap", str(training.exchange_overlap)]
    elif training.tensor_parallel > 1 and training.asynchronous_reduction is not None:
        flags += ["--tensor-overlap", "on" if training.asynchronous_reduction else "off"]
    return flags


def command_of(pipesim: Pipesim, row: Row) -> list[str]:
    """Iterations run 1F1B, interleaved where a rank holds several chunks."""
    schedule = "interleaved" if row.virtual_stages > 1 else "1f1b"
    command = ["--schedule", schedule, "--stages", str(row.training.pipeline_parallel)]
    if row.virtual_stages > 1:
        command += ["--virtual-stages", str(row.virtual_stages)]
    command += ["--microbatches", str(row.microbatches), "--explain"]
    if row.software:
        command += ["--software", row.software]
    if row.layout:
        command += ["--layout", row.layout]
    return command + model_flags(pipesim, row.model, row.cluster, row.training)


def layer_of(result: Json, name: str) -> Json:
    return next(layer for layer in result["explanation"]["layers"] if layer["name"] == name)


def outcome_of(row: Row, result: Json) -> Outcome:
    nanoseconds = result["makespan_ns"]
    if row.quantity is not Quantity.ITERATION:
        nanoseconds = sum(layer_of(result, "block")[f"{row.quantity.value}_ns"].values())
    return Outcome(
        row=row,
        seconds=nanoseconds / 1e9,
        mfu=result["mfu"],
        peak_bytes=result["peak_memory_bytes"],
        device_bytes=result["explanation"]["memory_bytes"],
    )


def predict_rows(pipesim: Pipesim, rows: Sequence[Row]) -> list[Outcome]:
    results = pipesim.predict([command_of(pipesim, row) for row in rows])
    return [outcome_of(row, result) for row, result in zip(rows, results)]


def predict_possible(pipesim: Pipesim, rows: Sequence[Row]) -> list[Outcome | None]:
    """With nothing for rows that pipesim refuses."""
    results = pipesim.predict_possible([command_of(pipesim, row) for row in rows])
    return [
        None if result is None else outcome_of(row, result) for row, result in zip(rows, results)
    ]


def summarise(errors: Sequence[NamedError]) -> ErrorSummary:
    """The worst is the last of those that err as much; there is at least one error."""
    sizes = [abs(error) for _, error in errors]
    worst_name, worst = max(reversed(errors), key=lambda named: abs(named[1]))
    return ErrorSummary(
        rows=len(errors),
        signed_mean=fmean(error for _, error in errors),
        mean=fmean(sizes),
        median=median(sizes),
        worst=abs(worst),
        worst_name=worst_name,
    )


def times(outcomes: Iterable[Outcome]) -> list[NamedError]:
    return [(outcome.row.name, outcome.error) for outcome in outcomes]


def peaks(outcomes: Iterable[Outcome]) -> list[NamedError]:
    """Of those whose peaks of memory are published."""
    return [
        (outcome.row.name, error)
        for outcome in outcomes
        if (error := outcome.peak_error) is not None
    ]
