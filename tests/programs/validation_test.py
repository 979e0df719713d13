"""The published rows, what is made of them, and the program that compares.

PIPESIM names the program; default build/release/pipesim.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from collections import Counter, defaultdict
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

VALIDATION = Path(__file__).resolve().parents[2] / "bench" / "validation"
sys.path.insert(0, str(VALIDATION))

from ablate_software import AS_IT_IS, TERMS, Ablation  # noqa: E402
from choosing import AMONG, Choice, choices, misfits  # noqa: E402
from findings import Findings, examine  # noqa: E402
from goals import broken_bounds  # noqa: E402
from measures import measure, spans_nodes  # noqa: E402
from predictions import ErrorSummary, Outcome, summarise  # noqa: E402
from preset_files import HARDWARE, carried, with_value  # noqa: E402
from program import (  # noqa: E402
    DEFAULT_PROGRAM,
    InputError,
    Pipesim,
    Refusal,
    value_of,
    write_whole,
)
from report import validation_report  # noqa: E402
from rows import Row, Source, Use, read_json, read_products, read_rows  # noqa: E402
from software_constants import PRESETS, by_nodes, of_network  # noqa: E402
from validate import check  # noqa: E402

PROGRAM = Path(os.environ.get("PIPESIM", DEFAULT_PROGRAM))
ROWS = read_rows()

pipesim: Pipesim
findings: Findings


def setUpModule() -> None:
    global pipesim, findings
    pipesim = unittest.enterModuleContext(Pipesim(PROGRAM))
    findings = examine(pipesim)


def rows_of(source: Source) -> list[Row]:
    return [row for row in ROWS if row.source is source]


def validate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, VALIDATION / "validate.py", "--pipesim", PROGRAM, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


class Rows(unittest.TestCase):
    def test_are_all_there_with_their_use(self) -> None:
        counts: dict[Source, Counter[Use]] = defaultdict(Counter)
        for row in ROWS:
            counts[row.source][row.use] += 1
        fitted, unseen, contradicts = Use.FITTED, Use.UNSEEN, Use.CONTRADICTS
        self.assertEqual(
            counts,
            {
                Source.KORTHIKANTI_LAYERS: {fitted: 4, unseen: 6},
                Source.KORTHIKANTI: {fitted: 2, unseen: 2},
                Source.SC21: {fitted: 2, unseen: 3},
                Source.VTRAIN_MULTI_NODE: {fitted: 20, unseen: 17, contradicts: 4},
                Source.VTRAIN_SINGLE_NODE: {Use.HOST_FLOOR: 756, unseen: 684},
                Source.SIMUMAX_B200: {fitted: 12, unseen: 12},
                Source.NANOTRON: {
                    fitted: 200,
                    unseen: 206,
                    contradicts: 621,
                    Use.DID_NOT_RUN: 614,
                },
                Source.NEMO: {fitted: 5, unseen: 8},
                Source.MLPERF: {fitted: 3, unseen: 12},
                Source.MEGATRON_CORE: {fitted: 2, unseen: 3},
                Source.TORCHTITAN: {fitted: 3, unseen: 3},
                Source.BIGSCIENCE: {fitted: 23, unseen: 22, contradicts: 14},
                Source.SC21_ZERO3: {fitted: 1, unseen: 2},
            },
        )

    def test_of_b200_are_eight_splits_of_three_lengths(self) -> None:
        """A model and a split have one peak; both are of eight devices."""
        microbatches = defaultdict(list)
        peaks = Counter()
        for row in rows_of(Source.SIMUMAX_B200):
            split = (row.model.hidden_size, row.training.tensor_parallel)
            microbatches[split].append(row.microbatches)
            peaks[split] += row.published_peak_bytes is not None
            self.assertEqual(row.training.devices, 8, row.name)
            filled_up_to = 128 * row.training.tensor_parallel
            self.assertEqual(row.model.vocabulary_size % filled_up_to, 0, row.name)
            self.assertEqual(
                row.published_peak_bytes is None, row.peer_peak_bytes is None, row.name
            )
            # As the source says of itself: -11.37 to -0.18 %.
            self.assertTrue(-0.1138 < row.peer_error < -0.0017, row.name)
        self.assertEqual(len(microbatches), 8)
        for split, some in microbatches.items():
            self.assertEqual(some, [4, 8, 32])
            self.assertEqual(peaks[split], 1)

    def test_hold_together(self) -> None:
        """Heads divide the hidden size, chunks the blocks of a rank; times are of a sane size."""
        for row in ROWS:
            self.assertEqual(row.use is Use.CONTRADICTS, row.reason != "", row.name)
            self.assertEqual(row.model.hidden_size % row.model.heads, 0, row.name)
            if row.virtual_stages > 1:
                blocks = row.model.blocks // row.training.pipeline_parallel
                self.assertEqual(blocks % row.virtual_stages, 0, row.name)
            if row.nodes is not None:
                self.assertEqual(row.training.devices, 8 * row.nodes, row.name)
            if row.use is Use.DID_NOT_RUN:
                self.assertEqual(row.published_s, 0, row.name)
            else:
                self.assertTrue(0.001 < row.published_s < 600, row.name)

    def test_near_copies_are_not_divided_between_uses(self) -> None:
        """Rows that differ in depth, microbatches or replicas only are near-copies."""
        uses = defaultdict(set)
        for row in rows_of(Source.VTRAIN_SINGLE_NODE):
            training = row.training
            group = (row.model.hidden_size, training.tensor_parallel, training.micro_batch_size)
            uses[group].add(row.use)
        self.assertEqual(len(uses), 32)
        self.assertTrue(all(len(some) == 1 for some in uses.values()))

    def test_published_mfu_follows_from_the_time(self) -> None:
        """As the paper defines it."""
        compared = [row for row in ROWS if row.published_mfu is not None]
        self.assertEqual(len(compared), 2)
        for row in compared:
            h, blocks = row.model.hidden_size, row.model.blocks
            s, vocabulary = row.training.sequence_length, row.model.vocabulary_size
            batch = row.microbatches * row.training.micro_batch_size
            flops = (
                72 * batch * blocks * s * h**2 * (1 + s / (6 * h) + vocabulary / (12 * h * blocks))
            )
            mfu = flops / (312e12 * row.training.devices * row.published_s)
            self.assertAlmostEqual(mfu, row.published_mfu, delta=0.002, msg=row.name)


class Predictions(unittest.TestCase):
    def test_peak_is_of_states_kept_and_logits(self) -> None:
        """By hand: 70B on 8 tensor-parallel ranks."""
        name = "llama3_70b_l12_tp8_pp1_dp1_mbc4_cef"
        (outcome,) = (one for one in findings.outcomes if one.row.name == name)
        h, f, kv, tokens, vocabulary = 8192, 28672, 1024, 4096, 129024
        matrices = 12 * (2 * h * h + 2 * h * kv + 3 * h * f) + 2 * vocabulary * h
        parameters = matrices / 8 + 25 * h
        # Norms and products' inputs, queries, keys, values, sums of rows, gate, up and their product.
        block = tokens / 8 * (2 * (5 * h + h + 2 * kv + 3 * f) + 4 * 64)
        head = tokens / 8 * (4 * h + 4 * vocabulary)
        gradient_of_logits = tokens / 8 * 2 * vocabulary
        placeholder = 2 * (vocabulary * h / 8 + h)  # of the head's gradients
        expected = 18 * parameters + 12 * block + head + gradient_of_logits + placeholder
        self.assertAlmostEqual(outcome.peak_bytes, expected, delta=1e-6 * expected)

    def test_activation_bytes_are_exact(self) -> None:
        self.assertEqual(len(findings.bytes), 24)
        for row in findings.bytes:
            self.assertEqual(row.computed, row.closed_form, row.formula)

    def test_products_are_those_of_the_table(self) -> None:
        """One by hand: tiles of 256 x 128, whose waves are 5,120 x 16,384 / 32,768 / 108."""
        _, products = read_products()
        self.assertEqual([row.product for row in findings.products], products)
        (row,) = (one for one in findings.products if one.product.name == "4096 x 5120 x 16384")
        parts = 16 * 128 / 108
        waves = 0.49 * 19 + 0.51 * parts
        share = 0.78 * parts / waves * 5120 / (5120 + 160)
        seconds = 2 * 4096 * 5120 * 16384 / (312e12 * share) + 4e-6
        computed = 2 * 4096 * 5120 * 16384 / 312e12 / seconds
        self.assertAlmostEqual(row.computed, computed, delta=1e-5)

    def test_refuse_what_can_not_be(self) -> None:
        """Of what did not run: pipelines of more ranks than there are blocks."""
        for row in findings.refused:
            self.assertGreater(row.training.pipeline_parallel, row.model.blocks, row.name)
        count = len(findings.refused) + len(findings.failed)
        self.assertEqual(count, sum(row.use is Use.DID_NOT_RUN for row in ROWS))
        self.assertTrue(all(one.row.use is not Use.DID_NOT_RUN for one in findings.outcomes))
        with self.assertRaisesRegex(Refusal, "--stages"):
            pipesim.predict([["--stages", "none"]])
        self.assertEqual(pipesim.predict_possible([["--stages", "none"]]), [None])

    def test_of_software_are_those_of_its_base_but_for_its_own(self) -> None:
        nemo = pipesim.software("nemo", "h100-sxm-80gb")
        later = pipesim.software("nemo-2023", "h100-sxm-80gb")
        self.assertNotIn("efficiency", nemo)
        self.assertEqual(
            {key for key in later if later[key] != nemo.get(key)},
            {"efficiency", "bucket_parameters", "gathers_ahead"},
        )

    def test_of_uses_make_up_those_of_a_set(self) -> None:
        measures = measure(findings)
        self.assertEqual(measures["nanotron h100"].rows, 406)
        self.assertEqual(measures["bigscience a100"].rows, 45)
        self.assertEqual(measures["simumax b200, peak memory"].rows, 8)
        for name in ("nanotron h100", "nemo h100", "simumax b200, peak memory"):
            both = measures[f"{name}, fitted"], measures[f"{name}, unseen"]
            total = sum(one.rows * one.mean for one in both)
            self.assertAlmostEqual(total / measures[name].rows, measures[name].mean)
        apart = [name for name in measures if name.startswith("nanotron h100, contradicting")]
        self.assertEqual(sum(measures[name].rows for name in apart), 621)
        sound = [one for one in findings.of(Source.NANOTRON) if one.row.is_sound]
        over_nodes = measures["nanotron h100, pipelines over several nodes"].rows
        self.assertEqual(over_nodes, sum(map(spans_nodes, sound)))


def outcome(row: Row, measured: float, predicted: float, peak: int = 1) -> Outcome:
    """Of a layout like the row's, on a device of 10 bytes."""
    return Outcome(replace(row, published_s=measured), predicted, 0.5, peak, 10)


