"""Errors of the predictions, under the names that goals and bounds know them by."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from choosing import AMONG, choices, losses, misfits, within_node
from findings import Findings
from predictions import ErrorSummary, NamedError, Outcome, peaks, summarise, times
from rows import Part, Source, Use
from schedule_figures import Figure

Measures = dict[str, ErrorSummary]

USE_TITLES = {Use.FITTED: "fitted", Use.HOST_FLOOR: "host floor", Use.UNSEEN: "unseen"}

# Iterations of other software than Megatron-LM of 2021 and 2022, and of other devices. Rows
# that contradict count by themselves, and so does each Part.
SETS = (
    Source.NANOTRON,
    Source.NEMO,
    Source.MLPERF,
    Source.MEGATRON_CORE,
    Source.TORCHTITAN,
    Source.BIGSCIENCE,
    Source.SC21_ZERO3,
    Source.SIMUMAX_B200,
    Source.DGXC,
    Source.DGXC_GB200,
    Source.LLM_FOUNDRY,
    Source.INTERNLM,
    Source.ATORCH,
    Source.TORCHTITAN_A100,
    Source.NEMO_LONG,
    Source.MEGATRON_MOE,
)
PRECISIONS = ("bf16", "fp8")


# Software that ran on one GPU here.
ONE_GPU = {"PyTorch": ("pytorch", "pytorch-compile"), "pipeexec": ("pipeexec",)}


def by_use(
    name: str,
    outcomes: Iterable[Outcome],
    errors_of: Callable[[Iterable[Outcome]], list[NamedError]] = times,
) -> Measures:
    """Of all, then of those of each use that have errors."""
    some = list(outcomes)
    parts = {name: some} | {
        f"{name}, {title}": [one for one in some if one.row.use is use]
        for use, title in USE_TITLES.items()
    }
    errors = {title: errors_of(part) for title, part in parts.items()}
    return {title: summarise(part) for title, part in errors.items() if part}


def sound(outcomes: Iterable[Outcome]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.row.is_sound]


def spans_nodes(outcome: Outcome) -> bool:
    """Whether it is a pipeline over several nodes."""
    return outcome.row.training.pipeline_parallel > 1 and (outcome.row.nodes or 1) > 1


def multi_node_measures(outcomes: list[Outcome]) -> Measures:
    name = "vtrain multi-node"

    def of_splits(some: list[Outcome], *splits: int) -> ErrorSummary:
        return summarise(times(one for one in some if one.row.training.tensor_parallel in splits))

    return {
        **by_use(name, outcomes),
        f"{name}, without contradicting rows": summarise(times(sound(outcomes))),
        f"{name}, t 1 or 8": of_splits(outcomes, 1, 8),
        f"{name}, t 1 or 8, without contradicting rows": of_splits(sound(outcomes), 1, 8),
        f"{name}, t 16, wider than a node": of_splits(sound(outcomes), 16),
    }


def of_precisions(name: str, outcomes: list[Outcome]) -> Measures:
    measures: Measures = {}
    for precision in PRECISIONS:
        some = [one for one in outcomes if one.row.training.precision == precision]
        measures |= by_use(f"{name}, {precision}", some)
    return measures


def part_measures(source: Source, part: Part, outcomes: list[Outcome]) -> Measures:
    """Of one that is not dense."""
    name = f"{source.value}, {part.value}"
    some = [one for one in sound(outcomes) if one.row.part is part]
    measures = by_use(name, some)
    if source is Source.DGXC:
        measures |= of_precisions(name, some)
    models = sorted({one.row.model.name for one in some})
    if part is Part.EXPERTS and len(models) > 1:
        for model in models:
            own = [one for one in some if one.row.model.name == model]
            measures |= by_use(f"{name}, {model}", own)
    return measures | by_use(f"{name}, peak memory", some, peaks)


def set_measures(source: Source, all_outcomes: list[Outcome]) -> Measures:
    outcomes = [one for one in all_outcomes if one.row.part is Part.DENSE]
    measures = dense_measures(source, outcomes)
    for part in (Part.CONTEXT, Part.EXPERTS):
        measures |= part_measures(source, part, all_outcomes)
    return measures


def dense_measures(source: Source, outcomes: list[Outcome]) -> Measures:
    name = source.value
    measures = by_use(name, sound(outcomes))
    if source is Source.NANOTRON:
        apart = {"one node or p 1": False, "pipelines over several nodes": True}
        for title, spans in apart.items():
            part = [one for one in sound(outcomes) if spans_nodes(one) is spans]
            measures |= by_use(f"{name}, {title}", part)
        within = [one for one in outcomes if within_node(one)]
        measures[f"{name}, all that ran with t <= 8"] = summarise(times(within))
    if source is Source.DGXC:
        measures |= of_precisions(name, sound(outcomes))
    measures |= by_use(f"{name}, peak memory", sound(outcomes), peaks)
    contradicting = [one for one in outcomes if one.row.use is Use.CONTRADICTS]
    if source is Source.NANOTRON:
        for reason in sorted({one.row.reason for one in contradicting}):
            some = [one for one in contradicting if one.row.reason == reason]
            measures[f"{name}, contradicting: {reason}"] = summarise(times(some))
    elif contradicting:
        measures[f"{name}, contradicting"] = summarise(times(contradicting))
    return measures


def choosing_measures(outcomes: list[Outcome]) -> Measures:
    """Of nanotron."""
    measures = {}
    for title, among in AMONG.items():
        some = choices(outcomes, among)
        measures[f"choosing, {title}"] = summarise(losses(some))
    ran = [one for one in outcomes if within_node(one)]
    measures["fits, runs with t <= 8 predicted not to"] = summarise(misfits(ran))
    measures["fits, all runs predicted not to"] = summarise(misfits(outcomes))
    return measures


def differences(figures: Iterable[Figure], columns: slice, relative: bool) -> list[NamedError]:
    return [
        (figure.name, (computed - published) / (published if relative else 1))
        for figure in figures
        for computed, published in zip(figure.computed[columns], figure.published[columns])
    ]


def measure(findings: Findings) -> Measures:
    measures: Measures = {}
    for source in (Source.KORTHIKANTI, Source.KORTHIKANTI_LAYERS, Source.SC21):
        measures |= by_use(source.value, findings.of(source))
    measures["sc21, software factor 1"] = summarise(times(findings.outcomes_at_1))
    measures |= multi_node_measures(findings.of(Source.VTRAIN_MULTI_NODE))
    single = "vtrain single-node, another simulator"
    measures |= by_use(single, findings.of(Source.VTRAIN_SINGLE_NODE))
    for source in SETS:
        measures |= set_measures(source, findings.of(source))
    for title, names in ONE_GPU.items():
        some = [row for row in findings.one_gpu if row.software in names]
        measures[f"one gpu, {title}"] = summarise([(row.name, row.error) for row in some])
        measures[f"one gpu, {title}, peak memory"] = summarise(
            [(row.name, row.peak_error) for row in some]
        )
    measures |= choosing_measures(findings.of(Source.NANOTRON))
    for fitted, title in ((True, "fitted"), (False, "unseen")):
        some = [row for row in findings.products if row.product.fitted is fitted]
        errors = [(row.product.name, row.error) for row in some]
        measures[f"matrix products, {title}"] = summarise(errors)
    measures["activation bytes"] = summarise(
        [(row.name, row.computed / row.closed_form - 1) for row in findings.bytes]
    )
    without_interleaved = slice(0, 3)
    measures["bubble rates, 1F1B, ZB-H1, ZB-H2"] = summarise(
        differences(findings.rates, without_interleaved, relative=False)
    )
    for hop, columns in (("no device", slice(0, 2)), ("their senders", slice(2, 4))):
        measures[f"schedule ratios, hops that hold {hop}"] = summarise(
            differences(findings.ratios, columns, relative=True)
        )
    measures["V shapes, bubbles in parts of 1F1B's"] = summarise(
        differences(findings.v_shapes, slice(0, 1), relative=False)
    )
    measures["V shapes, microbatches kept"] = summarise(
        differences(findings.v_shapes, slice(1, 2), relative=True)
    )
    measures["DualPipe and DualPipeV, bubbles and chunks kept"] = summarise(
        differences(findings.dualpipes, slice(0, 2), relative=True)
    )
    return measures
