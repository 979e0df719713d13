"""Tables of bench/VALIDATION.md by device and software, and of the sets of measures.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from bands import Coverage, Kind, coverages, is_evidence, key_of
from choosing import AMONG, Choice, Fits, choices, chosen_of_all, fits_of, within_node
from findings import Findings
from measures import SETS, spans_nodes
from predictions import ErrorSummary, Outcome, peaks, summarise, times
from rows import Source, Use
from tables import peak_cells, percent, rows_table, signed, spread, table, use_title

# Iterations that were measured; the others have tables of their own.
MEASURED = (Source.KORTHIKANTI, Source.SC21, Source.VTRAIN_MULTI_NODE, *SETS)


def with_use(outcomes: Iterable[Outcome], use: Use) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.row.use is use]


def span(name: str, values: Iterable[int]) -> str:
    some = sorted(set(values))
    ends = f"{some[0]}" if len(some) == 1 else f"{some[0]} to {some[-1]}"
    return f"{name} {ends}"


def layouts_title(outcomes: Sequence[Outcome]) -> str:
    trainings = [outcome.row.training for outcome in outcomes]
    parts = [
        span("t", (one.tensor_parallel for one in trainings)),
        span("p", (one.pipeline_parallel for one in trainings)),
    ]
    chunks = {outcome.row.virtual_stages for outcome in outcomes}
    if chunks != {1}:
        parts.append(span("chunks", chunks))
    for letter, degrees in (
        ("c", [one.context_parallel for one in trainings]),
        ("e", [one.expert_parallel for one in trainings]),
    ):
        if max(degrees) > 1:
            parts.append(span(letter, degrees))
    parts.append(span("d", (one.data_parallel for one in trainings)))
    zeros = sorted({one.zero for one in trainings})
    if zeros != [0]:
        parts.append("ZeRO " + ", ".join(map(str, zeros)))
    parts.append("recompute " + ", ".join(sorted({short(one.recompute) for one in trainings})))
    parts.append(", ".join(sorted({one.precision for one in trainings})))
    return "; ".join(parts)


def short(recompute: str) -> str:
    """Of a list of operators."""
    return "some" if "," in recompute else recompute


def software_title(findings: Findings, outcomes: Iterable[Outcome]) -> str:
    titles = set()
    for outcome in outcomes:
        factor = outcome.row.training.software_factor
        more = f", factor {factor:g}" if factor not in (None, 1) else ""
        titles.add(findings.software_of(outcome.row) + more)
    return ", ".join(sorted(titles))


def by_software(findings: Findings) -> str:
    """Of the unseen rows; by devices, in the order of MEASURED."""
    rows: dict[str, list[list[str]]] = {}
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for source in MEASURED:
        for one in findings.of(source):
            device = findings.hardware[one.row.cluster].title.removeprefix("NVIDIA ")
            groups.setdefault((one.row.set_name, device), []).append(one)
    for (name, device), outcomes in groups.items():
        unseen = with_use(outcomes, Use.UNSEEN)
        counts = [
            str(len(with_use(outcomes, use))) for use in (Use.FITTED, Use.UNSEEN, Use.CONTRADICTS)
        ]
        layouts = layouts_title([one for one in outcomes if one.row.is_sound])
        figures = spread(summarise(times(unseen)), 1)
        preset = software_title(findings, outcomes)
        line = [device, name, preset, *counts, *figures, layouts]
        rows.setdefault(device, []).append(line)
    counted = ["fitted", "unseen", "contradict"]
    of_unseen = ["mean of unseen, %", "median, %", "worst, %"]
    return table(
        ["device", "rows", "preset", *counted, *of_unseen, "layouts that don't contradict"],
        [line for lines in rows.values() for line in lines],
    )


def contradicting_table(findings: Findings) -> str:
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for source in MEASURED:
        for outcome in with_use(findings.of(source), Use.CONTRADICTS):
            groups.setdefault((source.value, outcome.row.reason), []).append(outcome)
    rows = []
    for (name, reason), some in groups.items():
        errors = summarise(times(some))
        rows.append([name, reason, str(len(some)), signed(errors.signed_mean), *spread(errors, 1)])
    heads = ["rows of", "rule", "rows", "signed mean, %", "mean, %", "median, %", "worst, %"]
    return table(heads, rows)


def coverage_table(findings: Findings) -> str:
    """Shares of rows inside of bands that don't know them."""
    outcomes = [one for one in findings.outcomes if is_evidence(one.row)]
    kinds = {
        key_of(one.row): Kind(
            findings.hardware[one.row.cluster].device,
            findings.software_of(one.row),
            one.row.training.precision == "fp8",
            one.row.part.value,
        )
        for one in outcomes
    }
    lines = coverages(kinds, outcomes)
    lines.append(
        Coverage(
            "all",
            sum(one.rows for one in lines),
            sum(one.of_other_models for one in lines),
            sum(one.of_other_sets for one in lines),
        )
    )
    return table(
        ["rows of", "rows", "inside, by other models, %", "inside, by other sets, %"],
        [
            [
                one.set,
                str(one.rows),
                percent(one.of_other_models / one.rows, 0),
                percent(one.of_other_sets / one.rows, 0),
            ]
            for one in lines
        ],
    )


