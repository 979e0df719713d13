"""Published layouts, and what a plan is asked about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from predictions import model_path
from program import InputError, Json, Pipesim
from rows import DATA, Quantity, Row, Source, read_json, read_rows, row_of

Axes = Mapping[str, str]  # values by the names of pipesim plan's axes
# Flags that a plan and a prediction have alike.
TRAINING_FLAGS = ("sequence_length", "attention", "precision", "gradient_bytes", "software_factor")


@dataclass(frozen=True)
class Group:
    """Layouts of one source."""

    title: str
    could: Axes  # what its authors could choose from
    could_title: str


@dataclass(frozen=True)
class Layout:
    group: Group
    name: str
    row: Row  # of layouts whose times are not compared, without one
    stated: Axes


def stated_axes(row: Row, unstated: Iterable[str] = ()) -> dict[str, str]:
    """But for when replicas reduce and gather."""
    training = row.training
    axes = {
        "schedule": "interleaved" if row.virtual_stages > 1 else "1f1b",
        "stages": str(training.pipeline_parallel),
        "virtual-stages": str(row.virtual_stages),
        "tensor-parallel": str(training.tensor_parallel),
        "micro-batch-size": str(training.micro_batch_size),
        "sequence-parallel": "on" if training.sequence_parallel else "off",
        "recompute": training.recompute.replace(",", "+"),
        "zero": str(training.zero),
        "shard-over": "all",
    }
    return {axis: value for axis, value in axes.items() if axis not in unstated}


def layouts_of(group: Json, rows: Sequence[Row]) -> Iterable[Layout]:
    own = Group(group["title"], group["could"], group["could_title"])
    by_name = {row.name: row for row in rows if row.source.value == group["source"]}
    for name in group["rows"]:
        yield Layout(own, name.partition(", run ")[0], by_name[name], stated_axes(by_name[name]))
    for layout in group["layouts"]:
        line = {**group["settings"], **layout, "use": "layout"}
        row = row_of(Source(group["source"]), line, line["name"], Quantity.ITERATION, 0)
        yield Layout(own, row.name, row, stated_axes(row, line.get("unstated", ())))


def read_layouts(folder: Path = DATA) -> list[Layout]:
    """All of them, in the file's order."""
    path = folder / "published_layouts.json"
    rows = read_rows(folder)
    try:
        return [one for group in read_json(path)["sets"] for one in layouts_of(group, rows)]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: lacks a key, or names a row that is not there: {error}"
        ) from error


def software_flags(pipesim: Pipesim, row: Row, usual: str) -> list[str]:
    """A plan has no flag for reductions that wait: then software of its own says so."""
    if row.training.asynchronous_reduction is not False:
        return ["--software", row.software or usual]
    file = {"format": "pipesim-software", "version": 1, "name": "waits", "title": "waits"}
    file |= {"base": row.software or usual, "values": {"hidden_reduction": 0}}
    return ["--software", pipesim.file(file)]


def question_flags(pipesim: Pipesim, row: Row, usual_software: str) -> list[str]:
    """All that a plan may not choose."""
    batch = row.microbatches * row.training.micro_batch_size * row.training.data_parallel
    flags = ["--model", model_path(pipesim, row.model), "--cluster", row.cluster]
    flags += software_flags(pipesim, row, usual_software)
    flags += ["--devices", str(row.training.devices), "--global-batch", str(batch)]
    for name in TRAINING_FLAGS:
        value = getattr(row.training, name)
        if value is not None:
            flags += [f"--{name.replace('_', '-')}", str(value)]
    return flags


def only(axes: Axes) -> list[str]:
    return [word for axis, values in axes.items() for word in ("--only", f"{axis}={values}")]


def layout_words(command: str) -> str:
    """The flags of a layout in a command that a plan prints, with layers dealt out as usual."""
    words = command[command.index("--schedule ") :].split(" ")
    if "--layout" in words:
        at = words.index("--layout")
        del words[at : at + 2]
    return " ".join(words)


def axes_of(words: str) -> dict[str, str]:
    """The values that a layout's flags give, without the defaults."""
    axes: dict[str, str] = {}
    name = ""
    for word in words.split(" "):
        if word.startswith("--"):
            name = word.removeprefix("--")
            axes[name] = "on"
        else:
            axes[name] = word
    return axes
