"""Schedules by name, from files and from lists."""

import pytest

import pipesim
from pipesim import PipesimError, Schedule


def my_1f1b(ranks, microbatches):
    """One's own generator."""
    for rank in range(ranks):
        ahead = min(ranks - rank, microbatches)
        row = [f"{rank}F{one}" for one in range(ahead)]
        for one in range(microbatches):
            row.append(f"{rank}B{one}")
            if ahead + one < microbatches:
                row.append(f"{rank}F{ahead + one}")
        yield row


@pytest.mark.parametrize("ranks, microbatches", [(1, 1), (2, 4), (4, 8), (5, 3)])
def test_lists_are_a_schedule(ranks, microbatches):
    own = Schedule(list(my_1f1b(ranks, microbatches)), name="mine")
    named = Schedule("1f1b", ranks, microbatches)
    assert own.rows == named.rows and own.csv() == named.csv()
    assert (own.name, own.ranks, own.microbatches) == ("mine", ranks, microbatches)
    assert pipesim.predict(schedule=own).makespan_ns == pipesim.predict(schedule=named).makespan_ns


def test_keeps_its_name(tmp_path):
    own = Schedule(list(my_1f1b(2, 4)), name="mine")
    predicted = pipesim.predict(schedule=own, trace=tmp_path / "t.json")
    assert predicted.schedule == "mine" and "/" not in repr(predicted)
    assert pipesim.report(predicted).schedule == "mine"
    with pytest.raises(PipesimError, match="stages 3: mine has 2"):
        pipesim.predict(schedule=own, stages=3)


def test_a_family_keeps_its_closed_form():
    predicted = pipesim.predict(schedule=Schedule("gpipe", stages=4, microbatches=8))
    assert predicted.bubble_fraction.closed_form.fraction == 3 / 11
    interleaved = Schedule("interleaved", 4, 8, virtual_stages=2)
    assert interleaved.rank_of_stage == [0, 1, 2, 3, 0, 1, 2, 3]
    assert pipesim.predict(schedule=interleaved).schedule == "interleaved"
    placed = Schedule("interleaved", 2, 4, placement=[0, 1, 0, 1])
    assert pipesim.predict(schedule=placed).stages == 2


def test_a_file(tmp_path, command_line):
    path = tmp_path / "order.csv"
    command_line(
        "predict", "--schedule=zb-h1", "--stages=2", "--microbatches=4", "--export", path, "--quiet"
    )
    assert Schedule(path).rows == Schedule(str(path)).rows == Schedule("zb-h1", 2, 4).rows
    assert Schedule(path).csv() == path.read_bytes().decode()


@pytest.mark.parametrize(
    "lists, sentence",
    [
        (
            [["0F0", "0B0", "0F1", "0B1"], ["1F1", "1B1", "1F0", "1B0"]],
            "deadlock: 0B0 on rank 0 waits for 1B0, which comes after 1F1 on rank 1",
        ),
        ([["0F0"], ["1F0", "1B0"]], "0B0|backward"),
        ([["0F0", "0B0"], ["1X0"]], "1X0"),
        ([["0F0", 7]], "rank 0: 7 is no action such as '0F0'"),
        (["0F0"], "rank 0: a list of actions"),
        ([["0F0,0B0"]], "is no action"),
        ([["0F0", "0B0"], []], "rank 1: it has no actions"),
        ([], "."),
        (7, "a schedule is a name, a file or a list of lists, not a int"),
    ],
)
def test_wrong_lists(lists, sentence):
    with pytest.raises(PipesimError, match=sentence):
        Schedule(lists)


def test_wrong_numbers():
    with pytest.raises(PipesimError, match="microbatches is missing"):
        Schedule("1f1b", stages=4)
    with pytest.raises(PipesimError, match="stages: 0 must be 1 or more"):
        Schedule("1f1b", stages=0, microbatches=4)
    with pytest.raises(PipesimError, match="microbatches: lists and files have their own"):
        Schedule([["0F0", "0B0"]], microbatches=1)
    with pytest.raises(PipesimError, match="stages: the schedule has 2; omit it"):
        pipesim.predict(schedule=Schedule("1f1b", 2, 4), stages=3)
    with pytest.raises(PipesimError, match="cannot read"):
        Schedule("nowhere/order.csv")