class Choosing(unittest.TestCase):
    def test_loses_what_the_predicted_best_takes_longer(self) -> None:
        row = next(row for row in rows_of(Source.NANOTRON) if row.use is Use.UNSEEN)
        layouts = [outcome(row, 2, 5), outcome(row, 3, 1), outcome(row, 8, 4)]
        choice = Choice("a model", 2, Use.UNSEEN, layouts)
        self.assertEqual(choice.name, "a model, 2 nodes")
        self.assertEqual((choice.chosen.row.published_s, choice.best.row.published_s), (3, 2))
        self.assertAlmostEqual(choice.loss, 0.5)
        self.assertAlmostEqual(choice.usual_loss, 0.5)

    def test_is_among_layouts_of_one_model_and_as_many_nodes(self) -> None:
        outcomes = findings.of(Source.NANOTRON)
        numbers = []
        for among in AMONG.values():
            some = choices(outcomes, among)
            numbers.append(sum(len(choice.layouts) for choice in some))
            for choice in some:
                shapes = {(one.row.model.name, one.row.nodes) for one in choice.layouts}
                self.assertEqual(shapes, {(choice.model, choice.nodes)})
                self.assertGreaterEqual(choice.loss, 0)
                self.assertTrue(all(map(among, choice.layouts)))
        self.assertEqual(numbers, [406, 697, 1018])  # 9 rows are of another batch

    def test_takes_layouts_on_the_verge_to_fit(self) -> None:
        row = rows_of(Source.NANOTRON)[0]
        some = [outcome(row, 1, 1, peak) for peak in (9, 10, 11, 30)]
        self.assertEqual([one.fits for one in some], [True, True, False, False])
        self.assertEqual(summarise(misfits(some)).mean, 0.5)


