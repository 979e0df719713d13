"""Tables of bench/VALIDATION.md on what pipesim plan says of published layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import fmean, median

from layouts import axes_of
from plans import COMMAND, MEASURED, Best, Place, PlannedChoice, PlannedLayout, Plans, slower
from program import InputError
from tables import percent, signed, table


def layout_cells(words: str, devices: int) -> list[str]:
    """t, p, chunks, d, b, schedule, what is recomputed, ZeRO."""
    axes = axes_of(words)
    tensor, stages = axes.get("tensor-parallel", "1"), axes["stages"]
    zero = axes.get("zero", "0")
    within = " in a node" if "shard-over" in axes else ""
    return [
        tensor,
        stages,
        axes.get("virtual-stages", "1"),
        str(devices // (int(tensor) * int(stages))),
        axes.get("micro-batch-size", "1"),
        axes["schedule"],
        axes.get("recompute", "none").replace(",", ", "),
        zero + within,
    ]


LAYOUT_HEADS = ("t", "p", "chunks", "d", "b", "schedule", "recompute", "ZeRO")


def ranks_table(layouts: Iterable[PlannedLayout], place_in: Callable[[PlannedLayout], Place]) -> str:
    """Two lines each: the layout, and the best."""
    rows = []
    for one in layouts:
        place = place_in(one)
        misfit = "" if one.fits else ", doesn't fit"
        figures = [f"{one.ns / 1e9:.2f}{misfit}", place.rank, percent(slower(one.ns, place.best), 1)]
        rows.append([one.name, *figures, *layout_cells(one.words, one.devices)])
        best = [f"{place.best.ns / 1e9:.2f}", "1", ""]
        rows.append(["best", *best, *layout_cells(place.best.words, one.devices)])
    return table(["layout", "predicted, s", "rank", "slower, %", *LAYOUT_HEADS], rows)


def ranks_summary(layouts: list[PlannedLayout], could_titles: dict[str, str]) -> str:
    """By source."""
    rows = []
    for group, could in could_titles.items():
        some = [one for one in layouts if one.group == group]
        cells = []
        for places in ([one.could for one in some], [one.all for one in some]):
            losses = [slower(one.ns, place.best) for one, place in zip(some, places)]
            first = [place.is_counted and place.faster_splits < 10 for place in places]
            cells += [f"{sum(first)} of {len(some)}", percent(fmean(losses), 1)]
            cells += [percent(max(losses), 1)]
        rows.append([group, could, *cells])
    own = ["of the first ten", "slower, mean, %", "worst, %"]
    every = ["of the first ten of all", "slower, mean, %", "worst, %"]
    return table(["layouts of", "what they could choose from", *own, *every], rows)


def chosen_table(choices: Iterable[PlannedChoice]) -> str:
    rows = []
    for one in choices:
        title = one.chosen.partition(", ")[2].partition(", ")[2]  # behind model and nodes
        end = one.narrowed_end
        if one.narrowed_loss is not None:
            end = f"{MEASURED}, {signed(one.narrowed_loss)} %"
        gains = [percent(1 - best.ns / one.chosen_ns, 1) for best in (one.narrowed, one.all)]
        best = one.all.words.replace("--schedule ", "").replace("--", "")
        figures = [str(one.layouts), str(one.fit), title, percent(one.loss, 1)]
        rows.append([one.name, *figures, gains[0], end, gains[1], best])
    heads = ["model, nodes", "measured", "fit", "chosen of these", "slower, %"]
    more = ["best of their axes: gain, %", "which was", "best of all: gain, %", "which is"]
    return table([*heads, *more], rows)


def plan_tables(plans: Plans, stale: list[str], could_titles: dict[str, str]) -> dict[str, str]:
    """Throws where the plans are not what pipesim says now."""
    if stale:
        raise InputError(f"published_plans.json is stale: {stale[0]}; run {COMMAND}")
    losses = [one.loss for one in plans.choices]
    return {
        "plans_command": COMMAND,
        "plans_summary": ranks_summary(plans.layouts, could_titles),
        "plans_could": ranks_table(plans.layouts, lambda one: one.could),
        "plans_all": ranks_table(plans.layouts, lambda one: one.all),
        "plans_choosing": chosen_table(plans.choices),
        "plans_loss": percent(fmean(losses)),
        "plans_median_loss": percent(median(losses)),
    }
