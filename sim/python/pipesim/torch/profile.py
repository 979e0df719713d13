"""Measures a model layer by layer, and says where to split it into a pipeline's stages.

    profile = pipesim.torch.profile(module, example_args, loss=lambda y: y.square().mean(),
                                    exported=True)
    parts = pipesim.partition(costs=profile.costs(), schedule="1f1b", stages=2, microbatches=8)
    pipe = torch.distributed.pipelining.pipeline(
        module, mb_args=example_args, split_spec=profile.split_points(parts.layout))

Times are those of the machine at hand, as busy as it is then: on processors the host's, with as
many threads as PyTorch has now; on CUDA those of events on the current stream, which has not been
run on a GPU yet. What is not measured: messages between ranks, the optimizer's step and what it
holds, buffers, what a backward takes in addition while it runs, and the inputs and outputs that a
pipeline's stage keeps.
"""

import dataclasses
import statistics

import torch

from ..errors import PipesimError
from .passes import Pass, Seen, bytes_of


@dataclasses.dataclass(frozen=True)
class Layer:
    """A part of a model that no split divides; times and bytes are for one microbatch.

    parameters: how many; weight_bytes and gradient_bytes: theirs, all the time.
    activation_bytes: what is kept for the backward, except parameters and buffers; what two layers
    keep counts in the first. output_bytes: all tensors given to the next layer.
    """

    name: str
    forward_ns: int
    backward_ns: int
    parameters: int
    weight_bytes: int
    gradient_bytes: int
    activation_bytes: int
    output_bytes: int


class Profile:
    """The layers of a model in the order in which they run, and what follows from them."""

    def __init__(self, layers, chain):
        self.layers, self._chain = layers, chain  # chain: names of the modules among the layers

    def costs(self, **more):
        """A costs.json by layers, for `costs=`. `more` are further keys of one, such as
        p2p={"latency_ns": 50_000}: without it messages take no time."""
        layers = [dataclasses.asdict(layer) for layer in self.layers]
        for layer in layers:
            del layer["name"]
        return {"format": "pipesim-costs", "version": 1, "layers": layers, **more}

    def split_points(self, layout):
        """The `split_spec` of torch.distributed.pipelining.pipeline for `layout`, the number of
        layers of each stage. `pipeline` changes the modules it splits at: split a copy.
        Raises PipesimError if the layout is not one of these layers."""
        from torch.distributed.pipelining import SplitPoint
        whole = all(isinstance(count, int) and count > 0 for count in layout)
        if not whole or sum(layout) != len(self.layers):
            raise PipesimError(f"split_points: {layout} should be layers of each stage, 1 or more, "
                               f"of {len(self.layers)} in all")
        spec, begin = {}, len(self.layers)
        for count in reversed(layout[1:]):  # a module has one split: its END serves the next one
            begin -= count
            name = self.layers[begin].name
            if name in self._chain and name not in spec:
                spec[name] = SplitPoint.BEGINNING
                continue
            before = self.layers[begin - 1].name
            if before not in self._chain:
                raise PipesimError(f"split_points: {layout} needs more splits than there are "
                                   f"modules from {self._chain[0]} to {self._chain[-1]}")
            spec[before] = SplitPoint.END
        return dict(reversed(spec.items()))


def profile(module, example_args, *, layers=None, loss=None, exported=False,
            repetitions=7):
    """Measures each layer of `module`, forward and backward; returns a Profile.

    example_args: one microbatch: a tuple of arguments, a dict of keywords, or the only argument.
    layers: names of submodules that run one after the other; default those of the longest
    ModuleList or Sequential. What runs before the first and after the last are layers, too, if
    they have parameters, or else are part of these; what runs between two is part of the first.
    loss: makes of the output what the backward starts from; its time is the last layer's. Without
    it the backward starts from the output.
    exported: measures what torch.export makes of the module, as `pipeline` runs it: an interpreter,
    slower where operations are small. It takes the memory of a second copy.
    repetitions: of which each time is the median, after two to warm up. Gradients are added to
    existing ones, as those of all microbatches but the first are.

    Gradients, buffers and random numbers are afterwards as they were. Raises PipesimError if there
    are no layers, if they do not each run once and in order, if one changes its input in place, if
    the example can't be run, or if layers share a parameter: PyTorch would not sum its gradients
    over stages.
    """
    if repetitions < 1:
        raise PipesimError(f"profile: repetitions: {repetitions} should be 1 or more")
    if not isinstance(module, torch.nn.Module):
        raise PipesimError(f"profile: a {type(module).__name__} is no torch.nn.Module")
    names = _names(module, layers)
    args = example_args if isinstance(example_args, tuple) else (example_args,)
    args, kwargs = ((), example_args) if isinstance(example_args, dict) else (args, {})
    if exported:
        try:
            module = torch.export.unflatten(torch.export.export(module, args, kwargs))
        except Exception as error:
            raise PipesimError(f"profile: torch.export fails for {type(module).__name__}: "
                               f"{type(error).__name__}: {error}") from error
    run = Pass(module, names, args, kwargs, loss)
    gradients = [(p, p.grad) for p in module.parameters()]
    buffers = [(b, b.clone()) for b in module.buffers()]
    try:
        for p, gradient in gradients:
            p.grad = None if gradient is None else gradient.clone()
        with torch.enable_grad(), torch.random.fork_rng(run.cuda):
            seen = Seen(module, run)
            with seen, torch.autograd.graph.saved_tensors_hooks(seen.pack, lambda kept: kept):
                run()
            run()
            times = [run() for _ in range(repetitions)]
    finally:
        run.close()
        for p, gradient in gradients:
            p.grad = gradient
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
    titles = [f"before {names[0]}", *names, f"after {names[-1]}"]
    held = seen.parameters(titles)
    found = []  # of each place its times, parameters, and bytes kept and sent
    for way, own, *sizes in zip(zip(*times), held, seen.saved, run.sent):
        forward, backward = (round(statistics.median(each)) for each in zip(*way))
        trained = [p for p in own if p.requires_grad]
        found.append([forward, backward, sum(p.numel() for p in own), bytes_of(own),
                      bytes_of(trained), *sizes])
    for end, next_to in ((0, 1), (-1, -2)):  # without parameters it is no layer of its own
        if not held[end]:
            sums = [a + b for a, b in zip(found[end][:-1], found[next_to])]
            found[next_to] = [*sums, found[max(end, next_to)][-1]]  # the later one's output
            del found[end], titles[end]
    return Profile([Layer(*each) for each in zip(titles, *zip(*found))], names)


def _names(module, layers):
    """Of the modules to split at, in order."""
    name = type(module).__name__
    if layers is None:
        path, chain = max(((path, part) for path, part in module.named_modules()
                           if isinstance(part, (torch.nn.ModuleList, torch.nn.Sequential))),
                          key=lambda found: len(found[1]), default=("", ()))
        layers = [f"{path}.{k}".lstrip(".") for k, _ in enumerate(chain)]
    if len(layers) < 2:
        raise PipesimError(f"profile: {name} has no ModuleList or Sequential of two layers or "
                           "more; name the submodules to split at: layers=[...]")
    known = dict(module.named_modules(remove_duplicate=False))
    for layer in layers:
        if not layer or layer not in known or layers.count(layer) > 1:
            raise PipesimError(f"profile: layers: {name} has no submodule {layer!r}, or it is "
                               "named twice")
    return list(layers)
