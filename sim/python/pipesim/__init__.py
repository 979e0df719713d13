"""pipesim in Python: predicts, plans and explains pipeline-parallel training.

    import pipesim

    predicted = pipesim.predict(schedule="1f1b", stages=4, microbatches=8)
    predicted.makespan_ns, predicted.bubble_fraction.span

Functions are the commands of `pipesim`, keywords their flags: `help(pipesim.plan)` lists them.
Results have the names of its JSON as attributes; errors are PipesimError with its sentence.
pipesim.torch records runs of PyTorch and splits its models; pipesim.device measures a device.
"""

import importlib
from typing import TYPE_CHECKING, Any

from . import commands
from ._core import version as __version__
from .commands import (
    calibrate,
    compare,
    feed,
    fit,
    goodput,
    import_,
    partition,
    plan,
    report,
    schedules,
    whatif,
)
from .errors import PipesimError, PipesimWarning
from .prediction import Prediction, Spans
from .schedule import Schedule

if TYPE_CHECKING:
    from .commands import predict
else:
    from .prediction import predict

    predict.__doc__ = commands.predict.__doc__
    predict.__wrapped__ = commands.predict  # whose keywords are shown

__all__ = [
    "PipesimError",
    "PipesimWarning",
    "Prediction",
    "Schedule",
    "Spans",
    "__version__",
    "calibrate",
    "compare",
    "feed",
    "fit",
    "goodput",
    "import_",
    "partition",
    "plan",
    "predict",
    "report",
    "schedules",
    "whatif",
]


def __getattr__(name: str) -> Any:
    """What takes PyTorch or a trainer is imported when it is asked for."""
    if name in ("chakra", "deepspeed", "device", "megatron", "torch"):
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'pipesim' has no attribute '{name}'")
