"""pipesim.torch.record: what it writes, and that it never disturbs a training.

This file is also what the ranks run, as processes that meet over gloo: all cases of two ranks one
after the other, then all of four, since a process takes longer to load PyTorch than to train.
"""

import contextlib
import json
import os
import pathlib
import re
import sys
import time
import warnings

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")
dist = torch.distributed
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("needs a PyTorch with gloo", allow_module_level=True)

from ranks import pipesim, train

pytestmark = pytest.mark.peer
HERE = pathlib.Path(__file__).resolve()
STEPS = 3      # that are recorded
AHEAD_NS = 3_000_000_000  # a clock of another host

# A schedule's class, pipesim's name for it, and chunks per rank. The last runs pipesim's own file.
SCHEDULES = [("ScheduleGPipe", "gpipe", 1), ("Schedule1F1B", "1f1b", 1),
             ("ScheduleLoopedBFS", "bfs", 2), ("ScheduleInterleaved1F1B", "interleaved-pytorch", 2),
             ("ScheduleInterleavedZeroBubble", "interleaved-zb", 2),
             ("ScheduleZBVZeroBubble", "zb-v", 2), ("ScheduleDualPipeV", "dualpipe-v", 2),
             ("_PipelineScheduleRuntime", "zb-h1", 1)]
OTHERS = ["alone", "optimizer", "profiler", "fault", "raise", "replace", "microbatches", "rows",
          "steps", "none", "no hook", "twice", "name", "folder", "eval", "clocks"]


# ---- What a rank runs

class Stage(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return x + torch.tanh(self.linear(x))


class Training:
    """A model on this rank, and its schedule."""

    def __init__(self, case, rank, world):
        from torch.distributed.pipelining import PipelineStage, schedules
        name, chunks = case["schedule"], case["chunks"]
        mine = [rank + i * world for i in range(chunks)]
        if name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV"):
            mine = [rank, 2 * world - 1 - rank]
        torch.manual_seed(1)
        self.modules = [Stage() for _ in mine]
        stages = [PipelineStage(module, i, chunks * world, torch.device("cpu"))
                  for module, i in zip(self.modules, mine)]
        kind = getattr(schedules, name)
        alone = issubclass(kind, schedules.PipelineScheduleSingle)
        self.schedule = kind(stages[0] if alone else stages, loss_fn=torch.nn.MSELoss(),
                             n_microbatches=case["microbatches"])
        if "csv" in case:
            self.schedule._load_csv(case["csv"], format="compute_only")
        self.optimizer = torch.optim.AdamW([p for module in self.modules
                                            for p in module.parameters()], lr=1e-2)
        rows = 2 * case["microbatches"]
        x, y = torch.randn(rows, 8), torch.randn(rows, 8)
        self.inputs = (x,) if 0 in mine else ()
        self.targets = {"target": y} if chunks * world - 1 in mine else {}
        self.hooked = [self.schedule, schedules, *stages]
        self.losses = []

    def step(self):
        own = {"losses": []} if self.targets else {}
        self.schedule.step(*self.inputs, **self.targets, **own)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses += [loss.item() for loss in own.get("losses", [])]

    def attributes(self):
        return [{name: value for name, value in vars(owner).items() if callable(value)}
                for owner in self.hooked]


def failing(calls, old):
    """Fails from the fifth call on, as reading a file may."""
    def fail(self):
        calls.append(1)
        if len(calls) >= 5:
            raise OSError("no more files")
        return old(self)
    return fail


def run_case(case, rank, world):
    """Trains as the case says. Returns what was raised, warned of, and left."""
    from pipesim.torch import clocks, record
    from torch.distributed.pipelining import schedules
    what = case["what"]
    odd = rank == 1
    if what == "microbatches" and odd:
        case["microbatches"] += 1
    training = Training(case, rank, world)
    before = training.attributes()
    options = {"optimizer": training.optimizer} if what == "optimizer" else {}
    if what == "steps" and odd:
        options["steps"] = STEPS - 1
    if what == "none":
        options["warmup"] = 9
    if what == "rows" and odd:
        training.schedule.pipeline_order[0].reverse()
    changed = pytest.MonkeyPatch()
    if what == "no hook":
        changed.delattr(schedules, "_batch_p2p")
        before = training.attributes()
    if what == "fault" and rank == 0:
        changed.setattr(clocks.Taken, "__call__", failing([], clocks.Taken.__call__))
    if what == "clocks":
        changed.setattr(clocks, "home", lambda: f"host {rank}")
        changed.setattr(clocks, "now", lambda: time.monotonic_ns() + rank * AHEAD_NS)
    around = [] if what == "alone" else [record(training.schedule, case["path"], **options)]
    if what == "twice":
        around.append(record(training.schedule, case["path"]))
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    if what == "profiler":
        around.insert(0, profiler)
    result = {"raised": None}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            with contextlib.ExitStack() as stack:
                for one in around:
                    stack.enter_context(one)
                for i in range(STEPS + 1):
                    if what == "raise" and i == 2 or what == "replace" and i == 3:
                        raise KeyError("of the training")
                    if what == "eval" and i == 2:
                        training.schedule.eval(*training.inputs, **training.targets)
                    training.step()
        except (KeyError, ValueError) as error:
            result["raised"] = f"{type(error).__name__}: {error}"
    result["warned"] = [str(one.message) for one in told if "pipesim" in str(one.message)]
    result["as before"] = training.attributes() == before
    result["losses"] = training.losses
    changed.undo()
    if what == "profiler":
        profiler.export_chrome_trace(f"{case['path']}.profile.{rank}.json")
    return result


def run_rank(cases):
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{os.environ['MEET']}", rank=rank,
                            world_size=world)
    for case in cases:
        print(json.dumps(run_case(case, rank, world)), flush=True)
        dist.barrier()
    dist.destroy_process_group()


