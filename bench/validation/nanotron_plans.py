"""The layout that pipesim plan chooses among those of nanotron that were measured."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from choosing import AMONG, OTHER_BATCH, Choice, choices
from layouts import layout_words
from plans import CONTRADICTS, DID_NOT_RUN, MEASURED, NOT_TRIED, Best, PlannedChoice
from predictions import Outcome
from rows import Row, Use

# Tensor-parallel ranks, stages, micro-batch, ZeRO: all that nanotron's layouts differ in.
Key = tuple[int, int, int, int]

# Of those that don't contradict, as the goal has it.
WHICH = AMONG["t <= 8, without contradicting rows"]
# What all of them have alike.
ALIKE = {
    "schedule": "1f1b",
    "recompute": "none",
    "shard-over": "all",
    "bucket-bytes": "off",
    "overlap-gather": "off",
}


def key_of(row: Row) -> Key:
    training = row.training
    return (
        training.tensor_parallel,
        training.pipeline_parallel,
        training.micro_batch_size,
        training.zero,
    )


def listed(values: Iterable[int]) -> str:
    return ",".join(map(str, sorted(set(values))))


def narrowings(choice: Choice) -> list[dict[str, str]]:
    """Axes with the values of the measured layouts, such that each split of work is one layout:
    tensor-parallel ranks share tokens, too, as they do in nanotron."""
    keys = [key_of(one.row) for one in choice.layouts]
    common = ALIKE | {
        "stages": listed(stages for _, stages, _, _ in keys),
        "micro-batch-size": listed(size for _, _, size, _ in keys),
    }
    wide = listed(tensor for tensor, _, _, _ in keys if tensor > 1)
    alone = listed(tensor for tensor, _, _, _ in keys if tensor == 1)
    splits = [{"tensor-parallel": wide, "sequence-parallel": "on"}] if wide else []
    splits += [{"tensor-parallel": alone, "sequence-parallel": "off"}] if alone else []
    zeros = sorted({zero for _, _, _, zero in keys})
    return [common | split | {"zero": str(zero)} for split in splits for zero in zeros]


def read_evaluated(text: str) -> dict[Key, Best]:
    """Of what `pipesim plan --csv` writes."""
    return {
        (
            int(line["tensor_parallel"]),
            int(line["stages"]),
            int(line["micro_batch_size"]),
            int(line["zero"]),
        ): Best(layout_words(line["command"]), int(line["iteration_ns"]))
        for line in csv.DictReader(io.StringIO(text))
    }


def end_of(key: Key, rows: Iterable[Row]) -> tuple[str, Row | None]:
    """What became of a layout, of all rows of a model on so many nodes."""
    for row in rows:
        if key_of(row) == key:
            if row.use is Use.DID_NOT_RUN:
                return DID_NOT_RUN, None
            return (CONTRADICTS if row.use is Use.CONTRADICTS else MEASURED), row
    return NOT_TRIED, None


def planned_choice(
    choice: Choice, evaluated: Mapping[Key, Best], everything: Best, rows: Sequence[Row]
) -> PlannedChoice:
    """`everything` is the best of all layouts; `rows` are all of the model and nodes."""
    fitting = [one for one in choice.layouts if key_of(one.row) in evaluated]
    chosen = min(fitting, key=lambda one: evaluated[key_of(one.row)].ns)
    first = min(evaluated, key=lambda key: evaluated[key].ns)
    end, measured = end_of(first, rows)
    fastest = choice.best.row.published_s
    return PlannedChoice(
        name=choice.name,
        layouts=len(choice.layouts),
        fit=len(fitting),
        chosen=chosen.row.name,
        chosen_ns=evaluated[key_of(chosen.row)].ns,
        loss=chosen.row.published_s / fastest - 1,
        narrowed=evaluated[first],
        narrowed_end=end,
        narrowed_loss=None if measured is None else measured.published_s / fastest - 1,
        all=everything,
    )


def choices_to_plan(outcomes: Iterable[Outcome]) -> list[Choice]:
    return choices(outcomes, WHICH)


def rows_of(choice: Choice, rows: Iterable[Row]) -> list[Row]:
    """All that were tried with its batch."""
    own = choice.layouts[0].row
    return [
        row
        for row in rows
        if (row.source, row.model.name, row.nodes) == (own.source, own.model.name, own.nodes)
        and row.reason != OTHER_BATCH
    ]
