"""pipesim.torch.profile: the layers it finds, and that every split trains as one process does.

This file is also what the two ranks of a pipeline run, one split after the other.
"""

import copy
import pathlib
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")
dist = torch.distributed
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("needs a PyTorch with gloo", allow_module_level=True)
pytestmark = pytest.mark.peer

import pipesim  # noqa: E402
import pipesim.torch  # noqa: E402
from pipesim import PipesimError  # noqa: E402
from torch import nn  # noqa: E402

LIMIT_S = 600  # against hangs; nothing here is about speed
MICROBATCHES, SAMPLES, STEPS = 4, 2, 2


# ---- Models

class Block(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return x + torch.tanh(self.linear(x))


class Words(nn.Module):
    """An embedding, three blocks, a norm and a head."""

    def __init__(self, tied=False):
        super().__init__()
        self.table, self.blocks = nn.Embedding(16, 8), nn.ModuleList(Block() for _ in range(3))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 16, bias=False)
        self.scale = nn.Parameter(torch.ones(8))
        if tied:
            self.head.weight = self.table.weight

    def forward(self, words):
        x = self.table(words) * self.scale
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def pictures(inplace=False):
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(inplace=True)), nn.Conv2d(4, 4, 3),
        nn.ReLU(inplace=inplace), nn.Conv2d(4, 2, 3), nn.Flatten(), nn.Linear(8, 16))


class Towers(nn.Module):
    """No list of layers; one with two outputs."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = Block(), Block(), Block()

    def forward(self, x, y):
        x, y = self.a(x), y * 2
        return self.c(self.b(x) + y)


def words(samples):
    return torch.randint(16, (samples, 5))


def images(samples):
    return torch.randn(samples, 1, 8, 8)


def loss_of(output, target):
    return nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())


CASES = {"words": (Words, words, words),
         "pictures": (pictures, images, lambda samples: torch.randint(16, (samples,)))}


# ---- What a rank runs

def losses_of(case, layout, rank):
    """Of each step, of this rank's pipeline and of one process."""
    from torch.distributed.pipelining import Schedule1F1B, pipeline
    torch.manual_seed(3)
    make, inputs_of, targets_of = CASES[case]
    whole = make()
    inputs, targets = inputs_of(SAMPLES * MICROBATCHES), targets_of(SAMPLES * MICROBATCHES)
    example = inputs.chunk(MICROBATCHES)[0]
    points = pipesim.torch.profile(whole, example, repetitions=1).split_points(layout)
    stage = pipeline(copy.deepcopy(whole), mb_args=(example,), split_spec=points).build_stage(
        rank, torch.device("cpu"))
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=loss_of)
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.5) for part in (stage.submod, whole)]
    own, expected = [], []
    for _ in range(STEPS):
        losses = []
        if rank == 0:
            schedule.step(inputs)
        else:
            schedule.step(target=targets, losses=losses)
            own.append((sum(losses) / MICROBATCHES).item())
        loss = loss_of(whole(inputs), targets)
        loss.backward()
        expected.append(loss.item())
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return own, expected


def layouts_of(layers):
    return [[first, layers - first] for first in range(1, layers)]


def run_rank(rank, meeting):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    for case, layers in (("words", 5), ("pictures", 6)):
        for layout in layouts_of(layers):
            own, expected = losses_of(case, layout, rank)
            if rank == 1:
                assert len(own) == STEPS and expected[0] > 1.01 * expected[-1]
                assert max(abs(a - b) for a, b in zip(own, expected)) < 1e-5, (case, layout, own)
                print(case, layout, flush=True)
    dist.destroy_process_group()


# ---- Tests

