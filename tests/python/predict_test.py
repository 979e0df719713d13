"""Predictions: the same as the command line's, in its words and as arrays."""

import datetime
import json
import threading
import warnings

import pytest

import pipesim
from pipesim import PipesimError, PipesimWarning

FLAGS = [
    dict(schedule="1f1b", stages=4, microbatches=8),
    dict(schedule="gpipe", stages=3, microbatches=5, forward="2ms", backward="3ms"),
    dict(schedule="interleaved", stages=4, microbatches=8, virtual_stages=3, p2p="blocking"),
    dict(schedule="zb-v", stages=2, microbatches=6, p2p_latency="100us", iterations=3),
    dict(schedule="1f1b", stages=2, microbatches=4, forward=["1ms", "2ms"], jitter="5%", seeds=7),
    dict(
        schedule="1f1b",
        stages=2,
        microbatches=4,
        checkpoint_every=2,
        storage="1GB/s",
        checkpoint_bytes="8MB",
        async_checkpoint=True,
    ),
    dict(
        model="gpt2-small",
        cluster="dgx-a100",
        schedule="1f1b",
        stages=4,
        global_batch=32,
        micro_batch_size=2,
        recompute="full",
        explain=True,
    ),
    dict(
        model="gpt2-small",
        cluster="dgx-a100",
        schedule="1f1b",
        stages=2,
        devices=8,
        global_batch=64,
        zero=2,
        fused_loss=True,
    ),
]


def words(given):
    for keyword, value in given.items():
        flag = "--" + keyword.replace("_", "-")
        if value is True:
            yield flag
        else:
            yield f"{flag}={','.join(value) if isinstance(value, list) else value}"


@pytest.mark.parametrize("given", FLAGS, ids=lambda given: "-".join(map(str, given.values()))[:40])
def test_is_what_the_program_prints(given, command_line):
    printed = json.loads(command_line("predict", *words(given), "--json"))
    predicted = pipesim.predict(**given)
    assert predicted.to_dict() == printed
    assert predicted.makespan_ns == printed["makespan_ns"]
    assert predicted.peak_memory_bytes == printed["peak_memory_bytes"]


def test_keywords_do_not_stay():
    slow = pipesim.predict(schedule="1f1b", stages=2, microbatches=4, forward="9ms", explain=False)
    usual = pipesim.predict(schedule="1f1b", stages=2, microbatches=4)
    assert slow.makespan_ns > usual.makespan_ns == 15_000_000
    with pytest.raises(PipesimError):
        pipesim.predict(schedule="1f1b", stages=2, microbatches=0, forward="9ms")
    assert pipesim.predict(schedule="1f1b", stages=2, microbatches=4).makespan_ns == 15_000_000


def test_values_of_many_types(tmp_path):
    numpy = pytest.importorskip("numpy")
    ms = datetime.timedelta(milliseconds=2)
    expected = pipesim.predict(
        schedule="1f1b", stages=2, microbatches=4, forward="2ms,2ms"
    ).makespan_ns
    for forward in (ms, [ms, "2ms"], (ms, ms)):
        assert (
            pipesim.predict(schedule="1f1b", stages=2, microbatches=4, forward=forward).makespan_ns
            == expected
        )
    predicted = pipesim.predict(schedule="1f1b", stages=numpy.int64(2), microbatches=numpy.int32(4))
    assert predicted.makespan_ns == 15_000_000
    costs = {
        "format": "pipesim-costs",
        "version": 1,
        "stages": [{"forward_ns": 1000, "backward_ns": 2000}] * 2,
    }
    path = tmp_path / "costs.json"
    path.write_text(json.dumps(costs))
    by_path = pipesim.predict(schedule="1f1b", stages=2, microbatches=4, costs=path)
    by_value = pipesim.predict(schedule="1f1b", stages=2, microbatches=4, costs=costs)
    assert by_path.makespan_ns == by_value.makespan_ns == 15_000
    halved = pipesim.predict(
        model="gpt2-small",
        cluster="dgx-a100",
        schedule="1f1b",
        stages=2,
        microbatches=4,
        software_factor=0.5,
    )
    assert halved.makespan_ns > 0


def test_texts_of_other_types():
    class Name(str):
        pass

    numpy = pytest.importorskip("numpy")
    for name in (Name("1f1b"), numpy.str_("1f1b")):
        assert pipesim.predict(schedule=name, stages=2.0, microbatches=4).makespan_ns == 15_000_000


def test_names_are_attributes():
    predicted = pipesim.predict(schedule="1f1b", stages=4, microbatches=8)
    assert (
        predicted.ranks[1].bubble_ns.warmup
        == predicted.to_dict()["ranks"][1]["bubble_ns"]["warmup"]
    )
    assert predicted.bubble_fraction.global_ == predicted.bubble_fraction["global"] == 3 / 11
    assert "bubble_fraction" in dir(predicted) and "warmup" in dir(predicted.ranks[0].bubble_ns)
    with pytest.raises(AttributeError, match="there is no bubbles; there are format, version"):
        predicted.bubbles


