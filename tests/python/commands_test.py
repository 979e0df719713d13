"""The other commands: their JSON with types, their tables and pictures, their errors."""

import copy
import inspect
import json
import pathlib
import pickle
import typing

import pytest

import pipesim
from pipesim import PipesimError, answers

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def run():
    return pipesim.predict(schedule="1f1b", stages=4, microbatches=8, forward="1ms,1ms,1.5ms,1ms")


@pytest.fixture(scope="module")
def found(run):
    """An answer of every command."""
    predicted = pipesim.predict(schedule="1f1b", stages=4, microbatches=8)
    model = dict(model="gpt2-small", cluster="dgx-a100")
    return {
        "compare": pipesim.compare(predicted, run),
        "report": pipesim.report(run),
        "whatif": pipesim.whatif(run, scale="F@stage2=0.5"),
        "calibrate": pipesim.calibrate(run),
        "partition": pipesim.partition(**model, schedule="1f1b", stages=2, microbatches=4),
        "plan": pipesim.plan(**model, devices=8, global_batch=64),
        "schedules": pipesim.schedules(compare=True, stages=4, microbatches=8),
        "fit": pipesim.fit(EXAMPLES / "fit" / "bigscience.csv", cluster="dgx-a100"),
        "import": pipesim.import_(
            EXAMPLES / "import" / "megatron_gpt3.sh", cluster="dgx-h100", devices=64
        ),
        "goodput": pipesim.goodput(
            iteration_time="50ms", mtbf="3s", restart="200ms", save_time="5ms"
        ),
        "feed": pipesim.feed(model="dlrm-mini", cluster="dgx-a100", ranks=2, batches=4),
    }


def test_every_command_is_a_function(found):
    commands = {
        name
        for name, value in vars(pipesim.commands).items()
        if inspect.isfunction(value) and value.__module__ == "pipesim.commands"
    }
    assert commands == {name.rstrip("_") if name != "import" else "import_" for name in found} | {
        "predict"
    }


def check(record, path=""):
    """That what a class declares is there, with its type."""
    for name, kind in typing.get_type_hints(type(record), vars(answers)).items():
        if name in ("table", "told", "_draw"):
            continue
        key = name if name in record else name.rstrip("_")
        assert key in record, f"{path}.{key} of {type(record).__name__} is not in the JSON"
        check_value(record[key], kind, f"{path}.{key}")


def check_value(value, kind, path):
    origin = typing.get_origin(kind)
    if kind is typing.Any or origin is dict:
        return
    if origin is list:
        assert isinstance(value, list), path
        for one in value[:3]:
            check_value(one, typing.get_args(kind)[0], path)
    elif origin is typing.Union:
        if value is not None:
            check_value(value, typing.get_args(kind)[0], path)
    elif isinstance(kind, type) and issubclass(kind, answers.Record):
        check(kind(value), path)
    else:
        assert isinstance(value, (int, float) if kind is float else kind), path


@pytest.mark.parametrize(
    "command",
    [
        "compare",
        "report",
        "whatif",
        "calibrate",
        "partition",
        "plan",
        "schedules",
        "fit",
        "import",
        "goodput",
        "feed",
    ],
)
def test_types_are_true(found, command):
    answer = found[command]
    assert type(answer).__name__.lower() == command
    check(answer, command)
    assert answer.rows(), "its table is empty"
    assert all(not hasattr(dict, key) for key in answer), "a name hides a dictionary's method"
    json.dumps(answer)


def test_tables_and_pictures(found):
    pandas = pytest.importorskip("pandas")
    plan = found["plan"].to_pandas()
    assert isinstance(plan, pandas.DataFrame)
    assert plan["layout.stages"][0] == found["plan"].best.layout.stages
    assert found["compare"].to_pandas()["rank"][0] == found["compare"].root_causes[0].rank
    for command in ("compare", "report", "schedules"):
        assert "<svg" in found[command]._repr_html_(), command
    assert "<table>" in found["whatif"]._repr_html_()


def test_compare_finds_the_slow_stage(found):
    cause = found["compare"].root_causes[0]
    assert (cause.rank, cause.kind) == (2, "F")
    gap = found["compare"].gap_ns
    assert sum(value for key, value in gap.items() if key != "total") == gap.total
    assert "/tmp" not in json.dumps(found["compare"])


