"""pipesim.megatron.record and pipesim.deepspeed.record: orders, and that no training is disturbed.

    PYTHONPATH=build/release/python python3 -m pytest tests/python/trainers_test.py

Everything runs against tests/python/fakes, and orders and signatures also against megatron-core
and deepspeed where they are installed, on processors. This file is also what the ranks run, as
processes that meet over gloo: all cases of a trainer and a number of ranks one after the other.
"""

import contextlib
import functools
import importlib.metadata
import importlib.util
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
import warnings

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")
dist = torch.distributed
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("needs a PyTorch with gloo", allow_module_level=True)

from ranks import LIMIT_S, pipesim, train

pytestmark = pytest.mark.peer
HERE = pathlib.Path(__file__).resolve()
FAKES = HERE.parent / "fakes"
STEPS = 3      # that are recorded
BATCHES = 4    # microbatches, times ranks


# ---- What a rank runs

class Chunk(torch.nn.Module):
    """A stage. Megatron asks for `config`, `model_type` and set_input_tensor()."""

    model_type = None

    def __init__(self, config=None):
        super().__init__()
        self.linear, self.config, self.given = torch.nn.Linear(8, 8), config, None

    def set_input_tensor(self, tensors):
        self.given = tensors[0]

    def forward(self, x):
        x = x if self.given is None else self.given
        return x + torch.tanh(self.linear(x))


def mean_square(output, target):
    return ((output - target) ** 2).mean()


class Megatron:
    def __init__(self, case, rank, world):
        from megatron.core import parallel_state
        self.chunks, self.batches = case["chunks"], case["microbatches"]
        parallel_state.destroy_model_parallel()
        parallel_state.initialize_model_parallel(
            pipeline_model_parallel_size=world,
            virtual_pipeline_model_parallel_size=self.chunks if self.chunks > 1 else None)
        config = self.config(case, world)
        self.models = [Chunk(config) for _ in range(self.chunks)]
        self.optimizer = torch.optim.AdamW([p for one in self.models for p in one.parameters()])
        self.x, self.losses = torch.randn(1, 2, 8), []
        self.early = self.function() if case["what"] == "early" else None

    def config(self, case, world):
        if not case["real"]:
            return None
        from megatron.core.transformer import TransformerConfig
        overlap = case["chunks"] > 1 and world == 2  # of 2 ranks interleaving needs it
        return TransformerConfig(
            num_layers=world * case["chunks"], hidden_size=8, num_attention_heads=1,
            pipeline_model_parallel_size=world, pipeline_dtype=torch.float32,
            virtual_pipeline_model_parallel_size=case["chunks"] if case["chunks"] > 1 else None,
            overlap_p2p_comm=overlap, batch_p2p_comm=not overlap, batch_p2p_sync=False,
            deallocate_pipeline_outputs=True)

    def recorder(self, case):
        from pipesim.megatron import record
        more = {"optimizer": self.optimizer} if case["what"] == "optimizer" else {}
        return record(case["path"], warmup=case.get("warmup", 1), **more)

    def function(self):
        from megatron.core.pipeline_parallel import get_forward_backward_func
        return get_forward_backward_func()

    def step(self, **more):
        def forward(data, model):
            return model(next(data)), lambda out: (mean_square(out, self.x), out.detach().sum())

        data = [iter([self.x] * self.batches) for _ in self.models]
        alone = self.chunks == 1
        losses = (self.early or self.function())(
            forward_step_func=forward, data_iterator=data[0] if alone else data,
            model=self.models[0] if alone else self.models, num_microbatches=self.batches,
            seq_length=1, micro_batch_size=2, **more)
        if not more:
            self.losses += [one.item() for one in losses]
            self.optimizer.step()
            self.optimizer.zero_grad()

    def evaluate(self):
        with torch.no_grad():
            self.step(forward_only=True)

    def hooked(self):
        from megatron.core.pipeline_parallel import p2p_communication, schedules
        return [schedules, getattr(p2p_communication, "P2PCommunicator", p2p_communication)]


