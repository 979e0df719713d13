"""How good a choice of layout predictions make, and what fits, on runs of nanotron.

Of one model on some nodes many layouts ran. Who takes the one that is predicted to be the
fastest loses what it was measured slower than the one measured fastest. Of layouts that did
not run it isn't published whether they crashed or ran out of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from predictions import NamedError, Outcome
from rows import Row, Use

NODE = 8  # devices
# Their times are of another batch than the others'.
OTHER_BATCH = "batch"


@dataclass(frozen=True)
class Choice:
    """Of the layouts of a model on so many nodes."""

    model: str
    nodes: int
    use: Use | None  # of its rows that don't contradict, where it has some
    layouts: list[Outcome]

    @property
    def name(self) -> str:
        return f"{self.model}, {self.nodes} {'node' if self.nodes == 1 else 'nodes'}"

    @property
    def chosen(self) -> Outcome:
        """What is predicted to be the fastest."""
        return min(self.layouts, key=lambda one: one.seconds)

    @property
    def best(self) -> Outcome:
        """What was measured to be."""
        return min(self.layouts, key=lambda one: one.row.published_s)

    @property
    def loss(self) -> float:
        return self.chosen.row.published_s / self.best.row.published_s - 1

    @property
    def usual_loss(self) -> float:
        """Of the layout in the middle."""
        middle = median(one.row.published_s for one in self.layouts)
        return middle / self.best.row.published_s - 1


def within_node(outcome: Outcome) -> bool:
    return outcome.row.training.tensor_parallel <= NODE


def same_batch(outcome: Outcome) -> bool:
    return outcome.row.reason != OTHER_BATCH


# What layouts are chosen among, of those that ran.
AMONG: dict[str, Callable[[Outcome], bool]] = {
    "t <= 8, without contradicting rows": lambda one: one.row.is_sound and within_node(one),
    "all that ran with t <= 8": lambda one: same_batch(one) and within_node(one),
    "all that ran": same_batch,
}


def choices(outcomes: Iterable[Outcome], among: Callable[[Outcome], bool]) -> list[Choice]:
    """By model, then nodes; those with one layout leave no choice."""
    groups: dict[tuple[str, int], list[Outcome]] = {}
    uses: dict[tuple[str, int], Use] = {}
    for outcome in outcomes:
        key = (outcome.row.model.name, outcome.row.nodes or 1)
        if outcome.row.is_sound:
            uses[key] = outcome.row.use
        if among(outcome):
            groups.setdefault(key, []).append(outcome)
    return [
        Choice(*key, uses.get(key), groups[key]) for key in sorted(groups) if len(groups[key]) > 1
    ]


def losses(some: Iterable[Choice]) -> list[NamedError]:
    return [(choice.name, choice.loss) for choice in some]


def misfits(outcomes: Iterable[Outcome]) -> list[NamedError]:
    """1 for each that ran and is predicted not to fit, 0 for the others: the mean is
    their share."""
    return [(outcome.row.name, 0.0 if outcome.fits else 1.0) for outcome in outcomes]


@dataclass(frozen=True)
class Fits:
    """Layouts by what is predicted of them."""

    title: str
    fitting: int
    not_fitting: int
    refused: int


def fits_of(title: str, outcomes: Sequence[Outcome], refused: Sequence[Row] = ()) -> Fits:
    fitting = sum(outcome.fits for outcome in outcomes)
    return Fits(title, fitting, len(outcomes) - fitting, len(refused))


def chosen_of_all(ran: Iterable[Outcome], failed: Iterable[Outcome]) -> list[Outcome]:
    """Of each model and number of nodes the fastest by prediction of those with t <= 8 that
    are predicted to fit, whether they ran or not."""
    groups: dict[tuple[str, int], list[Outcome]] = {}
    for outcome in (*ran, *failed):
        if within_node(outcome) and same_batch(outcome) and outcome.fits:
            key = (outcome.row.model.name, outcome.row.nodes or 1)
            groups.setdefault(key, []).append(outcome)
    return [min(some, key=lambda one: one.seconds) for _, some in sorted(groups.items())]
