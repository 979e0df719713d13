"""What commands find: the objects that they print as JSON, with its names as attributes.

Names that end in _ns are nanoseconds, in _bytes bytes, in _fraction parts of one. Where a name is a
word of Python's, an underscore follows it: `bubble_fraction.global_`. traces/FORMAT.md says what
each means.
"""

import html
import json
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from .errors import PipesimError

if TYPE_CHECKING:
    import pandas

    from .prediction import Prediction as Predict  # noqa: F401


class Record(Dict[str, Any]):
    """A JSON object: a dictionary whose keys are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            if name.endswith("_") and name[:-1] in self:
                return self[name[:-1]]
        raise AttributeError(f"there is no {name}; there are {', '.join(self)}")

    def __dir__(self) -> Any:
        return [*super().__dir__(), *self]


class BubbleFraction(Record):
    global_: float  # idle parts of ranks x makespan
    span: float  # the same, each rank from its first start to its last end


class Bubble(Record):
    warmup: int
    steady: int
    drain: int
    p2p: int


class Quantiles(Record):
    p10: int
    p50: int
    p90: int
    count: int


class Layout(Record):
    schedule: str
    stages: int
    virtual_stages: int
    tensor_parallel: int
    data_parallel: int
    micro_batch_size: int
    microbatches: int
    recompute: str
    zero: int


class Rank(Record):
    rank: int
    busy_ns: int
    bubble_ns: Bubble
    peak_activation_chunks: int


class Answer(Record):
    """A command's whole object. In a notebook it shows itself as its picture or its table."""

    table = ""  # the key of its rows
    told = ""  # what else the command printed
    _draw: Optional[Callable[[], str]] = None

    def draw_with(self, draw: Callable[[], str]) -> None:
        """Takes what draws its picture when one is asked for."""
        object.__setattr__(self, "_draw", draw)

    def __reduce__(self) -> Any:
        return type(self), (dict(self),)  # without what draws

    def rows(self) -> List[Record]:
        """Its table."""
        return self.get(self.table) or []

    def svg(self) -> str:
        """Its picture; empty if it has none."""
        return self._draw() if self._draw is not None else ""

    def to_pandas(self) -> "pandas.DataFrame":
        """Its table; objects within rows become columns such as layout.stages."""
        import pandas

        return pandas.json_normalize([dict(row) for row in self.rows()])

    def to_dict(self) -> Dict[str, Any]:
        """What --json prints."""
        return dict(self)

    def _repr_html_(self) -> str:
        verdict = f"<p>{html.escape(str(self['verdict']))}</p>" if "verdict" in self else ""
        try:
            picture = self.svg()
        except PipesimError:  # the files are there no more
            picture = ""
        return verdict + (in_page(picture) if picture else _html_table(self.rows()))


class Candidate(Record):
    command: str
    layout: Layout
    iteration_ns: int
    peak_memory_bytes: int
    mfu: float


class Plan(Answer):
    table = "top"
    devices: int
    best: Candidate
    top: List[Candidate]
    front: List[Candidate]  # less memory, more time
    memory_cap_bytes: int


class Cut(Record):
    layout: List[int]
    makespan_ns: int
    bubble_fraction: BubbleFraction
    bottleneck_ns: int
    peak_memory_bytes: int


class Partition(Answer):
    table = "parts"
    layout: List[int]  # layers of each virtual stage
    gain_fraction: float
    even: Cut
    balanced: Cut
    parts: List[Record]


class ScheduleRow(Record):
    schedule: str
    virtual_stages: int
    microbatches: int
    makespan_ns: int
    bubble_fraction: BubbleFraction
    peak_activation_chunks: int
    peak_memory_bytes: int
    on_front: bool


class Schedules(Answer):
    rows_: List[ScheduleRow]  # with compare=True

    def rows(self) -> List[Record]:
        return self.get("rows") or self.get("schedules") or []


class RootCause(Record):
    rank: int
    stage: int
    kind: str
    microbatch: Optional[int]
    effect_ns: int
    why: str


class BothSides(Record):
    predicted: Any
    measured: Any


class Compare(Answer):
    table = "root_causes"
    verdict: str
    makespan_ns: BothSides
    gap_ns: Dict[str, int]  # its parts sum up to total
    matched: int
    unmatched: BothSides
    operation_error: Record
    conformance: Record
    root_causes: List[RootCause]  # worst first
    ranks: BothSides


class Report(Answer):
    table = "ranks"
    verdict: str
    schedule: str
    stages: int
    microbatches: int
    makespan_ns: int
    iteration_ns: Quantiles
    bubble_fraction: BubbleFraction
    ranks: List[Rank]
    limits: List[Record]  # what bounds it, and what would be gained


class Changed(Record):
    flags: str
    makespan_ns: int
    predicted_ns: int
    bubble_fraction: float
    peak_memory_bytes: int
    change: float


class Whatif(Answer):
    as_it_ran: Record
    rows_: List[Changed]

    def rows(self) -> List[Record]:
        return self["rows"]


class Calibrate(Answer):
    """A costs.json: give it as costs=."""

    table = "stages"
    stages: List[Record]
    p2p: Record

    def rows(self) -> List[Record]:
        return self.get("stages") or self.get("layers") or []


class Fit(Answer):
    table = "runs"
    constants: List[Record]
    runs: List[Record]
    errors: Record


class Feed(Answer):
    table = "ranks"
    ranks: List[Record]


class Import(Answer):
    table = "approximated"
    command: str  # that predicts the same job
    missing: List[str]
    approximated: List[Record]
    without_counterpart: List[Record]
    without_effect: List[str]


class Goodput(Answer):
    table = "curve"
    goodput: float
    interval_ns: int
    best_interval_ns: int
    curve: List[Record]


def read(command: str, text: str) -> Any:
    """A command's object from its JSON."""
    kind = globals()[command.capitalize()]
    return kind(json.loads(text, object_hook=Record))


def in_page(svg: str) -> str:
    """A picture within a page: no wider than that."""
    return svg[svg.find("<svg") :].replace("<svg", '<svg style="max-width:100%;height:auto"', 1)


def _html_table(rows: List[Record]) -> str:
    columns = (
        [key for key, value in rows[0].items() if not isinstance(value, (dict, list))]
        if rows
        else []
    )
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>"
        + "".join(f"<td>{html.escape(str(row.get(column, '')))}</td>" for column in columns)
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"
