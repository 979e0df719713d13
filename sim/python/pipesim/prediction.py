"""Predictions, made in this process."""

import html
import json
import os
from typing import TYPE_CHECKING, Any, Dict

from . import _core
from .answers import Record, in_page
from .errors import PipesimError, PipesimWarning

if TYPE_CHECKING:
    import numpy
    import pandas

_predictor = _core.Predictor(PipesimWarning)


class Spans:
    """When every action and transfer ran: one element each, in order of time.

    The columns are read-only numpy arrays of one element a span, views of the simulator's own
    memory. Times are nanoseconds (int64) from the start of the first iteration; `bytes` (int64) are
    a transfer's or collective's, 0 of others; `rank`, `stage`, `microbatch` and `iteration` are
    int32, a microbatch of -1 is none. `kind` indexes `kinds`.
    """

    kinds = tuple(_core.kinds)
    columns = (
        "rank",
        "iteration",
        "stage",
        "kind",
        "microbatch",
        "start_ns",
        "end_ns",
        "input_sent_ns",
        "input_arrival_ns",
        "bytes",
    )

    def __init__(self, core: Any):
        self._core = core

    def __len__(self) -> int:
        return len(self._core)

    def __getattr__(self, column: str) -> "numpy.ndarray":
        if column not in self.columns:
            raise AttributeError(f"spans have no {column}; they have {', '.join(self.columns)}")
        import numpy  # noqa: F401  # which the module takes as given

        return getattr(self._core, column)

    def __dir__(self) -> Any:
        return [*super().__dir__(), *self.columns]

    def to_pandas(self) -> "pandas.DataFrame":
        """A row for each span; kinds by name."""
        import numpy
        import pandas

        frame = pandas.DataFrame({column: getattr(self, column) for column in self.columns})
        frame["kind"] = numpy.asarray(self.kinds)[self.kind]
        return frame

    def __repr__(self) -> str:
        return f"<Spans: {len(self)} of {', '.join(self.columns)}>"


class Prediction:
    """What an iteration takes: attributes are the names of `pipesim predict --json`.

        predicted.makespan_ns             nanoseconds, from the first start to the last end
        predicted.bubble_fraction.span    of the ranks' time
        predicted.ranks[0].bubble_ns.warmup
        predicted.peak_memory_bytes       of the fullest rank

    In a notebook it shows itself as a picture.
    """

    __slots__ = ("_core", "_result", "_spans")

    def __init__(self, core: Any):
        self._core = core

    @property
    def makespan_ns(self) -> int:
        """Of one iteration, from the first start on any rank to the last end."""
        return self._core.makespan_ns

    @property
    def peak_memory_bytes(self) -> int:
        """Of the fullest rank."""
        return self._core.peak_memory_bytes

    @property
    def result(self) -> Record:
        """All of the JSON's object."""
        if not hasattr(self, "_result"):
            self._result = json.loads(self._core.json(), object_hook=Record)
        return self._result

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.result, name)

    def __dir__(self) -> Any:
        return [*super().__dir__(), *self.result]

    @property
    def spans(self) -> Spans:
        """Every action and transfer, simulated once more and kept."""
        if not hasattr(self, "_spans"):
            self._spans = Spans(self._core.spans())
        return self._spans

    def to_dict(self) -> Dict[str, Any]:
        """What --json prints."""
        return dict(self.result)

    def to_pandas(self) -> "pandas.DataFrame":
        """The spans, a row each."""
        return self.spans.to_pandas()

    def write_trace(self, path: Any) -> None:
        """A Chrome trace, for pipeview, compare and ui.perfetto.dev; compressed if it ends in .gz."""
        if "\0" in os.fsdecode(path):
            raise PipesimError(f"write_trace: {path!r} has a NUL character")
        self._core.write_trace(os.fsdecode(path))

    def svg(self) -> str:
        """The timeline as a picture."""
        return self._core.svg()

    def __repr__(self) -> str:
        result = self.result
        return (
            f"<Prediction {result.schedule}: {result.stages} stages, {result.microbatches} "
            f"microbatches, {result.makespan_ns / 1e6:.3f} ms, "
            f"{result.bubble_fraction.span:.1%} bubble>"
        )

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self)[1:-1])}</p>{in_page(self.svg())}"


def predict_texts(keywords: Dict[str, Any]) -> Any:
    """A prediction for texts, integers and switches; None if there are other values."""
    core = _predictor.predict(keywords)
    return None if core is None else Prediction(core)


def predict(**given: Any) -> Prediction:
    # The usual case at once: the function with all keywords takes longer than a small prediction.
    core = _predictor.predict(given)
    if core is not None:
        return Prediction(core)
    from . import commands

    return commands.predict(**given)
