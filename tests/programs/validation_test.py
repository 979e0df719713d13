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
from layouts import axes_of, layout_words, question_flags, read_layouts  # noqa: E402
from measures import measure, spans_nodes  # noqa: E402
from nanotron_plans import (  # noqa: E402
    choices_to_plan,
    end_of,
    key_of,
    narrowings,
    planned_choice,
    read_evaluated,
    rows_of as rows_of_choice,
)
from plans import Best, Place, place_of, plans_text, read_plans, stale  # noqa: E402
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
from published_plans import Planner  # noqa: E402
from report import validation_report  # noqa: E402
from report_plans import layout_cells, plan_tables, ranks_summary  # noqa: E402
from rows import Part, Row, Source, Use, read_json, read_products, read_rows  # noqa: E402
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
                Source.DGXC_GB200: {unseen: 15},
                Source.NANOTRON: {
                    fitted: 200,
                    unseen: 206,
                    contradicts: 621,
                    Use.DID_NOT_RUN: 614,
                },
                Source.NEMO: {fitted: 5, unseen: 10},
                Source.MLPERF: {fitted: 3, unseen: 12},
                Source.MEGATRON_CORE: {fitted: 2, unseen: 3},
                Source.TORCHTITAN: {fitted: 3, unseen: 6},
                Source.BIGSCIENCE: {fitted: 23, unseen: 22, contradicts: 14},
                Source.SC21_ZERO3: {fitted: 1, unseen: 2},
                Source.DGXC: {fitted: 24, unseen: 62, contradicts: 2},
                Source.LLM_FOUNDRY: {fitted: 15, unseen: 70, contradicts: 11},
                Source.INTERNLM: {fitted: 4, unseen: 14},
                Source.ATORCH: {unseen: 6},
                Source.TORCHTITAN_A100: {unseen: 4},
                Source.NEMO_LONG: {unseen: 9},
                Source.MEGATRON_MOE: {unseen: 5},
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
            chunks = row.virtual_stages * row.training.pipeline_parallel
            if row.virtual_stages > 1:  # or the embedding and the head count as layers
                layers = row.model.blocks + 2
                self.assertTrue(row.model.blocks % chunks == 0 or layers % chunks == 0, row.name)
            if row.layout:
                dealt = [int(number) for number in row.layout.split(",")]
                self.assertEqual((len(dealt), sum(dealt)), (chunks, row.model.blocks + 2))
            if row.nodes is not None:
                self.assertEqual(row.training.devices, 8 * row.nodes, row.name)
            if row.use is Use.DID_NOT_RUN:
                self.assertEqual(row.published_s, 0, row.name)
            else:
                self.assertTrue(0.001 < row.published_s < 700, row.name)

    def test_of_experts_and_of_parts_of_sequences_are_apart_and_unseen(self) -> None:
        counts: dict[Source, Counter[Part]] = defaultdict(Counter)
        for row in ROWS:
            if row.part is not Part.DENSE:
                counts[row.source][row.part] += 1
                self.assertEqual(row.use, Use.UNSEEN, row.name)
                self.assertEqual(row.part is Part.EXPERTS, row.model.experts > 1, row.name)
        self.assertEqual(
            counts,
            {
                Source.NEMO: {Part.CONTEXT: 2},
                Source.TORCHTITAN: {Part.CONTEXT: 3},
                Source.DGXC: {Part.CONTEXT: 34, Part.EXPERTS: 18},
                Source.DGXC_GB200: {Part.CONTEXT: 3, Part.EXPERTS: 6},
                Source.NEMO_LONG: {Part.CONTEXT: 6},
                Source.MEGATRON_MOE: {Part.EXPERTS: 5},
            },
        )

    def test_of_rates_have_times_by_the_sources_count(self) -> None:
        """Megatron's: 6 FLOPs a token and active parameter, attention is causal."""
        matrices = 4096 * 128 * (2 * 64 + 2 * 4) + 4096 * 128 + 8 * 3 * 4096 * 1536
        active = 94 * (matrices + 2 * 4096 + 2 * 128) + 4096 * 151936 + 4096
        published = {"GB200, t 1": 750e12, "GB200, s 131072": 1150e12}
        published |= {"H100, t 2": 245e12, "H100, FSDP": 276e12, "H100, t 4": 167e12}
        for row in rows_of(Source.MEGATRON_MOE):
            length = row.training.sequence_length
            flops = 6 * active + 3 * 94 * length * 64 * 256
            batch = row.microbatches * row.training.micro_batch_size * row.training.data_parallel
            rate = flops * batch * length / row.training.devices / row.published_s
            (printed,) = (value for key, value in published.items() if row.name.startswith(key))
            self.assertAlmostEqual(rate / printed, 1, delta=0.01, msg=row.name)

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