# ---- What the tests look at

class Recording:
    """One case: its folder, and what each rank said."""

    def __init__(self, folder, what, microbatches=4):
        self.folder = folder / what.replace(" ", "_")
        self.folder.mkdir()
        self.path = self.folder / "run.json"
        self.case = {"what": what, "schedule": "Schedule1F1B", "chunks": 1,
                     "microbatches": microbatches, "path": str(self.path)}
        self.said = []

    def exports(self, name, ranks, chunks):
        """The schedule by pipesim, as a list of actions per rank."""
        file = self.folder / "order.csv"
        pipesim(self.folder, "--schedule", name, "--stages", ranks, "--virtual-stages", chunks,
                "--microbatches", self.case["microbatches"], "--export", file)
        self.expected = [computes_of(row) for row in file.read_text().splitlines()]
        return file

    def pipesim(self, *words):
        return pipesim(self.folder, *words)

    def report(self):
        return json.loads(self.pipesim("report", self.path, "--json"))

    def warned(self):
        return [text for one in self.said for text in one["warned"]]

    def files(self):
        return sorted(file.name for file in self.folder.iterdir())


def computes_of(row):
    return re.findall(r"\b\d+[FBIW]\d+\b", row)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """All cases, by (number of ranks, name)."""
    found = {}
    for ranks in (2, 4):
        folder = tmp_path_factory.mktemp(f"ranks{ranks}")
        for schedule, name, chunks in SCHEDULES:
            one = Recording(folder, name, 4 * ranks)
            one.case.update(schedule=schedule, chunks=chunks)
            file = one.exports(name, ranks, chunks)
            if schedule.startswith("_"):
                one.case["csv"] = str(file)
            found[ranks, name] = one
        for what in OTHERS if ranks == 2 else []:
            found[ranks, what] = Recording(folder, what)
        found_now = [one for key, one in found.items() if key[0] == ranks]
        if ranks == 2:
            found[2, "rows"].case.update(schedule="ScheduleInterleaved1F1B", chunks=2)
            found[2, "replace"].path.write_text("old")
            found[2, "name"].case["path"] = str(found[2, "name"].folder / "run.txt")
            found[2, "folder"].case["path"] = str(found[2, "folder"].folder / "no/run.json")
        cases = [one.case for one in found_now]
        for one, said in zip(found_now, train(HERE, folder, ranks, cases)):
            one.said = said
    return found


# ---- Tests

@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("schedule,name,chunks", SCHEDULES)
def test_order_is_the_schedules_and_pipesim_reads_it(recordings, schedule, name, chunks, ranks):
    run = recordings[ranks, name]
    assert run.warned() == []
    trace = json.loads(run.path.read_text())
    about = trace["metadata"]["pipesim"]
    assert about["schedule"] == ("" if schedule.startswith("_") else name)
    assert (about["stages"], about["virtual_stages"]) == (ranks, chunks)
    assert (about["microbatches"], about["iterations"]) == (4 * ranks, STEPS)
    assert [computes_of(row) for row in about["program"]] == run.expected
    slices = [one for one in trace["traceEvents"] if one["ph"] == "X"]
    for rank in range(ranks):
        for step in range(STEPS):
            own = [one for one in slices if one["cat"] == "compute" and
                   (one["args"]["rank"], one["args"]["iteration"]) == (rank, step)]
            own.sort(key=lambda one: one["ts"])
            assert [one["name"] for one in own[:-1]] == run.expected[rank]
            assert "OPTIMIZER" in own[-1]["name"]
            for one, after in zip(own, own[1:]):
                assert one["ts"] + one["dur"] <= after["ts"] + 1e-3
    sent = [one["args"] for one in slices if "SEND" in one["name"]]
    received = [one["args"] for one in slices if "RECV" in one["name"]]
    assert len(sent) == len(received) > 0
    assert all(one["bytes"] == 2 * 8 * 4 for one in sent + received)
    assert all(peak > 1 << 20 for peak in about["peak_memory_bytes"])

    report = run.report()
    assert report["warnings"] == []
    assert report["source"] == "measured"
    run.pipesim("calibrate", run.path, "-o", "costs.json")
    compared = json.loads(run.pipesim("compare", run.path, run.path, "--json"))
    assert compared["identified"] == "exact"
    assert compared["unmatched"] == {"predicted": 0, "measured": 0}
    assert compared["conformance"]["swapped"] == 0
    wire = compared["wire_times"]["measured"]
    assert wire["told"] + wire["as_usual"] == wire["messages"] > 0
    run.pipesim("whatif", run.path, "--scale", "F@stage1=0.5")