class DeepSpeed:
    def __init__(self, case, rank, world):
        self.x, self.losses, batches = torch.randn(2, 8), [], case["microbatches"]
        if case["real"]:
            import deepspeed
            kind = deepspeed.pipe.PipelineModule
            if case["chunks"] > 1:
                from deepspeed.runtime.pipe.dualpipev import DualPipeVModule as kind
            module = kind([Chunk() for _ in range(world * case["chunks"])], num_stages=world,
                          loss_fn=mean_square, partition_method="uniform")
            self.engine = deepspeed.initialize(
                model=module, optimizer=torch.optim.AdamW(module.parameters()), config={
                    "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": batches,
                    "steps_per_print": 1000000})[0]
        else:
            from deepspeed.runtime.pipe.engine import PipelineEngine
            chunk = Chunk()
            self.engine = PipelineEngine(chunk, torch.optim.AdamW(chunk.parameters()), mean_square,
                                         batches)

    def recorder(self, case):
        from pipesim.deepspeed import record
        return record(self.engine, case["path"], warmup=case.get("warmup", 1))

    def step(self):
        batches = iter([(self.x, self.x)] * self.engine.micro_batches)
        self.losses.append(float(self.engine.train_batch(batches)))

    def evaluate(self):
        self.engine.eval_batch(iter([(self.x, self.x)] * self.engine.micro_batches))

    def hooked(self):
        from deepspeed.runtime.pipe import p2p
        return [self.engine, p2p]


def failing(calls, old):
    """Fails from the fifth call on, as reading a file may."""
    def fail(self):
        calls.append(1)
        if len(calls) >= 5:
            raise OSError("no more files")
        return old(self)
    return fail


def functions_of(owner):
    return {name: value for name, value in vars(owner).items()
            if inspect.isfunction(value) or inspect.ismethod(value) or name.startswith("_INSTR")}


def run_case(case, rank, world):
    """Trains as the case says. Returns what was raised, warned of, and left."""
    from pipesim.torch import clocks
    what = case["what"]
    torch.manual_seed(1)
    training = {"megatron": Megatron, "deepspeed": DeepSpeed}[case["trainer"]](case, rank, world)
    changed = pytest.MonkeyPatch()
    if what == "no hook":
        changed.delattr(training.hooked()[0 if case["trainer"] == "megatron" else 1],
                        {"megatron": "backward_step", "deepspeed": "recv"}[case["trainer"]])
    before = [functions_of(owner) for owner in training.hooked()]
    if what == "fault" and rank == 0:
        changed.setattr(clocks.Taken, "__call__", failing([], clocks.Taken.__call__))
    around = [] if what == "alone" else [training.recorder(case)]
    around += [training.recorder(case)] if what == "twice" else []
    result = {"raised": None}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            with contextlib.ExitStack() as stack:
                for one in around:
                    stack.enter_context(one)
                if what == "unseen":
                    owner = training.hooked()[0]
                    owner.backward_step = owner.backward_step.__wrapped__
                for i in range(STEPS + 1):
                    if what == "raise" and i == 2:
                        raise KeyError("of the training")
                    if what == "eval":
                        training.evaluate()
                    training.step()
        except (KeyError, ValueError) as error:
            result["raised"] = f"{type(error).__name__}: {error}"
    result["warned"] = [str(one.message) for one in told if "pipesim" in str(one.message)]
    result["as before"] = [functions_of(owner) for owner in training.hooked()] == before
    result["losses"] = training.losses
    changed.undo()
    return result


def on_processors():
    """What is installed of megatron-core puts tensors where these say."""
    from megatron.core.pipeline_parallel import schedules
    torch.cuda.current_device = lambda: "cpu"
    torch.Tensor.cuda = lambda tensor: tensor
    zeros = torch.zeros
    schedules.torch = type("torch", (), {"__getattr__": lambda _, name: getattr(torch, name)})()
    schedules.torch.zeros = lambda *args, device=None, **more: zeros(*args, **more)


def run_rank(cases):
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{os.environ['MEET']}", rank=rank,
                            world_size=world)
    if not cases[0]["real"]:
        sys.path.insert(0, str(FAKES))
    elif cases[0]["trainer"] == "megatron":
        on_processors()
    else:
        import deepspeed
        deepspeed.init_distributed("gloo")
    for case in cases:
        print("\n" + json.dumps(run_case(case, rank, world)), flush=True)
        dist.barrier()
    dist.destroy_process_group()