def test_calibrated_costs_predict_the_run(run, found):
    again = pipesim.predict(schedule="1f1b", stages=4, microbatches=8, costs=found["calibrate"])
    assert again.makespan_ns == run.makespan_ns
    assert "Calibrated from" in found["calibrate"].told


def test_files_and_predictions_are_alike(run, found, tmp_path):
    run.write_trace(tmp_path / "run.json.gz")
    by_file = pipesim.report(tmp_path / "run.json.gz")
    assert by_file.ranks == found["report"].ranks


@pytest.mark.parametrize(
    "call, sentence",
    [
        (
            lambda: pipesim.plan(model="gpt9", cluster="dgx-a100", devices=8, global_batch=64),
            "gpt9",
        ),
        (lambda: pipesim.plan(devices=8), "global_batch is missing"),
        (lambda: pipesim.compare("nowhere.json", "nowhere.json"), "nowhere.json"),
        (
            lambda: pipesim.whatif(pipesim.predict(schedule="1f1b", stages=2, microbatches=2)),
            "name a change",
        ),
        (lambda: pipesim.fit("--help", cluster="dgx-h100"), "--help"),
        (lambda: pipesim.report(), "trace"),
        (lambda: pipesim.report("t.json", figure=""), "figure: a value is needed, not an empty"),
        (lambda: pipesim.report("t.json", figure=True), "figure: a value is needed, not True"),
        (lambda: pipesim.calibrate({"no": "trace"}), "traces: a dict is no text"),
        (lambda: pipesim.partition(schedule="1f1b", stages=2, microbatches=4, costs={}), "costs"),
    ],
)
def test_errors_are_sentences(call, sentence):
    with pytest.raises(PipesimError, match=sentence) as raised:
        call()
    assert "\n" not in str(raised.value) and "/pipesim-" not in str(raised.value)


def test_flags_that_repeat_are_lists():
    model = dict(model="gpt2-small", cluster="dgx-a100", devices=8, global_batch=64)
    plan = pipesim.plan(**model, only=["stages=2", "zero=1"])
    assert (plan.best.layout.stages, plan.best.layout.zero) == (2, 1)
    assert pipesim.plan(**model, only="stages=2").best.layout.stages == 2
    with pytest.raises(PipesimError, match='like "--schedule 1f1b'):
        pipesim.plan(**model, why="stages=2")


def test_answers_are_values(found):
    assert pickle.loads(pickle.dumps(found["report"])) == found["report"]
    assert copy.deepcopy(found["compare"]).verdict == found["compare"].verdict


def test_an_export_is_told():
    plan = pipesim.plan(
        model="llama-3-8b", cluster="dgx-h100", devices=16, global_batch=64, export="torchtitan"
    )
    assert "[parallelism]" in plan.told and plan.best.layout.stages


def test_pictures_come_from_where_the_call_was(run, tmp_path, monkeypatch):
    run.write_trace(tmp_path / "run.json")
    monkeypatch.chdir(tmp_path)
    report = pipesim.report("run.json")
    monkeypatch.chdir("/")
    assert "<svg" in report.svg()
    (tmp_path / "run.json").unlink()
    assert "<table>" in report._repr_html_()
    assert "<table>" in pipesim.schedules()._repr_html_()


def test_help_names_every_keyword():
    for name in pipesim.__all__:
        function = getattr(pipesim, name)
        if not inspect.isfunction(function):
            continue
        for parameter in inspect.signature(function).parameters:
            assert f" {parameter}: " in function.__doc__, (name, parameter)


def test_a_missing_program_is_said(monkeypatch):
    monkeypatch.setattr("pipesim.program._here", pathlib.Path("/nowhere/at/all"))
    monkeypatch.delenv("PIPESIM", raising=False)
    with pytest.raises(PipesimError, match="the program pipesim is missing"):
        pipesim.plan(model="gpt2-small", cluster="dgx-a100", devices=8, global_batch=64)


def test_the_entry_point_is_the_program(command_line):
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "pipesim", "--version"], capture_output=True, text=True
    )
    assert done.stdout == command_line("--version") == f"pipesim {pipesim.__version__}\n"
