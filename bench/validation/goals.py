"""What the predictions should reach, and the bounds they must not pass."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from measures import Measures
from predictions import ErrorSummary
from program import InputError
from rows import read_json

BOUNDS = Path(__file__).resolve().parent / "bounds.json"
STATISTICS = ("mean", "median", "worst")

GOALS = (
    ("korthikanti", "mean", 0.03),
    ("korthikanti", "worst", 0.05),
    ("korthikanti layers", "worst", 0.05),
    ("sc21", "mean", 0.03),
    ("sc21", "worst", 0.07),
    ("vtrain multi-node", "mean", 0.065),
    ("vtrain multi-node", "median", 0.04),
    ("vtrain multi-node, t 1 or 8, without contradicting rows", "mean", 0.03),
    ("nemo h100, unseen", "mean", 0.055),
    ("mlperf v3.0 h100, unseen", "mean", 0.04),
    ("torchtitan h100, unseen", "mean", 0.04),
    ("nanotron h100, unseen", "mean", 0.10),
    ("choosing, t <= 8, without contradicting rows", "mean", 0.08),
    ("fits, all runs predicted not to", "mean", 0.03),
    ("bigscience a100, unseen", "mean", 0.10),
    ("sc21 zero-3, unseen", "mean", 0.10),
    ("simumax b200, unseen", "mean", 0.06),
    ("simumax b200, peak memory, unseen", "mean", 0.03),
    ("dgxc h100, bf16, unseen", "mean", 0.025),
    ("dgxc h100, fp8, unseen", "mean", 0.035),
    ("llm foundry, unseen", "mean", 0.04),
    ("internlm a100, unseen", "mean", 0.05),
    ("atorch a100, unseen", "mean", 0.04),
    ("torchtitan a100, unseen", "mean", 0.04),
    ("nemo long sequences, unseen", "mean", 0.04),
    ("dgxc h100, context parallelism, unseen", "mean", 0.08),
    ("dgxc gb200, context parallelism, unseen", "mean", 0.08),
    ("nemo long sequences, context parallelism, unseen", "mean", 0.08),
    ("dgxc h100, experts, unseen", "mean", 0.12),
    ("dgxc gb200, experts, unseen", "mean", 0.15),
    ("megatron moe, experts, unseen", "mean", 0.15),
    ("one gpu, PyTorch", "mean", 0.025),
    ("one gpu, PyTorch", "worst", 0.08),
    ("one gpu, PyTorch, peak memory", "worst", 0.06),
    ("one gpu, pipeexec", "mean", 0.035),
    ("one gpu, pipeexec", "worst", 0.10),
    ("one gpu, pipeexec, peak memory", "worst", 0.06),
    ("activation bytes", "worst", 0),
    ("bubble rates, 1F1B, ZB-H1, ZB-H2", "worst", 0.0001),
    ("V shapes, bubbles in parts of 1F1B's", "worst", 0.1),
    ("V shapes, microbatches kept", "worst", 0),
    ("DualPipe and DualPipeV, bubbles and chunks kept", "worst", 0),
    ("schedule ratios, hops that hold no device", "worst", 0.03),
    ("schedule ratios, hops that hold their senders", "worst", 0.03),
)


@dataclass(frozen=True)
class Goal:
    measure: str
    statistic: str
    limit: float  # fractions
    reached: float

    @property
    def met(self) -> bool:
        return self.reached <= self.limit


def statistic_of(errors: ErrorSummary, statistic: str) -> float:
    if statistic not in STATISTICS:
        raise InputError(f"unknown statistic '{statistic}'; known: {', '.join(STATISTICS)}")
    return getattr(errors, statistic)


def goals(measures: Measures) -> list[Goal]:
    return [
        Goal(measure, statistic, limit, statistic_of(measures[measure], statistic))
        for measure, statistic, limit in GOALS
    ]


def present_bounds(measures: Measures) -> str:
    """The errors as they are, each rounded up to a hundredth of a percent, as bounds."""
    bounds = {
        name: {
            statistic: ceil(10000 * statistic_of(errors, statistic)) / 100
            for statistic in STATISTICS
        }
        for name, errors in measures.items()
    }
    return json.dumps(bounds, indent=2) + "\n"


def broken_bounds(measures: Measures, path: Path = BOUNDS) -> list[str]:
    """A sentence for each measure that passes its bound in the file, a JSON object of
    percents by measure and statistic, and for each measure without bounds."""
    bounds = read_json(path)
    broken = []
    for name, by_statistic in bounds.items():
        if name not in measures:
            raise InputError(f"{path}: no measure is called '{name}'; see bench/VALIDATION.md")
        errors = measures[name]
        for statistic, bound in by_statistic.items():
            percent = 100 * statistic_of(errors, statistic)
            if percent > bound:
                broken.append(
                    f"{name}: {statistic} error of {percent:.3f} %, above its bound of "
                    f"{bound:g} %; worst: {errors.worst_name}"
                )
    for name in measures:
        if name not in bounds:
            broken.append(f"{name}: has no bounds in {path}; add them")
    return broken