# ---- What the tests look at

class Recording:
    """One case: its folder, and what each rank said."""

    def __init__(self, folder, trainer, what, ranks, real=False, chunks=1, **more):
        self.folder, self.ranks, self.chunks = folder / what.replace(" ", "_"), ranks, chunks
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = self.folder / "run.json"
        self.case = {"trainer": trainer, "what": what, "real": real, "chunks": chunks,
                     "microbatches": BATCHES * ranks, "path": str(self.path), **more}
        self.said = []

    def expected(self, name):
        """The schedule by pipesim, as a list of actions per rank."""
        file = self.folder / "order.csv"
        pipesim(self.folder, "--schedule", name, "--stages", self.ranks, "--virtual-stages",
                self.chunks, "--microbatches", self.case["microbatches"], "--export", file)
        return [computes_of(row) for row in file.read_text().splitlines()]

    def pipesim(self, *words):
        return pipesim(self.folder, *words)

    def warned(self):
        return [text for one in self.said for text in one["warned"]]

    def files(self):
        return sorted(file.name for file in self.folder.iterdir())


def computes_of(row):
    return re.findall(r"\b\d+[FBIW]\d+\b", row)


def installed(trainer, file="__init__.py"):
    """Whether the real one is, with this file."""
    try:
        spec = importlib.util.find_spec({"megatron": "megatron.core"}.get(trainer, trainer))
    except ModuleNotFoundError:
        return False
    return spec is not None and (pathlib.Path(spec.origin).parent / file).exists()


@functools.lru_cache(None)
def recordings(root, trainer, ranks, real):
    """All cases of a trainer, by name."""
    folder = pathlib.Path(root) / f"{trainer}{ranks}{real}"
    cases = [("1f1b", {})]
    if ranks == 1:
        pass
    elif trainer == "megatron":
        cases.append(("interleaved", {"chunks": 2}))
    elif real and installed("deepspeed", "runtime/pipe/dualpipev.py"):
        cases.append(("two stages", {"chunks": 2}))
    if ranks == 2 and not real:
        cases += [(what, {}) for what in ("alone", "eval", "fault", "raise", "no hook", "twice")]
        cases += [("none", {"warmup": 9}), ("folder", {"path": str(folder / "no/run.json")})]
        cases += [(what, {}) for what in ("optimizer", "early", "unseen") if trainer == "megatron"]
    found = [Recording(folder, trainer, what, ranks, real, **more) for what, more in cases]
    for one, said in zip(found, train(HERE, folder, ranks, [one.case for one in found], '{"raised',
                                DS_ACCELERATOR="cpu")):
        one.said = said
    return {one.case["what"]: one for one in found}


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    return str(tmp_path_factory.mktemp("trainers"))


# ---- Tests

TRAINERS = pytest.mark.parametrize("trainer", ["megatron", "deepspeed"])
ORDERS = [(trainer, name, ranks, real) for real in (False, True)
          for trainer, name in (("megatron", "1f1b"), ("megatron", "interleaved"),
                                ("deepspeed", "1f1b"))
          for ranks in (1, 2, 4) if (name, ranks) != ("interleaved", 1)]