class PublishedLayouts(unittest.TestCase):
    def test_are_those_of_presets(self) -> None:
        """Shapes; and devices as the sources have them."""
        known = {
            "76.1B": ("megatron-76b", 1024),
            "145.6B": ("megatron-145b", 1536),
            "310.1B": ("megatron-310b", 1920),
            "529.6B": ("megatron-530b", 2520),
            "1008B": ("megatron-1t", 3072),
            "530B, present work": ("megatron-530b", 280),
            "1T, present work": ("megatron-1t", 512),
            "405B, 8,192 GPUs": ("llama-3-405b", 8192),
            "405B, 16,384 GPUs": ("llama-3-405b", 16384),
        }
        layouts = read_layouts()
        self.assertEqual(len(layouts), 20)
        for layout in layouts:
            row, training = layout.row, layout.row.training
            self.assertEqual(row.use is Use.LAYOUT, layout.name in known, layout.name)
            if row.use is not Use.LAYOUT:
                continue
            preset, devices = known[layout.name]
            file = pipesim.preset("models", preset)
            self.assertEqual(training.devices, devices, layout.name)
            usual = {"kv_heads": file["heads"], "mlp_size": 4 * file["hidden_size"]}
            for key in ("blocks", "hidden_size", "heads", "kv_heads", "mlp_size"):
                expected = file.get(key, usual.get(key))
                self.assertEqual(getattr(row.model, key), expected, f"{layout.name}: {key}")

    def test_are_asked_about_as_rows_are_predicted(self) -> None:
        """A layout that is a row, by what is asked of a plan and by what predicts the row."""
        for layout in read_layouts():
            row = layout.row
            if row.use is Use.LAYOUT or row.source is Source.MLPERF:
                continue  # whose buckets are of another size than a plan's
            flags = question_flags(pipesim, row, findings.hardware[row.cluster].software)
            for axis, value in layout.stated.items():
                is_asked = axis not in ("shard-over", "sequence-parallel") and value != "0"
                flags += [f"--{axis}", value] if is_asked else []
            flags += ["--sequence-parallel"] if row.training.sequence_parallel else []
            flags += ["--bucket-bytes", "off"] if row.training.data_parallel > 1 else []
            (outcome,) = (one for one in findings.of(row.source) if one.row == row)
            (result,) = pipesim.predict([flags])
            self.assertEqual(result["makespan_ns"] / 1e9, outcome.seconds, layout.name)

    def test_have_words(self) -> None:
        command = (
            "pipesim --model m.json --devices 64 --schedule 1f1b --stages 4 --sequence-parallel "
            "--layout 3,3,2 --zero 1"
        )
        words = layout_words(command)
        self.assertEqual(words, "--schedule 1f1b --stages 4 --sequence-parallel --zero 1")
        axes = {"schedule": "1f1b", "stages": "4", "sequence-parallel": "on", "zero": "1"}
        self.assertEqual(axes_of(words), axes)
        cells = ["1", "4", "1", "16", "1", "1f1b", "none", "1"]
        self.assertEqual(layout_cells(words, 64), cells)

    def test_have_ranks(self) -> None:
        best = {"command": "pipesim --schedule 1f1b --stages 2", "iteration_ns": 5}
        certificate = {"best": best, "faster_splits": 7, "faster_splits_counted_to": 100}
        place = place_of(certificate)
        self.assertEqual((place.rank, place.best), ("8", Best("--schedule 1f1b --stages 2", 5)))
        self.assertEqual(place_of({**certificate, "faster_splits": 100}).rank, "more than 100")
        one = replace(findings.plans.layouts[0], group="g", ns=6, could=place, all=place)
        other = replace(one, ns=10, could=Place(place.best, 100, False))
        misfit = replace(one, ns=2, fits=False)
        summary = ranks_summary([one, other, misfit], {"g": "all"})
        self.assertIn("| g | all | 3 | 2 | 8 to more than 100 | 60.0 | 100.0 | 8 | 60.0 | 100.0 |", summary)

    def test_take_the_times_that_the_file_says(self) -> None:
        self.assertEqual(findings.stale_plans, [])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plans.json"
            path.write_text(plans_text(findings.plans))
            self.assertEqual(read_plans(path), findings.plans)
        for layout in findings.plans.layouts:
            for place in (layout.could, layout.all):
                self.assertEqual(place.faster_splits == 0, layout.ns <= place.best.ns, layout.name)
            self.assertLessEqual(layout.all.best.ns, layout.could.best.ns)
            self.assertGreaterEqual(layout.all.faster_splits, layout.could.faster_splits)

    def test_are_not_shown_where_the_file_is_stale(self) -> None:
        first, *others = findings.plans.layouts
        some = (findings.layouts, ROWS, findings.hardware)
        changed = replace(findings.plans, layouts=[replace(first, ns=first.ns + 1), *others])
        (sentence,) = stale(pipesim, changed, *some)
        self.assertRegex(sentence, rf"1.7B, .*: takes {first.ns:,} ns, not {first.ns + 1:,}")
        with self.assertRaisesRegex(InputError, "is stale: .*run python3 .* --write"):
            plan_tables(changed, [sentence], findings.layouts)
        (sentence,) = stale(pipesim, replace(findings.plans, layouts=others), *some)
        self.assertIn("1.7B", sentence)