def left_out_table(findings: Findings) -> str:
    return table(
        ["rows of", "row", "why"],
        [[one.source.value, one.name, one.reason] for one in findings.left_out],
    )


def nanotron_table(outcomes: Iterable[Outcome]) -> str:
    """By model, nodes, and whether there is a pipeline."""
    groups: dict[tuple[str, int, bool], list[Outcome]] = {}
    for outcome in outcomes:
        row = outcome.row
        key = (row.model.name, row.nodes or 1, row.training.pipeline_parallel > 1)
        groups.setdefault(key, []).append(outcome)
    rows = []
    for (model, nodes, has_pipeline), group in sorted(groups.items()):
        some = [one for one in group if one.row.is_sound]
        counts = [str(len(some)), str(len(group) - len(some))]
        use, figures, of_peaks = "", [""] * 4, [""] * 2
        if some:
            use = use_title(some[0].row.use)
            errors, sizes = summarise(times(some)), summarise(peaks(some))
            figures = [signed(errors.signed_mean), *spread(errors, 1)]
            of_peaks = [signed(sizes.signed_mean), percent(sizes.mean, 1)]
        ranks = "p > 1" if has_pipeline else "p 1"
        rows.append([model, str(nodes), ranks, use, *counts, *figures, *of_peaks])
    heads = ["model", "nodes", "ranks", "use", "rows", "contradict", "signed mean, %"]
    more = ["mean, %", "median, %", "worst, %", "peaks, signed mean, %", "peaks, mean, %"]
    return table([*heads, *more], rows)


def choice_line(choice: Choice) -> list[str]:
    def title(outcome: Outcome) -> str:
        return outcome.row.name.partition(", ")[2].partition(", ")[2]  # behind model and nodes

    layouts = [title(choice.chosen), title(choice.best)]
    use = use_title(choice.use) if choice.use else "contradicts"
    losses = [percent(choice.loss, 1), percent(choice.usual_loss, 1)]
    return [choice.name, use, str(len(choice.layouts)), *layouts, *losses]


def choosing_summary(outcomes: Sequence[Outcome]) -> str:
    rows = []
    for title, among in AMONG.items():
        some = choices(outcomes, among)
        chosen = summarise([(one.name, one.loss) for one in some])
        usual = fmean(one.usual_loss for one in some)
        figures = [*spread(chosen, 1), chosen.worst_name, percent(usual, 1)]
        rows.append([title, str(len(some)), *figures])
    heads = ["among", "choices", "mean, %", "median, %", "worst, %", "which"]
    return table([*heads, "layout in the middle, mean, %"], rows)


def fits_table(findings: Findings, outcomes: Sequence[Outcome]) -> str:
    def line(fits: Fits) -> list[str]:
        counts = (fits.fitting, fits.not_fitting, fits.refused)
        share = percent(fits.fitting / sum(counts), 1)
        return [fits.title, str(sum(counts)), *map(str, counts), share]

    within = [one for one in outcomes if within_node(one)]
    failed_within = [one for one in findings.failed if within_node(one)]
    refused_within = [row for row in findings.refused if row.training.tensor_parallel <= 8]
    lines = [
        fits_of("ran, t <= 8", within),
        fits_of("ran, all", outcomes),
        fits_of("did not run, t <= 8", failed_within, refused_within),
        fits_of("did not run, all", findings.failed, findings.refused),
    ]
    heads = ["layouts", "all", "predicted to fit", "not to fit", "refused", "to fit, %"]
    return table(heads, map(line, lines))