@pytest.mark.parametrize("trainer,name,ranks,real", ORDERS)
def test_order_is_the_schedules_and_pipesim_reads_it(root, trainer, name, ranks, real):
    if real and not installed(trainer):
        pytest.skip(f"needs {trainer}")
    run = recordings(root, trainer, ranks, real)[name]
    assert run.warned() == []
    trace = json.loads(run.path.read_text())
    about = trace["metadata"]["pipesim"]
    assert about["schedule"] == name
    assert (about["stages"], about["virtual_stages"]) == (ranks, run.chunks)
    assert (about["microbatches"], about["iterations"]) == (BATCHES * ranks, STEPS)
    expected = run.expected(name)
    assert [computes_of(row) for row in about["program"]] == expected
    slices = [one for one in trace["traceEvents"] if one["ph"] == "X"]
    for rank in range(ranks):
        for step in range(STEPS):
            own = [one for one in slices if one["cat"] == "compute" and
                   (one["args"]["rank"], one["args"]["iteration"]) == (rank, step)]
            own.sort(key=lambda one: one["ts"])
            assert [one["name"] for one in own[:-1]] == expected[rank]
            assert "OPTIMIZER" in own[-1]["name"]
    messages = STEPS * 2 * (ranks * run.chunks - 1) * BATCHES * ranks
    for kind in ("SEND", "RECV"):
        found = [one["args"] for one in slices if kind in one["name"]]
        assert len(found) == messages
        assert all(one["bytes"] == 2 * 8 * 4 for one in found)
    report = json.loads(run.pipesim("report", run.path, "--json"))
    assert (report["warnings"], report["source"]) == ([], "measured")
    run.pipesim("calibrate", run.path, "-o", "costs.json")
    compared = json.loads(run.pipesim("compare", run.path, run.path, "--json"))
    assert compared["identified"] == "exact"
    assert compared["unmatched"] == {"predicted": 0, "measured": 0}
    assert compared["conformance"]["swapped"] == 0


@TRAINERS
@pytest.mark.parametrize("what", ["eval", "optimizer"])
def test_what_goes_on_at_the_same_time_is_no_matter(root, trainer, what):
    run = recordings(root, trainer, 2, False).get(what)
    if run is None:
        pytest.skip("is Megatron's alone")
    assert run.warned() == []
    report = json.loads(run.pipesim("report", run.path, "--json"))
    assert (report["warnings"], report["iteration_ns"]["count"]) == ([], STEPS)


@TRAINERS
def test_a_recording_changes_no_loss_and_leaves_no_hook(root, trainer):
    runs = recordings(root, trainer, 2, False)
    plain = runs["alone"].said[1]["losses"]
    assert len(plain) > STEPS
    for what in ("1f1b", "fault", "eval"):
        assert runs[what].said[1]["losses"] == plain
    for run in runs.values():
        assert all(one["as before"] for one in run.said), run.case


@TRAINERS
def test_a_failing_recorder_warns_once_and_the_training_goes_on(root, trainer):
    run = recordings(root, trainer, 2, False)["fault"]
    assert len(run.said[0]["warned"]) == 1 and run.said[1]["warned"] == []
    assert f"pipesim.{trainer}.record: " in run.said[0]["warned"][0]
    assert "run.json is not written: OSError: no more files; the training goes on" in \
        run.said[0]["warned"][0]
    assert all(one["raised"] is None for one in run.said)
    assert run.files() == []


@TRAINERS
def test_an_exception_of_the_training_passes_and_writes_nothing(root, trainer):
    run = recordings(root, trainer, 2, False)["raise"]
    assert all(one["raised"] == "KeyError: 'of the training'" for one in run.said)
    assert (run.warned(), run.files()) == ([], [])


@pytest.mark.parametrize("trainer,what,sentence", [
    ("megatron", "no hook", r"megatron\.core 0\.16\.1 has no megatron\.\S*schedules\.backward_step,"
                            r" which a recording needs"),
    ("deepspeed", "no hook", r"deepspeed 0\.19\.8 has no deepspeed\.runtime\.pipe\.p2p\.recv, which"
                             r" a recording needs"),
    ("megatron", "twice", r"is being recorded already"),
    ("deepspeed", "twice", r"PipelineEngine\.train_batch is being recorded already"),
    ("megatron", "folder", r"run\.json: it is a folder, or its folder does not exist"),
    ("deepspeed", "folder", r"run\.json: it is a folder, or its folder does not exist")])
def test_what_is_refused_at_entry(root, trainer, what, sentence):
    run = recordings(root, trainer, 2, False)[what]
    for one in run.said:
        assert re.match("PipesimError: ", one["raised"])
        assert re.search(sentence, one["raised"])
    assert (run.warned(), run.files()) == ([], [])


@pytest.mark.parametrize("trainer,what,sentence", [
    ("megatron", "none", "no step was recorded: 4 were seen, and the first 9 are warm-up"),
    ("deepspeed", "none", "no step was recorded: 4 were seen, and the first 9 are warm-up"),
    ("megatron", "early", "no step was recorded: 0 were seen.*; call get_forward_backward_func")])
