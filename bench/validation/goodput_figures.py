"""Published intervals of checkpoints, rates of failure and shares of time that trains, beside
what `pipesim goodput` says. Nothing here is fitted: what nobody publishes is assumed, alike for
all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from program import Json, Pipesim
from rows import read_json

NS_PER_MINUTE = 60e9
NS_PER_HOUR = 3600e9


@dataclass(frozen=True)
class IntervalRow:
    mtbf: str
    published_minutes: float
    daly_minutes: float  # by the same estimate
    best_minutes: float  # of the least expected time


@dataclass(frozen=True)
class FailureRow:
    devices: int
    published_hours: float
    scaled_hours: float  # from the job of most devices but one, by 1 / N


@dataclass(frozen=True)
class JobRow:
    name: str
    published: str
    assumed: str
    results: list[Json]  # one an assumed restart
    minutes_of_work: float | None  # where times are published, not shares


@dataclass(frozen=True)
class GoodputFigures:
    restarts: list[str]
    intervals: list[IntervalRow]
    failures: list[FailureRow]
    jobs: list[JobRow]


def interval_rows(pipesim: Pipesim, file: Json) -> list[IntervalRow]:
    rows = file["intervals"]["rows"]
    fixed = ["--restart", file["intervals"]["restart"], "--save-time", file["intervals"]["save"]]
    commands = [["goodput", "--mtbf", row["mtbf"], *fixed, "--trials", "1"] for row in rows]
    return [
        IntervalRow(
            row["mtbf"],
            row["minutes"],
            result["daly_interval_ns"] / NS_PER_MINUTE,
            result["best_interval_ns"] / NS_PER_MINUTE,
        )
        for row, result in zip(rows, pipesim.predict(commands))
    ]


def failure_rows(pipesim: Pipesim, file: Json) -> list[FailureRow]:
    published = {int(n): hours for n, hours in file["failures"]["mtbf_hours"].items()}
    base = sorted(published)[-2]
    others = [n for n in published if n != base]
    sizes = ",".join(map(str, [base, *others]))
    flags = ["--devices", sizes, "--mtbf", f"{published[base]}h", "--save-time", "10s"]
    command = ["goodput", *flags, "--restart", "10min", "--trials", "1"]
    (result,) = pipesim.predict([command])
    return [
        FailureRow(row["devices"], published[row["devices"]], row["mtbf_ns"] / NS_PER_HOUR)
        for row in sorted(result["curve"], key=lambda row: row["devices"])
    ]


def job_rows(pipesim: Pipesim, file: Json) -> list[JobRow]:
    assumed = file["assumed"]
    rows = []
    for job in file["jobs"]:
        flags = [*job["flags"], "--save-time", assumed["save"]]
        if "--iteration-time" not in flags:
            flags += ["--iteration-time", assumed["iteration"]]
        commands = [["goodput", *flags, "--restart", restart] for restart in assumed["restarts"]]
        results = pipesim.predict(commands)
        work = job.get("minutes_of_work")
        rows.append(JobRow(job["name"], job["published"], job["assumed"], results, work))
    return rows


def goodput_figures(pipesim: Pipesim, folder: Path) -> GoodputFigures:
    file = read_json(folder / "goodput.json")
    return GoodputFigures(
        restarts=file["assumed"]["restarts"],
        intervals=interval_rows(pipesim, file),
        failures=failure_rows(pipesim, file),
        jobs=job_rows(pipesim, file),
    )