def test_each_split_into_two_stages_trains_as_one_process_does(tmp_path):
    ranks = [subprocess.Popen([sys.executable, __file__, str(rank), str(tmp_path / "meeting")],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
             for rank in range(2)]
    try:
        done = [rank.communicate(timeout=LIMIT_S) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(error for _, error in done)
    assert done[1][0].splitlines() == [
        f"{case} {layout}" for case, layers in (("words", 5), ("pictures", 6))
        for layout in layouts_of(layers)]


def test_layers_hold_all_parameters_and_bytes():
    found = pipesim.torch.profile(Words(), words(2), repetitions=1).layers
    assert [layer.name for layer in found] == ["before blocks.0", "blocks.0", "blocks.1",
                                               "blocks.2", "after blocks.2"]
    assert [layer.parameters for layer in found] == [16 * 8 + 8, 72, 72, 72, 16 + 8 * 16]
    assert [layer.weight_bytes for layer in found] == [4 * layer.parameters for layer in found]
    hidden = 2 * 5 * 8 * 4
    assert [layer.output_bytes for layer in found] == [hidden] * 4 + [2 * hidden]
    # The embedding keeps the words, and its output for the gradient of the scale. A block keeps
    # its input for the linear layer, and tanh's output.
    assert [layer.activation_bytes for layer in found[:4]] == [
        2 * 5 * 8 + hidden, 2 * hidden, 2 * hidden, 2 * hidden]
    assert all(layer.forward_ns > 0 and layer.backward_ns > 0 for layer in found)


def test_frozen_layers_have_no_gradients():
    module = pictures()
    for p in module[0].parameters():
        p.requires_grad = False
    found = pipesim.torch.profile(module, images(2), repetitions=1).layers
    assert [layer.name for layer in found] == ["0", "1", "2", "3", "4", "5"]
    assert found[0].gradient_bytes == 0 < found[0].weight_bytes
    assert found[1].gradient_bytes == found[1].weight_bytes


def test_the_slowest_layer_is_found_in_both_directions():
    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            time.sleep(0.01)
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            time.sleep(0.02)
            return gradient

    module = Words()
    module.blocks[1].linear.register_forward_hook(lambda _, __, output: Slow.apply(output))
    found = pipesim.torch.profile(module, words(2)).layers
    for way in ("forward_ns", "backward_ns"):
        assert max(found, key=lambda layer: getattr(layer, way)).name == "blocks.1"


def test_costs_are_partitioned_without_a_cluster():
    profile = pipesim.torch.profile(Words(), words(2), loss=lambda y: y.square().mean())
    costs = profile.costs(p2p={"latency_ns": 1000})
    parts = pipesim.partition(costs=costs, schedule="1f1b", stages=2, microbatches=8)
    assert sum(parts.layout) == 5 and len(profile.split_points(parts.layout)) == 1
    predicted = pipesim.predict(costs=costs, schedule="1f1b", stages=2, microbatches=8,
                                layout=parts.layout)
    assert predicted.makespan_ns == parts.balanced.makespan_ns


@pytest.mark.parametrize("layout, expected", [
    ([5], {}),
    ([1, 4], {"blocks.0": "BEGINNING"}),
    ([2, 3], {"blocks.1": "BEGINNING"}),
    ([4, 1], {"blocks.2": "END"}),
    ([3, 1, 1], {"blocks.1": "END", "blocks.2": "END"}),
    ([2, 2, 1], {"blocks.1": "BEGINNING", "blocks.2": "END"}),
    ([2, 1, 1, 1], {"blocks.0": "END", "blocks.1": "END", "blocks.2": "END"}),
    ([1, 2, 1, 1], {"blocks.0": "BEGINNING", "blocks.1": "END", "blocks.2": "END"})])
def test_a_layout_becomes_split_points_that_make_its_stages(layout, expected):
    from torch.distributed.pipelining import pipeline
    module, example = Words(), words(2)
    points = pipesim.torch.profile(module, example, repetitions=1).split_points(layout)
    assert {name: point.name for name, point in points.items()} == expected
    pipe = pipeline(copy.deepcopy(module), mb_args=(example,), split_spec=points)
    held = [sum(p.numel() for p in pipe.get_stage_module(stage).parameters())
            for stage in range(pipe.num_stages)]
    each = [136, 72, 72, 72, 144]
    assert held == [sum(each[sum(layout[:k]):sum(layout[:k + 1])]) for k in range(len(layout))]
    output = pipe(example)
    assert torch.equal(output[0] if isinstance(output, tuple) else output, module(example))


def test_named_layers_and_keywords():
    module = Towers()
    example = {"x": torch.randn(2, 8), "y": torch.randn(2, 8)}
    profile = pipesim.torch.profile(module, example, layers=["a", "b", "c"], repetitions=1)
    assert [layer.name for layer in profile.layers] == ["a", "b", "c"]
    assert [point for point in profile.split_points([1, 2])] == ["b"]
    both = pipesim.torch.profile(module, tuple(example.values()), layers=["b", "c"], repetitions=1)
    assert [layer.name for layer in both.layers] == ["before b", "b", "c"]


def test_the_model_is_afterwards_as_it_was():
    module = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 8))
    module(torch.randn(4, 8)).sum().backward()
    before = copy.deepcopy(module)
    gradients = [(p.grad, p.grad.clone()) for p in module.parameters()]
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    pipesim.torch.profile(module, torch.randn(4, 8, generator=torch.Generator()), repetitions=1)
    assert torch.equal(torch.rand(3), expected)
    for ours, theirs in zip(module.state_dict().values(), before.state_dict().values()):
        assert torch.equal(ours, theirs)
    for p, (kept, value) in zip(module.parameters(), gradients):
        assert p.grad is kept and torch.equal(kept, value)
    assert all(not part._forward_hooks and not part._forward_pre_hooks
               for part in module.modules())