class Ablations(unittest.TestCase):
    def test_leave_out_what_a_preset_has(self) -> None:
        rows = [row for row in rows_of(Source.NEMO) if row.use is Use.UNSEEN]
        ablation = Ablation(pipesim, rows, findings.hardware[rows[0].cluster])
        as_it_is = ablation.outcomes(AS_IT_IS)
        unseen = [one for one in findings.of(Source.NEMO) if one.row.use is Use.UNSEEN]
        self.assertEqual(as_it_is, unseen)
        terms = {next(iter({**term.software, **term.matmul})): term for term in TERMS}
        for before, after in zip(as_it_is, ablation.outcomes(terms["hidden_exchange"]), strict=True):
            if before.row.training.tensor_parallel == 1:
                self.assertEqual(after.seconds, before.seconds)
            else:
                self.assertGreater(after.seconds, before.seconds)
        self.assertEqual(ablation.outcomes(terms["keeps_gathered"]), [])
        self.assertEqual(ablation.outcomes(terms["unaligned_8"]), [])

    def test_of_a_device_change_its_cluster(self) -> None:
        """Heads of 150 values are slow, those of 224 are not."""
        rows = [row for row in rows_of(Source.BIGSCIENCE) if row.use is Use.UNSEEN]
        ablation = Ablation(pipesim, rows, findings.hardware[rows[0].cluster])
        (term,) = (term for term in TERMS if "unaligned_8" in term.matmul)
        pairs = zip(ablation.outcomes(AS_IT_IS), ablation.outcomes(term), strict=True)
        for before, after in pairs:
            head = before.row.model.hidden_size // before.row.model.heads
            if head % 8 == 0:
                self.assertEqual(after.seconds, before.seconds)
            else:
                self.assertLess(after.seconds, before.seconds)