def test_spans_are_views_of_the_timeline(command_line, tmp_path):
    numpy = pytest.importorskip("numpy")
    predicted = pipesim.predict(
        schedule="1f1b", stages=4, microbatches=8, p2p_latency="10us", iterations=2
    )
    spans = predicted.spans
    kinds = numpy.asarray(spans.kinds)[spans.kind]
    computes = numpy.isin(kinds, ["F", "I", "W", "B"])
    assert computes.sum() == 2 * 4 * 8 * 2
    assert (kinds == "SEND_F").sum() == (kinds == "RECV_F").sum() == 2 * 3 * 8
    first = spans.iteration == 0
    assert spans.end_ns[first].max() == predicted.makespan_ns
    for rank in predicted.ranks:
        of_rank = computes & first & (spans.rank == rank.rank)
        assert (spans.end_ns - spans.start_ns)[of_rank].sum() == rank.busy_ns
        assert (spans.start_ns[of_rank][1:] >= spans.end_ns[of_rank][:-1]).all()
    column = spans.start_ns
    assert column.dtype == numpy.int64 and spans.rank.dtype == numpy.int32
    assert column.base is not None and not column.flags.owndata and not column.flags.writeable
    kept = spans.end_ns
    total = kept.sum()
    del spans, predicted
    assert kept.sum() == total  # the array keeps its spans
    with pytest.raises(AttributeError, match="spans have no ranks; they have rank, iteration"):
        pipesim.predict(schedule="1f1b", stages=2, microbatches=2).spans.ranks


def test_to_pandas():
    pytest.importorskip("pandas")
    frame = pipesim.predict(schedule="zb-h1", stages=2, microbatches=4).to_pandas()
    computes = frame[frame.kind.isin(["F", "I", "W"])]
    assert len(computes) == 2 * 4 * 3
    assert (computes.groupby("rank").start_ns.count() == 12).all()


def test_a_trace_is_that_of_the_program(command_line, tmp_path):
    given = dict(schedule="1f1b", stages=4, microbatches=8)
    command_line("predict", *words(given), "--trace", tmp_path / "program.json", "--quiet")
    pipesim.predict(**given).write_trace(tmp_path / "python.json")
    pipesim.predict(**given, trace=tmp_path / "keyword.json", figure=tmp_path / "figure.svg")
    expected = (tmp_path / "program.json").read_bytes()
    assert (tmp_path / "python.json").read_bytes() == expected
    assert (tmp_path / "keyword.json").read_bytes() == expected
    assert (tmp_path / "figure.svg").read_text() == pipesim.predict(**given).svg()


def test_shows_itself():
    predicted = pipesim.predict(schedule="1f1b", stages=4, microbatches=8)
    assert repr(predicted) == "<Prediction 1f1b: 4 stages, 8 microbatches, 33.000 ms, 27.3% bubble>"
    assert "<svg" in predicted._repr_html_()


def test_notes_are_warnings():
    with pytest.warns(
        PipesimWarning, match="tensor_overlap has no effect|--tensor-overlap has no effect"
    ):
        pipesim.predict(
            model="gpt2-small",
            cluster="dgx-a100",
            schedule="1f1b",
            stages=2,
            microbatches=4,
            tensor_overlap="off",
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipesim.predict(schedule="1f1b", stages=2, microbatches=4)


@pytest.mark.parametrize(
    "given, sentence",
    [
        (dict(schedule="1f1b", stages=0, microbatches=8), "stages: 0 must be 1 or more"),
        (
            dict(schedule="1f1b", stages=4),
            "microbatches is missing: give the number of microbatches",
        ),
        (
            dict(schedule="1f1q", stages=4, microbatches=8),
            "unknown schedule '1f1q'; known, nearest first: 1f1b",
        ),
        (dict(schedule="1f1b", stages=4, microbatches=8, forward=3), "forward: '3' has no unit"),
        (dict(schedule="1f1b", stages=4, microbatches=8, explain=True), "explain: only a model"),
        (dict(model="gpt2-small", cluster="dgx-a100"), "schedule is missing"),
        (dict(schedule="1f1b", stages=object(), microbatches=8), "stages: a object is no text"),
        (
            dict(schedule="1f1b", stages=2, microbatches=8, costs={"format": "pipesim-costs"}),
            "^costs",
        ),
        (
            dict(schedule="1f1b", stages=2, microbatches=8, trace="/nowhere/t.json"),
            "/nowhere/t.json",
        ),
        (dict(schedule="1f1b", stages=1_000_000, microbatches=1_000_000), "memory"),
        (dict(schedule="1f1b", stages=True, microbatches=8), "stages: a value is needed, not True"),
        (dict(schedule="1f1b", stages=2, microbatches=8, explain=1), "explain: a switch is True"),
        (dict(schedule="1f1b", stages=2, microbatches=8, costs="a\0b"), "costs: .* has a NUL"),
        (dict(schedule=[["0F0", "0B0"]]), "schedule: make a pipesim.Schedule of a list of lists"),
        (dict(schedule="1f1b", stages={}, microbatches=8), "stages: a dict is no text"),
        (dict(schedule=["1f1b"], stages=[[2]], microbatches={}), "."),
    ],
)
def test_errors_are_sentences(given, sentence):
    with pytest.raises(PipesimError, match=sentence) as raised:
        pipesim.predict(**given)
    assert "--" not in str(raised.value).split("`")[0]
    assert "pipesim-" not in str(raised.value).replace("pipesim-costs", "")


def test_unknown_keywords_are_python_errors():
    with pytest.raises(TypeError, match="microbatch"):
        pipesim.predict(schedule="1f1b", stages=2, microbatch=4)


def test_threads_do_not_mix():
    expected = {
        count: pipesim.predict(schedule="1f1b", stages=4, microbatches=count).makespan_ns
        for count in range(4, 12)
    }
    wrong = []

    def predict(count):
        for _ in range(50):
            found = pipesim.predict(schedule="1f1b", stages=4, microbatches=count).makespan_ns
            if found != expected[count]:
                wrong.append((count, found))

    threads = [threading.Thread(target=predict, args=(count,)) for count in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