def test_what_cannot_be_written_at_the_end_is_one_warning(root, trainer, what, sentence):
    run = recordings(root, trainer, 2, False)[what]
    assert len(run.warned()) == 1
    assert re.search(f"run.json is not written: {sentence}", run.warned()[0])
    assert all(one["raised"] is None for one in run.said)
    assert run.files() == []


def test_a_step_of_which_not_all_is_seen_is_not_recorded(root):
    run = recordings(root, "megatron", 2, False)["unseen"]
    for rank, one in enumerate(run.said):
        assert len(one["warned"]) == 1 and one["raised"] is None
        assert f"stage {rank} had 0 B that could be seen, of 8 microbatches" in one["warned"][0]
    assert run.files() == []


@pytest.mark.parametrize("ranks", [2, 4])
def test_two_stages_per_rank_of_deepspeed(root, ranks):
    if not installed("deepspeed", "runtime/pipe/dualpipev.py"):
        pytest.skip("needs deepspeed with DualPipeV")
    run = recordings(root, "deepspeed", ranks, True)["two stages"]
    assert run.warned() == []
    about = json.loads(run.path.read_text())["metadata"]["pipesim"]
    assert about["virtual_stages"] == 2
    # DeepSpeed's backwards are whole.
    whole = [[one.replace("I", "B") for one in row if "W" not in one]
             for row in run.expected("dualpipe-v")]
    assert [computes_of(row) for row in about["program"]] == whole
    assert json.loads(run.pipesim("report", run.path, "--json"))["warnings"] == []


SIGNATURES = """
import importlib, inspect, json, sys
sys.path[:0] = sys.argv[1:]
found = {}
for name in %r:
    module, _, path = name.partition(":")
    owner = importlib.import_module(module)
    for part in path.split("."):
        owner = getattr(owner, part)
    found[name] = [[one.name, str(one.kind), one.default is one.empty]
                   for one in inspect.signature(owner).parameters.values()]
print(json.dumps(found))
"""
MEGATRON = "megatron.core.pipeline_parallel."
DEEPSPEED = "deepspeed.runtime.pipe."
FUNCTIONS = {
    "megatron": [f"{MEGATRON}schedules:{name}" for name in (
        "forward_step", "backward_step", "forward_backward_no_pipelining",
        "forward_backward_pipelining_without_interleaving",
        "forward_backward_pipelining_with_interleaving")] +
    [f"{MEGATRON}p2p_communication:P2PCommunicator._communicate"],
    "deepspeed": [f"{DEEPSPEED}p2p:send", f"{DEEPSPEED}p2p:recv"] +
    [f"{DEEPSPEED}engine:PipelineEngine.{name}" for name in (
        "train_batch", "eval_batch", "_exec_schedule", "_exec_load_micro_batch",
        "_exec_forward_pass", "_exec_backward_pass", "_exec_send_activations",
        "_exec_recv_activations", "_exec_send_grads", "_exec_recv_grads", "_exec_reduce_tied_grads",
        "_exec_reduce_grads", "_exec_optimizer_step")]}
VERSIONS = {"megatron": ("megatron-core", "0.16."), "deepspeed": ("deepspeed", "0.19.")}


def signatures(trainer, *folders):
    done = subprocess.run([sys.executable, "-c", SIGNATURES % (FUNCTIONS[trainer],), *folders],
                          capture_output=True, text=True, timeout=LIMIT_S,
                          env={**os.environ, "DS_ACCELERATOR": "cpu"})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@TRAINERS
def test_fakes_have_the_signatures_of_the_real(trainer):
    name, version = VERSIONS[trainer]
    if not installed(trainer) or not importlib.metadata.version(name).startswith(version):
        pytest.skip(f"needs {name} {version}x")
    real, fake = signatures(trainer), signatures(trainer, str(FAKES))
    for function in FUNCTIONS[trainer]:
        assert fake[function] == real[function], function


if __name__ == "__main__":
    run_rank(json.loads(sys.argv[1]))
