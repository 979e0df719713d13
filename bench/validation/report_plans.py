"""Tables of bench/VALIDATION.md on what pipesim plan says of published layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import fmean, median

from layouts import Layout, axes_of
from plans import COMMAND, MEASURED, Place, PlannedChoice, PlannedLayout, Plans, slower
from program import InputError
from tables import GIB, percent, signed, table


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


def layout_title(words: str) -> str:
    """In short, without the replicas, which follow from the devices."""
    axes = axes_of(words)
    chunks = axes.get("virtual-stages", "1")
    parts = [
        axes["schedule"],
        f"t {axes.get('tensor-parallel', '1')}",
        f"p {axes['stages']}" + (f" x {chunks}" if chunks != "1" else ""),
        f"b {axes.get('micro-batch-size', '1')}",
        f"ZeRO {axes.get('zero', '0')}" + (" in a node" if "shard-over" in axes else ""),
    ]
    recompute = axes.get("recompute", "none").replace(",", " and ")
    parts += [f"{recompute} recomputed"] if recompute != "none" else []
    buckets = axes.get("bucket-bytes", "off")
    parts += [f"buckets of {buckets}"] if buckets != "off" else []
    return ", ".join(parts)


LAYOUT_HEADS = ("t", "p", "chunks", "d", "b", "schedule", "recompute", "ZeRO")


def ranks_table(
    layouts: Iterable[PlannedLayout], place_in: Callable[[PlannedLayout], Place]
) -> str:
    """Two lines each: the layout, and the best."""
    rows = []
    for one in layouts:
        place = place_in(one)
        rank = place.rank if one.fits else f"doesn't fit: {one.peak_bytes / GIB:.1f} GiB"
        figures = [f"{one.ns / 1e9:.2f}", rank, percent(slower(one.ns, place.best), 1)]
        source = one.group.partition(",")[0]
        rows.append([source, one.name, *figures, *layout_cells(one.words, one.devices)])
        best = [f"{place.best.ns / 1e9:.2f}", "1", ""]
        rows.append(["", "best", *best, *layout_cells(place.best.words, one.devices)])
    return table(["source", "layout", "predicted, s", "rank", "slower, %", *LAYOUT_HEADS], rows)


def span_of_ranks(places: Iterable[Place]) -> str:
    ordered = sorted(places, key=lambda place: place.faster_splits)
    first, last = ordered[0].rank, ordered[-1].rank
    return first if first == last else f"{first} to {last}"


def ranks_summary(layouts: list[PlannedLayout], could_titles: dict[str, str]) -> str:
    """By source, of those that fit."""
    rows = []
    for group, could in could_titles.items():
        published = [one for one in layouts if one.group == group]
        some = [one for one in published if one.fits]
        cells = [str(len(published)), str(len(some))]
        for places in ([one.could for one in some], [one.all for one in some]):
            losses = [slower(one.ns, place.best) for one, place in zip(some, places)]
            cells += [span_of_ranks(places), percent(fmean(losses), 1), percent(max(losses), 1)]
        rows.append([group, could, *cells])
    of_these = ["ranks", "slower, mean, %", "worst, %"]
    of_all = ["ranks among all", "slower, mean, %", "worst, %"]
    heads = ["layouts of", "what they could choose from", "layouts", "fit"]
    return table([*heads, *of_these, *of_all], rows)


def chosen_table(choices: Iterable[PlannedChoice]) -> str:
    rows = []
    for one in choices:
        title = one.chosen.partition(", ")[2].partition(", ")[2]  # behind model and nodes
        end = one.narrowed_end
        if one.narrowed_loss is not None:
            end = f"{MEASURED}, {signed(one.narrowed_loss)} %"
        gains = [percent(1 - best.ns / one.chosen_ns, 1) for best in (one.narrowed, one.all)]
        figures = [str(one.layouts), str(one.fit), title, percent(one.loss, 1)]
        rows.append([one.name, *figures, gains[0], end, gains[1], layout_title(one.all.words)])
    heads = ["model, nodes", "measured", "fit", "chosen of these", "slower, %"]
    more = ["best of their axes: gain, %", "which was", "best of all: gain, %", "which is"]
    return table([*heads, *more], rows)


def plan_tables(plans: Plans, stale: list[str], layouts: Iterable[Layout]) -> dict[str, str]:
    """Throws where the plans are not what pipesim says now."""
    could_titles = {one.group.title: one.group.could_title for one in layouts}
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
