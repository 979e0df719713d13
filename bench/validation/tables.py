"""Tables in Markdown, and how figures stand in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from measures import USE_TITLES
from predictions import ErrorSummary, Outcome
from rows import Use

GIB = 1024**3


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("".join(f"| {cell} " for cell in line) + "|" for line in lines)


def percent(fraction: float, decimals: int = 2) -> str:
    return f"{100 * fraction:.{decimals}f}"


def signed(fraction: float, decimals: int = 1) -> str:
    return f"{100 * fraction:+.{decimals}f}"


def spread(errors: ErrorSummary, decimals: int = 2) -> list[str]:
    return [percent(one, decimals) for one in (errors.mean, errors.median, errors.worst)]


def use_title(use: Use) -> str:
    return USE_TITLES.get(use, "contradicts")


def rows_table(outcomes: Iterable[Outcome], unit: str = "s", scale: float = 1) -> str:
    """One a line; with peaks of memory where some are published."""
    some = list(outcomes)
    has_peaks = any(outcome.peak_error is not None for outcome in some)
    rows = []
    for outcome in some:
        row = outcome.row
        use = use_title(row.use) + (f": {row.reason}" if row.reason else "")
        figures = [f"{seconds * scale:.3f}" for seconds in (row.published_s, outcome.seconds)]
        sizes = peak_cells(outcome) if has_peaks else []
        rows.append([row.name, *figures, signed(outcome.error), *sizes, use])
    peaks = ["peak, GiB", "predicted, GiB", "error, %"] if has_peaks else []
    times = [f"published, {unit}", f"predicted, {unit}", "error, %"]
    return table(["row", *times, *peaks, "use"], rows)


def peak_cells(outcome: Outcome) -> list[str]:
    published, error = outcome.row.published_peak_bytes, outcome.peak_error
    if published is None or error is None:
        return [""] * 3
    return [f"{published / GIB:.2f}", f"{outcome.peak_bytes / GIB:.2f}", signed(error)]