class SoftwareFits(unittest.TestCase):
    def test_are_of_values_that_presets_have(self) -> None:
        for preset in PRESETS:
            software = pipesim.software(preset.name, preset.device)
            device = pipesim.preset("devices", preset.device)
            for constant in preset.constants:
                at = {"software": software, "device": device}
                for key in constant.keys:
                    at = at[key]
                self.assertTrue(constant.least <= constant.expected <= constant.most)
                if constant.keys:
                    self.assertIn("fitted on the rows", at["source"], constant.name)
            uses = {row.use for row in rows_of(preset.source)}
            self.assertLessEqual({Use.FITTED, Use.UNSEEN}, uses)

    def test_shares_of_the_network_are_read_back(self) -> None:
        values = {"share_of_2": 0.9, "share_falls": 0.1}
        values |= {"gather_share_of_2": 0.6, "gather_share_falls": 0.25}
        software = by_nodes(values)
        for name, value in values.items():
            self.assertAlmostEqual(of_network(software, name), value, delta=1e-3)

    def test_write_nothing_but_a_value(self) -> None:
        text = '{"a": {"x": {"value": 1, "source": "b"}}, "b": {"x": {"value": [1, 2]}}}'
        changed = with_value(Path("f.json"), text, ("b", "x"), 0.25)
        self.assertEqual(changed, text.replace("[1, 2]", "0.25"))
        with self.assertRaisesRegex(InputError, "f.json: has no 'b.y'"):
            with_value(Path("f.json"), text, ("b", "y"), 1)

    def test_what_is_carried_over_is_what_it_is_from(self) -> None:
        compared = 0
        for path in sorted((HARDWARE / "software").glob("*.json")):
            file = read_json(path)
            devices = file.get("devices", {})
            sections = [("", file.get("values", {})), *devices.items()]
            for device, entries in sections:
                others = {name: values for name, values in devices.items() if name != device}
                for key, value in carried(entries, device, others):
                    self.assertEqual(value_of(entries[key]), value, f"{path.name}: {key}")
                    compared += 1
        self.assertGreater(compared, 30)