@pytest.mark.parametrize("case", CASES)
def test_what_torch_exports_has_the_same_layers(case):
    torch.manual_seed(3)
    module, example = CASES[case][0](), CASES[case][1](2)
    ours, theirs = (pipesim.torch.profile(module, example, exported=exported, repetitions=1).layers
                    for exported in (False, True))
    for key in ("name", "parameters", "weight_bytes", "gradient_bytes", "output_bytes"):
        assert [getattr(layer, key) for layer in ours] == [getattr(layer, key) for layer in theirs]


class Choice(nn.Sequential):
    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else x


def shared():
    block = Block()
    return nn.Sequential(block, Block(), block)


@pytest.mark.parametrize("module, example, given, sentence", [
    (Towers(), torch.randn(2, 8), {}, "Towers has no ModuleList or Sequential of two layers"),
    (Words(), torch.randn(2, 5), {}, "Words fails for the example: RuntimeError: "),
    (Words(), words(2), {"layers": ["blocks.0", "block.1"]}, "Words has no submodule 'block.1'"),
    (Words(), words(2), {"layers": ["blocks.1", "blocks.0"]}, "blocks.0 should run once, after"),
    (Words(), words(2), {"layers": ["table", "blocks.0", "blocks"]}, "blocks does not run"),
    (shared(), torch.randn(2, 8), {}, "2 should run once, after"),
    (pictures(inplace=True), images(2), {}, "2 changes its input in place, which the first layer"),
    (Choice(Block(), Block()), torch.randn(2, 8), {"exported": True},
     "torch.export fails for Choice: "),
    (Words(tied=True), words(2), {"exported": True}, "head.weight is one parameter of several"),
    (Words(), words(2), {"repetitions": 0}, "repetitions: 0 should be 1 or more"),
    (Words(), words(2), {"loss": lambda y: y.detach()}, "needs no gradient"),
    (Words(tied=True), words(2), {}, "table.weight = head.weight is one parameter of several "
     "layers, before blocks.0, after blocks.2: .*; untie it"),
    (Words().to("meta"), words(2).to("meta"), {}, "meta: module and example should be on one"),
])
def test_what_cannot_be_profiled_is_said(module, example, given, sentence):
    with pytest.raises(PipesimError, match=sentence):
        pipesim.torch.profile(module, example, **given)
    assert all(not part._forward_pre_hooks for part in module.modules())


@pytest.mark.parametrize("layout, sentence", [
    ([2, 2], r"\[2, 2\] should be layers of each stage, 1 or more, of 5 in all"),
    ([5, 0], "1 or more"), ([2.5, 2.5], "1 or more"), ("23", "1 or more"),
    ([1, 1, 1, 1, 1], "needs more splits than there are modules from blocks.0 to blocks.2")])
def test_a_layout_of_other_layers_is_refused(layout, sentence):
    with pytest.raises(PipesimError, match=sentence):
        pipesim.torch.profile(Words(), words(2), repetitions=1).split_points(layout)


if __name__ == "__main__":
    run_rank(int(sys.argv[1]), pathlib.Path(sys.argv[2]))
