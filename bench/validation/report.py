"""bench/VALIDATION.md: the words of report.md, and tables of the findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from string import Template

from findings import Findings
from goals import Goal, goals
from goodput_figures import JobRow
from measures import Measures
from predictions import Outcome, summarise, times
from program import Json, nanoseconds, value_of
from report_plans import plan_tables
from report_sets import set_tables
from rows import DATA, Source, read_json
from schedule_figures import Figure
from tables import GIB, percent, rows_table, signed, spread, table, use_title

WORDS = Path(__file__).resolve().parent / "report.md"


def goals_table(reached: Iterable[Goal]) -> str:
    rows = []
    for goal in reached:
        word = "met" if goal.met else f"missed by {percent(goal.reached - goal.limit)}"
        limit, figure = percent(goal.limit), percent(goal.reached)
        rows.append([goal.measure, goal.statistic, limit, figure, word])
    return table(["errors of", "statistic", "goal", "reached", ""], rows)


def summary_table(measures: Measures) -> str:
    rows = []
    for name, errors in measures.items():
        which = errors.worst_name if errors.worst > 0 else ""
        rows.append([name, str(errors.rows), *spread(errors), which])
    return table(["errors of", "rows", "mean", "median", "worst", "which"], rows)


def time_title(text: str) -> str:
    """Of less than 0.1 s."""
    ns = nanoseconds(text)
    return f"{ns / 1e3:.4g} us" if ns < 1e6 else f"{ns / 1e6:.2f} ms"


def constants_table(findings: Findings, software_2021: float) -> str:
    device, software = findings.device, findings.software
    reached = device["reached"]
    host = {
        name: time_title(value_of(software[f"host_{name}"]))
        for name in ("forward", "backward", "peer")
    }
    fitted = "rows marked fitted"
    rows = [
        ("share of the peak of matrix products", value_of(device["matmul"]["peak_share"]), fitted),
        ("share of memory's rate", value_of(reached["memory_share"]), fitted),
        ("traffic of unfused attention", value_of(reached["attention_traffic"]), fitted),
        ("a message, of its sender's time", time_title(value_of(software["p2p_overhead"])), fitted),
        ("hidden part of a reduction", value_of(software["hidden_reduction"]), fitted),
        ("share of a network card's rate", value_of(findings.cluster["network"]["share"]), fitted),
        ("software factor of 2021", software_2021, "rows marked fitted of SC21"),
        (
            "shape of matrix products",
            "tiles, ramp, whole waves, accumulation",
            "shapes of SimuMax's table",
        ),
        (
            "host floor of a layer",
            f"{host['forward']} forward, {host['backward']} backward, {host['peer']} more for each peer",
            "half of vTrain's single-node groups, output of a simulator",
        ),
    ]
    return table(
        ["constant", "value", "fitted on"], [[name, str(value), on] for name, value, on in rows]
    )


def peers_table(file: Json) -> str:
    """Of other programs, as they publish them."""

    def figure(peer: Json, key: str) -> str:
        return f"{peer[key]:.2f}" if key in peer else ""

    rows = []
    for peer in file["peers"]:
        figures = [figure(peer, "mean"), figure(peer, "worst")]
        rows.append([peer["name"], peer["rows"], *figures, peer["source"]])
    return table(["simulator", "rows", "mean", "worst", "source"], rows)


def mfu_table(outcomes: Iterable[Outcome]) -> str:
    return table(
        ["row", "published MFU, %", "predicted MFU, %"],
        [
            [outcome.row.name, percent(outcome.row.published_mfu, 1), percent(outcome.mfu, 1)]
            for outcome in outcomes
            if outcome.row.published_mfu is not None
        ],
    )


def bytes_table(findings: Findings) -> str:
    return table(
        ["kept", "closed form", "shape", "closed form, bytes", "computed, bytes"],
        [
            [row.name, row.formula, row.shape, f"{row.closed_form:,}", f"{row.computed:,}"]
            for row in findings.bytes
        ],
    )


def sc21_table(findings: Findings) -> str:
    rows = []
    for outcome, at_1 in zip(findings.of(Source.SC21), findings.outcomes_at_1):
        row = outcome.row
        published, predicted = f"{row.published_s:.3f}", f"{outcome.seconds:.3f}"
        errors = [signed(outcome.error), signed(at_1.error)]
        rows.append([row.name, published, predicted, *errors, use_title(row.use)])
    heads = ["row", "published, s", "predicted, s", "error, %", "error with factor 1, %", "use"]
    return table(heads, rows)


def single_node_table(outcomes: Iterable[Outcome]) -> str:
    groups: dict[tuple[int, int, int], list[Outcome]] = {}
    for outcome in outcomes:
        training = outcome.row.training
        key = (outcome.row.model.hidden_size, training.tensor_parallel, training.micro_batch_size)
        groups.setdefault(key, []).append(outcome)
    rows = []
    for key, group in sorted(groups.items()):
        errors = summarise(times(group))
        use = use_title(group[0].row.use)
        rows.append([*map(str, key), str(errors.rows), *spread(errors, 1), use])
    return table(["h", "t", "b", "rows", "mean", "median", "worst", "use"], rows)


def figures_table(heads: Sequence[str], figures: Iterable[Figure], decimals: int) -> str:
    """Computed here / published."""
    rows = []
    for figure in figures:
        pairs = zip(figure.computed, figure.published)
        rows.append([figure.name, *(f"{a:.{decimals}f} / {b:.{decimals}f}" for a, b in pairs)])
    return table(heads, rows)


def schedule_tables(findings: Findings) -> dict[str, str]:
    of_ratios = [
        f"1F1B : {name}, {hop}" for hop in ("free", "held") for name in ("ZB-1p", "1F1B-I")
    ]
    return {
        "rates": figures_table(["run", "1F1B", "ZB-H1", "ZB-H2", "1F1B-I"], findings.rates, 4),
        "ratios": figures_table(["run", *of_ratios], findings.ratios, 3),
        "v_shapes": figures_table(
            ["schedule", "bubble / 1F1B's", "microbatches kept", "kept / 1F1B's"],
            findings.v_shapes,
            3,
        ),
        "dualpipes": figures_table(
            ["times", "longest bubble of a rank, us", "chunks kept"], findings.dualpipes, 0
        ),
        "speedups": figures_table(["network", "K 2", "K 4", "K 8"], findings.speedups, 2),
    }


def dualpipe_table(file: Json) -> str:
    keys = ("method", "bubble", "params_per_device", "activation_per_device", "devices")
    return table(
        ["schedule", "bubble", "parameters", "activations", "devices"],
        [[row[key] for key in keys] for row in file["rows"]],
    )


def job_cell(job: JobRow, result: Json) -> str:
    """The expected share, or the time that it makes, and p5 to p95 of runs."""
    shares = [result[key] for key in ("goodput", "goodput_p5", "goodput_p95")]
    if job.minutes_of_work is None:
        expected, low, high = (percent(share, 1) for share in shares)
        return f"{expected} ({low} to {high})"
    expected, high, low = (f"{job.minutes_of_work / share:.0f}" for share in shares)
    return f"{expected} min ({low} to {high})"


def goodput_tables(findings: Findings) -> dict[str, str]:
    goodput = findings.goodput
    interval_rows = [
        [row.mtbf, f"{row.published_minutes:g}", f"{row.daly_minutes:.1f}", f"{row.best_minutes:.1f}"]
        for row in goodput.intervals
    ]
    failure_rows = [
        [f"{row.devices:,}", f"{row.published_hours:g}", f"{row.scaled_hours:.2f}"]
        for row in goodput.failures
    ]
    job_rows = [
        [job.name, job.published, *(job_cell(job, one) for one in job.results), job.assumed]
        for job in goodput.jobs
    ]
    of_restarts = [f"restarts of {restart}" for restart in goodput.restarts]
    return {
        "goodput_intervals": table(
            ["mtbf", "Daly's figure, min", "his estimate here, min", "best here, min"],
            interval_rows,
        ),
        "goodput_failures": table(["devices", "published, h", "by 1 / N, h"], failure_rows),
        "goodput_jobs": table(["job", "published", *of_restarts, "assumed"], job_rows),
    }


def products_table(findings: Findings) -> str:
    """The worst."""
    shown = 10
    worst = sorted(findings.products, key=lambda row: -abs(row.error))[:shown]
    rows = []
    for row in worst:
        shares = [percent(row.product.efficiency, 1), percent(row.computed, 1)]
        use = "fitted" if row.product.fitted else "unseen"
        rows.append([row.product.name, *shares, signed(row.error), use])
    heads = ["product", "published, % of the peak", "computed", "error of the time, %", "use"]
    return table(heads, rows)


def one_gpu_table(findings: Findings) -> str:
    rows = []
    for row in findings.one_gpu:
        times = [f"{1e3 * seconds:.1f}" for seconds in (row.measured_s, row.predicted_s)]
        sizes = [f"{peak / GIB:.2f}" for peak in (row.measured_peak, row.predicted_peak)]
        rows.append(
            [row.software, row.name, *times, signed(row.error), *sizes, signed(row.peak_error)]
        )
    heads = ["software", "row", "measured, ms", "predicted, ms", "error, %"]
    return table([*heads, "peak, GiB", "predicted, GiB", "error, %"], rows)


def validation_report(findings: Findings, measures: Measures, folder: Path = DATA) -> str:
    """`folder` holds the figures that are listed but not predicted. The same findings
    give the same bytes."""
    korthikanti = findings.of(Source.KORTHIKANTI)
    software_2021 = findings.of(Source.SC21)[0].row.training.software_factor
    reached = goals(measures)
    tables = {
        "goals_met": str(sum(goal.met for goal in reached)),
        "goals_all": str(len(reached)),
        "goals": goals_table(reached),
        "summary": summary_table(measures),
        "constants": constants_table(findings, software_2021),
        "peers": peers_table(read_json(folder / "peers.json")),
        "korthikanti": rows_table(korthikanti),
        "mfu": mfu_table(korthikanti),
        "layers": rows_table(findings.of(Source.KORTHIKANTI_LAYERS), "ms", 1e3),
        "bytes": bytes_table(findings),
        "software_2021": str(software_2021),
        "sc21": sc21_table(findings),
        "multi_node": rows_table(findings.of(Source.VTRAIN_MULTI_NODE)),
        **set_tables(findings),
        **plan_tables(findings.plans, findings.stale_plans, findings.layouts),
        **schedule_tables(findings),
        **goodput_tables(findings),
        "dualpipe": dualpipe_table(read_json(folder / "dualpipe.json")),
        "product_count": str(len(findings.products)),
        "products": products_table(findings),
        "one_gpu": one_gpu_table(findings),
        "single_node": single_node_table(findings.of(Source.VTRAIN_SINGLE_NODE)),
    }
    return Template(WORDS.read_text()).substitute(tables)