class PlannedChoices(unittest.TestCase):
    def test_agree_with_single_predictions(self) -> None:
        """Of the layouts that were measured the plan has the one first that they have."""
        some = choices_to_plan(findings.of(Source.NANOTRON))
        self.assertEqual([one.name for one in some], [one.name for one in findings.plans.choices])
        for choice, planned in zip(some, findings.plans.choices):
            self.assertEqual(planned.chosen, choice.chosen.row.name)
            self.assertEqual(planned.chosen_ns / 1e9, choice.chosen.seconds)
            self.assertEqual(planned.loss, choice.loss)
            self.assertEqual(planned.layouts, len(choice.layouts))
            self.assertEqual(planned.fit, sum(one.fits for one in choice.layouts))
            self.assertLessEqual(planned.narrowed.ns, planned.chosen_ns)
            self.assertLessEqual(planned.all.ns, planned.narrowed.ns)

    def test_are_what_plans_say(self) -> None:
        """The smallest, planned anew."""
        choice = choices_to_plan(findings.of(Source.NANOTRON))[0]
        planner = Planner(pipesim, findings.hardware)
        planned = planner.choice(choice, rows_of_choice(choice, rows_of(Source.NANOTRON)))
        self.assertEqual(planned, findings.plans.choices[0])

    def test_narrow_to_one_layout_a_split(self) -> None:
        for choice in choices_to_plan(findings.of(Source.NANOTRON)):
            for axes in narrowings(choice):
                self.assertEqual(axes["sequence-parallel"] == "off", axes["tensor-parallel"] == "1")
                for axis in ("zero", "bucket-bytes", "recompute", "schedule"):
                    self.assertNotIn(",", axes[axis])

    def test_say_what_became_of_the_best(self) -> None:
        row = next(row for row in rows_of(Source.NANOTRON) if row.use is Use.UNSEEN)
        slow, fast = (
            replace(one, row=replace(one.row, training=replace(row.training, micro_batch_size=size)))
            for one, size in ((outcome(row, 3, 1), 1), (outcome(row, 2, 1), 2))
        )
        choice = Choice("a model", 2, Use.UNSEEN, [slow, fast])
        tensor, stages, _, zero = key_of(slow.row)
        text = "iteration_ns,tensor_parallel,stages,micro_batch_size,zero,command\n" + "".join(
            f"{ns},{tensor},{stages},{size},{zero},pipesim --schedule 1f1b --stages {stages}\n"
            for ns, size in ((40, 1), (50, 2), (30, 4))
        )
        evaluated = read_evaluated(text)
        rows = [slow.row, fast.row]
        planned = planned_choice(choice, evaluated, Best("--schedule zb-h1", 20), rows)
        self.assertEqual((planned.chosen_ns, planned.loss), (40, 0.5))
        self.assertEqual((planned.narrowed.ns, planned.narrowed_end), (30, "not tried"))
        self.assertIsNone(planned.narrowed_loss)
        del evaluated[(tensor, stages, 4, zero)]
        planned = planned_choice(choice, evaluated, Best("--schedule zb-h1", 20), rows)
        self.assertEqual((planned.narrowed_end, planned.narrowed_loss), ("measured", 0.5))
        failed = replace(slow.row, use=Use.DID_NOT_RUN)
        self.assertEqual(end_of(key_of(failed), [failed]), ("did not run", None))


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
        self.assertGreater(compared, 15)


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