def counts_table(findings: Findings, outcomes: Sequence[Outcome]) -> str:
    some = [one for one in outcomes if one.row.is_sound]
    over_nodes = sum(spans_nodes(one) for one in some)
    stalled = sum(one.row.reason == "stalls" for one in outcomes)
    not_run = len(findings.failed) + len(findings.refused)
    counts = {
        "tried": len(outcomes) + not_run,
        "did not run": not_run,
        "contradict": len(outcomes) - len(some),
        "of these, pipelines over several nodes that stalled": stalled,
        "don't contradict": len(some),
        "of these, pipelines over several nodes": over_nodes,
    }
    return table(["layouts", ""], [[title, f"{count:,}"] for title, count in counts.items()])


def nanotron_tables(findings: Findings) -> dict[str, str]:
    outcomes = findings.of(Source.NANOTRON)
    among = "t <= 8, without contradicting rows"
    heads = ["model, nodes", "use", "layouts", "predicted the fastest", "measured the fastest"]
    of_losses = ["slower, %", "layout in the middle, %"]
    firsts = chosen_of_all(outcomes, findings.failed)
    return {
        "nanotron": nanotron_table(outcomes),
        "nanotron_counts": counts_table(findings, outcomes),
        "choosing_summary": choosing_summary(outcomes),
        "choosing": table([*heads, *of_losses], map(choice_line, choices(outcomes, AMONG[among]))),
        "fits": fits_table(findings, outcomes),
        "firsts": str(len(firsts)),
        "firsts_failed": str(sum(one.row.use is Use.DID_NOT_RUN for one in firsts)),
    }


def b200_tables(findings: Findings) -> dict[str, str]:
    """Iterations and peaks of memory measured on B200, beside what SimuMax predicts."""
    outcomes = findings.of(Source.SIMUMAX_B200)
    with_peaks = [outcome for outcome in outcomes if outcome.peak_error is not None]
    time_rows, peak_rows, summary = [], [], []
    for outcome in outcomes:
        row = outcome.row
        published, predicted = f"{row.published_s * 1e3:.1f}", f"{outcome.seconds * 1e3:.1f}"
        errors = [signed(outcome.error), signed(row.peer_error)]
        time_rows.append([row.name, published, predicted, *errors, use_title(row.use)])
    for outcome in with_peaks:
        row = outcome.row
        errors = [signed(row.peer_peak_error), use_title(row.use)]
        peak_rows.append([row.name, *peak_cells(outcome), *errors])

    def line(name: str, errors: ErrorSummary) -> list[str]:
        signed_mean = signed(errors.signed_mean, 2)
        return [name, str(errors.rows), signed_mean, *spread(errors), errors.worst_name]

    for use in (Use.FITTED, Use.UNSEEN):
        title, some = use_title(use), with_use(outcomes, use)
        peer = [(one.row.name, one.row.peer_error) for one in some]
        summary += [
            line(f"time, {title}", summarise(times(some))),
            line(f"time, {title}, SimuMax", summarise(peer)),
        ]
    peer = [(one.row.name, one.row.peer_peak_error) for one in with_peaks]
    summary += [
        line("peak memory", summarise(peaks(with_peaks))),
        line("peak memory, SimuMax", summarise(peer)),
    ]
    of_times = ["measured, ms", "predicted, ms", "error, %"]
    of_peaks = ["measured, GiB", "predicted, GiB", "error, %"]
    theirs = "SimuMax's error, %"
    heads = ["errors of", "rows", "signed mean", "mean", "median", "worst", "which"]
    return {
        "b200_summary": table(heads, summary),
        "b200": table(["row", *of_times, theirs, "use"], time_rows),
        "b200_peaks": table(["row", *of_peaks, theirs, "use"], peak_rows),
    }


def set_tables(findings: Findings) -> dict[str, str]:
    whole = {
        "nemo": Source.NEMO,
        "mlperf": Source.MLPERF,
        "megatron_core": Source.MEGATRON_CORE,
        "torchtitan": Source.TORCHTITAN,
        "bigscience": Source.BIGSCIENCE,
        "zero3": Source.SC21_ZERO3,
        "dgxc": Source.DGXC,
        "dgxc_gb200": Source.DGXC_GB200,
        "llm_foundry": Source.LLM_FOUNDRY,
        "internlm": Source.INTERNLM,
        "atorch": Source.ATORCH,
        "torchtitan_a100": Source.TORCHTITAN_A100,
        "nemo_long": Source.NEMO_LONG,
        "megatron_moe": Source.MEGATRON_MOE,
    }
    return {
        "by_software": by_software(findings),
        "contradicting": contradicting_table(findings),
        "left_out": left_out_table(findings),
        "coverage": coverage_table(findings),
        **{name: rows_table(findings.of(source)) for name, source in whole.items()},
        **nanotron_tables(findings),
        **b200_tables(findings),
    }
