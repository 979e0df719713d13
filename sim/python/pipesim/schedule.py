"""Schedules: what each rank does, in order."""

import os
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _core
from .errors import PipesimError


class Schedule:
    """A schedule by name, from a file, or from one's own lists.

        Schedule("1f1b", stages=4, microbatches=8)
        Schedule("order.csv")                      # PyTorch's CSV, or a program
        Schedule([["0F0", "0B0"], ["1F0", "1B0"]]) # a list for each rank

    An action is its stage, kind and microbatch: "1B0" is the backward of virtual stage 1 for
    microbatch 0. A schedule that breaks a rule, or whose ranks wait for each other for ever, is
    refused with the place or the cycle.
    """

    def __init__(
        self,
        schedule: Union[str, "os.PathLike[str]", Sequence[Sequence[str]]],
        stages: Optional[int] = None,
        microbatches: Optional[int] = None,
        *,
        virtual_stages: Optional[int] = None,
        group: Optional[int] = None,
        placement: Union[str, Sequence[int], None] = None,
        overlap_experts: bool = False,
        name: str = "a list of actions",
    ):
        self.asked: Dict[str, Any] = {}  # of a family
        numbers = {
            "stages": stages,
            "microbatches": microbatches,
            "virtual_stages": virtual_stages,
            "group": group,
            "placement": placement,
            "overlap_experts": overlap_experts,
        }
        given = {
            key: value for key, value in numbers.items() if value is not None and value is not False
        }
        text = os.fspath(schedule) if isinstance(schedule, (str, os.PathLike)) else None
        if text is not None and "\0" in os.fsdecode(text):
            raise PipesimError(f"schedule: {text!r} has a NUL character")
        is_file = text is not None and (
            "/" in text or text.endswith((".csv", ".program")) or not isinstance(schedule, str)
        )
        if text is None or is_file:
            if given:
                raise PipesimError(f"{next(iter(given))}: lists and files have their own; omit it")
            self._core = (
                _core.read(os.fsdecode(text))
                if text is not None
                else _core.parse(_rows(schedule), str(name))
            )
            return
        for needed in ("stages", "microbatches"):
            if needed not in given:
                raise PipesimError(f"{needed} is missing: Schedule({text!r}, {needed}=...)")
        self.asked = given
        texts: Dict[str, Any] = {
            key: bool(value) if key == "overlap_experts" else _text(value)
            for key, value in given.items()
        }
        self._core = _core.family(text, **texts)

    @property
    def name(self) -> str:
        """The family's, the file's, or what was given."""
        return self._core.name

    @property
    def ranks(self) -> int:
        """How many there are."""
        return self._core.ranks

    @property
    def microbatches(self) -> int:
        """Of an iteration."""
        return self._core.microbatches

    @property
    def rank_of_stage(self) -> List[int]:
        """The rank of each virtual stage."""
        return self._core.rank_of_stage

    @property
    def rows(self) -> List[List[str]]:
        """Each rank's cells, such as "0F3"; a cell may hold several actions."""
        return self._core.rows()

    def csv(self) -> str:
        """PyTorch's CSV, one row for each rank: what its pipeline runtime executes."""
        return self._core.csv()

    def __repr__(self) -> str:
        return f"<Schedule {self.name}: {self.ranks} ranks, {self.microbatches} microbatches>"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        raise PipesimError(f"a value is needed, not {value}")
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _rows(lists: Any) -> str:
    if not isinstance(lists, (list, tuple)):
        raise PipesimError(
            f"a schedule is a name, a file or a list of lists, not a {type(lists).__name__}"
        )
    lines = []
    for rank, row in enumerate(lists):
        if isinstance(row, str) or not isinstance(row, (list, tuple)):
            raise PipesimError(
                f"rank {rank}: a list of actions such as '0F0' is expected, not {row!r}"
            )
        if not row:
            raise PipesimError(f"rank {rank}: it has no actions")
        for action in row:
            if not isinstance(action, str) or "\n" in action or "," in action:
                raise PipesimError(f"rank {rank}: {action!r} is no action such as '0F0'")
        lines.append(",".join(row))
    return "\n".join(lines) + "\n"