class Goodput(unittest.TestCase):
    def test_has_the_published_intervals(self) -> None:
        self.assertEqual(len(findings.goodput.intervals), 3)
        for row in findings.goodput.intervals:
            digits = 1 if row.published_minutes < 10 else 0
            self.assertEqual(round(row.daly_minutes, digits), row.published_minutes, row.mtbf)
            self.assertAlmostEqual(row.best_minutes / row.daly_minutes, 1, delta=0.01)

    def test_has_the_projected_rate_of_failures(self) -> None:
        by_devices = {row.devices: row for row in findings.goodput.failures}
        largest = by_devices[131072]
        self.assertAlmostEqual(largest.scaled_hours, largest.published_hours, delta=0.01)
        # Not in proportion, as the report says.
        smallest = by_devices[1024]
        self.assertAlmostEqual(smallest.scaled_hours / smallest.published_hours, 3.6, delta=0.1)

    def test_is_consistent_with_llama_3(self) -> None:
        """As the report says: up to restarts of 10 min."""
        job = findings.goodput.jobs[0]
        self.assertIn("Llama 3", job.name)
        shares = [result["goodput"] for result in job.results]
        self.assertEqual(findings.goodput.restarts, ["5min", "10min", "20min"])
        self.assertEqual([share > 0.9 for share in shares], [True, True, False])

    def test_shares_are_all_of_the_time(self) -> None:
        for job in findings.goodput.jobs:
            for result in job.results:
                total = result["goodput"] + sum(result["lost"].values())
                self.assertAlmostEqual(total, 1, delta=1e-12)
                self.assertLess(result["goodput_p5"], result["goodput"])
                self.assertLess(result["goodput"], result["goodput_p95"])


class Errors(unittest.TestCase):
    def test_are_summarised(self) -> None:
        errors = summarise([("a", 0.01), ("b", -0.04), ("c", 0.02), ("d", -0.01)])
        self.assertEqual(errors.rows, 4)
        self.assertAlmostEqual(errors.signed_mean, -0.005)
        self.assertAlmostEqual(errors.mean, 0.02)
        self.assertAlmostEqual(errors.median, 0.015)
        self.assertAlmostEqual(errors.worst, 0.04)
        self.assertEqual(errors.worst_name, "b")

    def test_pass_bounds_by_name(self) -> None:
        measures = {"sc21": ErrorSummary(1, 0, mean=0.031, median=0, worst=0, worst_name="row 7")}
        with tempfile.TemporaryDirectory() as folder:
            bounds = Path(folder) / "bounds.json"
            bounds.write_text('{"sc21": {"mean": 3.2}}')
            self.assertEqual(broken_bounds(measures, bounds), [])
            bounds.write_text('{"sc21": {"mean": 3.0}}')
            sentence = "sc21: mean error of 3.100 %, above its bound of 3 %; worst: row 7"
            self.assertEqual(broken_bounds(measures, bounds), [sentence])
            bounds.write_text("{}")
            self.assertEqual(len(broken_bounds(measures, bounds)), 1)


class Program(unittest.TestCase):
    def test_writes_the_same_report_twice(self) -> None:
        report = validation_report(findings, measure(findings))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.md"
            done = validate("-o", str(path))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(path.read_text(), report)
        for row in ROWS:
            if row.source not in (Source.VTRAIN_SINGLE_NODE, Source.NANOTRON):
                self.assertIn(f"| {row.name} |", report)

    def test_leaves_no_part_of_a_report_that_can_not_be_written(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.md"
            path.mkdir()
            with self.assertRaisesRegex(InputError, "report.md: cannot be written: Is a directory"):
                write_whole(path, "text")
            self.assertEqual(list(Path(folder).iterdir()), [path])
            for missing in (Path(folder) / "no" / "report.md", Path(".")):
                with self.assertRaisesRegex(InputError, "cannot be written"):
                    write_whole(missing, "text")

    def test_ends_with_1_where_a_bound_is_passed(self) -> None:
        measures = {"sc21": ErrorSummary(1, 0, mean=0.031, median=0, worst=0, worst_name="row 7")}
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()) as out:
            bounds = Path(folder) / "bounds.json"
            for bound, status in ((3.2, 0), (3.0, 1)):
                bounds.write_text(json.dumps({"sc21": {"mean": bound}}))
                with redirect_stderr(StringIO()):
                    self.assertEqual(check(measures, bounds), status)
        self.assertIn("1 measures within their bounds\nsc21: mean error of 3.100 %", out.getvalue())

    def test_refuses_in_one_sentence(self) -> None:
        for arguments, word in (
            (["--pipesim", "no/such/program"], "no/such/program"),
            (["--bound"], "--bound"),
            (["--check", "--bounds"], "not allowed"),
        ):
            done = validate(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, rf"\Avalidate\.py: .*{re.escape(word)}.*\n\Z")

    def test_refuses_data_that_are_missing(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(InputError, "korthikanti_2022.json: cannot be read"):
                read_rows(Path(folder))


if __name__ == "__main__":
    unittest.main()