def test_its_costs_predict_another_schedule(recordings):
    run, other = recordings[2, "gpipe"], recordings[2, "1f1b"]
    run.pipesim("calibrate", run.path, "-o", "costs.json")
    run.pipesim("--schedule", "1f1b", "--stages", 2, "--microbatches", 8, "--costs", "costs.json",
                "--trace", "predicted.json")
    compared = json.loads(run.pipesim("compare", "predicted.json", other.path, "--json"))
    assert compared["unmatched"] == {"predicted": 0, "measured": 0}


@pytest.mark.parametrize("what", ["optimizer", "profiler", "eval", "clocks"])
def test_what_goes_on_at_the_same_time_is_no_matter(recordings, what):
    run = recordings[2, what]
    assert run.warned() == []
    assert all(one["raised"] is None for one in run.said)
    assert run.report()["warnings"] == []
    assert run.report()["iteration_ns"]["count"] == STEPS
    names = {one["name"] for one in json.loads(run.path.read_text())["traceEvents"]}
    assert {"0OPTIMIZER", "1OPTIMIZER"} <= names


def test_clocks_of_hosts_are_aligned(recordings):
    run = recordings[2, "clocks"]
    trace = json.loads(run.path.read_text())
    first, second = trace["metadata"]["pipesim"]["clocks"]
    assert first["offset_ns"] == 0 and first["uncertainty_ns"] == 0
    assert abs(second["offset_ns"] + AHEAD_NS) <= second["uncertainty_ns"]
    ends = [one["ts"] + one["dur"] for one in trace["traceEvents"] if one["ph"] == "X"]
    assert max(ends) < 1e-3 * AHEAD_NS
    assert "clocks" not in json.loads(recordings[2, "eval"].path.read_text())["metadata"]["pipesim"]


def test_a_profile_of_the_same_run_is_written(recordings):
    profile = recordings[2, "profiler"].folder / "run.json.profile.1.json"
    assert len(json.loads(profile.read_text())["traceEvents"]) > 0


def test_a_recording_changes_no_loss(recordings):
    plain = recordings[2, "alone"].said[1]["losses"]
    assert len(plain) == 4 * (STEPS + 1)
    for what in ("optimizer", "profiler", "fault", "steps"):
        assert recordings[2, what].said[1]["losses"] == plain


def test_hooks_are_gone_afterwards(recordings):
    for run in recordings.values():
        assert all(one["as before"] for one in run.said), run.case


def test_a_failing_recorder_warns_once_and_the_training_goes_on(recordings):
    run = recordings[2, "fault"]
    assert len(run.said[0]["warned"]) == 1 and run.said[1]["warned"] == []
    assert "run.json is not written: OSError: no more files; the training goes on" in \
        run.said[0]["warned"][0]
    assert all(one["raised"] is None for one in run.said)
    assert run.files() == []


@pytest.mark.parametrize("what,files", [("raise", []), ("replace", ["run.json"])])
def test_an_exception_of_the_training_passes_and_writes_nothing(recordings, what, files):
    run = recordings[2, what]
    assert all(one["raised"] == "KeyError: 'of the training'" for one in run.said)
    assert run.warned() == []
    assert run.files() == files
    assert not files or run.path.read_text() == "old"


@pytest.mark.parametrize("what,sentence", [
    ("microbatches", r"ranks have the microbatches of their schedules differently: rank 0: 4; "
                     r"rank 1: 5; give all ranks the same schedule$"),
    ("rows", r"ranks have the order of actions of their schedules differently: rank 0: as rank 0; "
             r"rank 1: as rank 1; give"),
    ("no hook", r"torch \S+ has no \S*schedules\._batch_p2p, which a recording needs"),
    ("twice", r"is being recorded already"),
    ("name", r"run\.txt: give a trace a name that ends in \.json"),
    ("folder", r"run\.json: it is a folder, or its folder does not exist")])
def test_what_is_refused_at_entry(recordings, what, sentence):
    run = recordings[2, what]
    for one in run.said:
        assert re.match("PipesimError: ", one["raised"])
        assert re.search(sentence, one["raised"])
    assert run.warned() == []
    assert run.files() == []


@pytest.mark.parametrize("what,sentence", [
    ("steps", "ranks recorded differently: rank 0: 3 steps; rank 1: 2 steps"),
    ("none", "no step was recorded: 4 were seen, and the first 9 are warm-up")])
def test_what_cannot_be_written_at_the_end_is_one_warning(recordings, what, sentence):
    run = recordings[2, what]
    assert len(run.warned()) == 1
    assert f"run.json is not written: {sentence}" in run.warned()[0]
    assert all(one["raised"] is None for one in run.said)
    assert run.files() == []


if __name__ == "__main__":
    run_rank(json.loads(sys.argv[1]))
