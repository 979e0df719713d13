"""Measures a model layer by layer, and says where to split it into a pipeline's stages.

    profile = pipesim.torch.profile(module, example_args, loss=lambda y: y.square().mean())
    parts = pipesim.partition(costs=profile.costs(), schedule="1f1b", stages=2, microbatches=8)
    pipe = torch.distributed.pipelining.pipeline(
        module, mb_args=example_args, split_spec=profile.split_points(parts.layout))

Times are those of the machine at hand, as busy as it is then: on processors the host's, with as
many threads as PyTorch has now; on CUDA those of events on the current stream, which has not been
run on a GPU yet. What is not measured: messages between ranks, the optimizer's step and what it
holds, buffers, what a backward takes in addition while it runs, the inputs and outputs that a
pipeline's stage keeps, and what torch.export changes.
"""

import dataclasses
import statistics
import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..errors import PipesimError


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
        layout = list(layout)
        if any(count < 1 for count in layout) or sum(layout) != len(self.layers):
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


def profile(module, example_args, *, layers=None, loss=None, repetitions=7):
    """Measures each layer of `module`, forward and backward; returns a Profile.

    example_args: one microbatch: a tuple of arguments, a dict of keywords, or the only argument.
    layers: names of submodules that run one after the other; default those of the longest
    ModuleList or Sequential. What runs before the first and after the last are layers, too, if
    they have parameters, or else are part of these; what runs between two is part of the first.
    loss: makes of the output what the backward starts from; its time is the last layer's. Without
    it the backward starts from the output.
    repetitions: of which each time is the median, after two to warm up. Gradients are added to
    existing ones, as those of all microbatches but the first are.

    Gradients, buffers and random numbers are afterwards as they were. Raises PipesimError if there
    are no layers, if they do not each run once and in order, if the example can't be run, or if
    layers share a parameter: PyTorch would not sum its gradients over stages.
    """
    names = _names(module, layers)
    args = example_args if isinstance(example_args, tuple) else (example_args,)
    args, kwargs = ((), example_args) if isinstance(example_args, dict) else (args, {})
    run = _Run(module, names, args, kwargs, loss)
    gradients = [(p, p.grad) for p in module.parameters()]
    buffers = [(b, b.clone()) for b in module.buffers()]
    try:
        for p, gradient in gradients:
            p.grad = None if gradient is None else gradient.clone()
        with torch.enable_grad(), torch.random.fork_rng(run.cuda):
            seen = _Seen(module, run)
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
        found.append([forward, backward, sum(p.numel() for p in own), _bytes(own), _bytes(trained),
                      *sizes])
    for end, next_to in ((0, 1), (-1, -2)):  # without parameters it is no layer of its own
        if not held[end]:
            sums = [a + b for a, b in zip(found[end][:-1], found[next_to])]
            found[next_to] = [*sums, found[max(end, next_to)][-1]]
            del found[end], titles[end]
    return Profile([Layer(*each) for each in zip(titles, *zip(*found))], names)


class _Run:
    """A forward and a backward. Place 0 is what runs before the chain of modules, k + 1 its module
    k, and the last what runs after it; mark k stands before place k."""

    def __init__(self, module, names, args, kwargs, loss):
        self.module, self.names, self.inputs, self.loss = module, names, (args, kwargs), loss
        self.last = len(names) + 1
        self.sent = [0] * (self.last + 1)
        devices = {t.device for t in [*module.parameters(), *_tensors(self.inputs)]}
        if len(devices) > 1 or any(device.type not in ("cpu", "cuda") for device in devices):
            raise PipesimError(f"profile: {', '.join(sorted(map(str, devices)))}: module and "
                               "example should be on one device, a processor or CUDA")
        self.cuda = [device for device in devices if device.type == "cuda"]
        chain = [module.get_submodule(name) for name in names]
        self.hooks = [chain[-1].register_forward_hook(
            lambda _, __, output: self._begin(self.last, output))]
        for k, each in enumerate(chain, 1):
            self.hooks.append(each.register_forward_pre_hook(
                lambda _, args, kwargs, k=k: self._begin(k, (args, kwargs)), with_kwargs=True))

    def __call__(self):
        """Of each place the times of forward and backward, ns."""
        args, kwargs = self.inputs
        name = type(self.module).__name__
        self.place, self.forward, self.backward = 0, {0: self._tick()}, {}
        try:
            output = self.module(*args, **kwargs)
        except Exception as error:
            if isinstance(error, PipesimError):
                raise
            raise PipesimError(f"profile: {name} fails for the example: {type(error).__name__}: "
                               f"{error}") from error
        if self.place != self.last:
            raise PipesimError(f"profile: {self.names[self.place]} does not run for the example")
        self.sent[-1] = _bytes(_tensors(output))
        goals = [goal for goal in _tensors(output if self.loss is None else self.loss(output))
                 if goal.requires_grad]
        if not goals:
            raise PipesimError(f"profile: what {name} returns for the example needs no gradient")
        self.forward[self.last + 1] = self.backward[self.last + 1] = self._tick()
        torch.autograd.backward(goals, [torch.ones_like(goal) for goal in goals])
        self.backward[0] = self._tick()
        if self.cuda:
            torch.cuda.synchronize(*self.cuda)
        for k in range(1, self.last + 1):  # below a mark that no gradient passes is no backward
            self.backward.setdefault(k, self.backward[k - 1])
        return [(self._between(self.forward[k], self.forward[k + 1]),
                 self._between(self.backward[k + 1], self.backward[k]))
                for k in range(self.last + 1)]

    def _begin(self, place, inputs):
        if place != self.place + 1:
            name = self.names[min(place, self.last - 1) - 1]
            raise PipesimError(f"profile: {name} should run once, after the layers named before it")
        inputs = [t for t in _tensors(inputs) if not isinstance(t, torch.nn.Parameter)]
        self.place, self.sent[place - 1] = place, _bytes(set(inputs))
        for tensor in inputs:
            if tensor.grad_fn is not None:
                tensor.register_hook(lambda _: self._reached(place))
        self.forward[place] = self._tick()

    def _reached(self, place):
        """The first gradient of a place's inputs is there: autograd runs what was made later in
        the forward first, so nothing of this place and of those after it is left to do."""
        if place not in self.backward:
            self.backward[place] = self._tick()

    def _tick(self):
        if not self.cuda:
            return time.perf_counter_ns()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(*self.cuda))
        return event

    def _between(self, start, end):
        return start.elapsed_time(end) * 1e6 if self.cuda else end - start

    def close(self):
        for hook in self.hooks:
            hook.remove()


class _Seen(TorchDispatchMode):
    """Which place uses which parameters, and how many bytes each keeps for the backward."""

    def __init__(self, module, run):
        super().__init__()
        self.run, self.saved, self.names, self.places = run, [0] * len(run.sent), {}, {}
        for name, p in module.named_parameters(remove_duplicate=False):
            self.names.setdefault(p, []).append(name)
        self.known = {_storage(t) for t in [*module.parameters(), *module.buffers()]}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        for tensor in _tensors((args, kwargs)):
            if tensor in self.names and not self.run.backward:
                self.places.setdefault(tensor, set()).add(self.run.place)
        return function(*args, **(kwargs or {}))

    def pack(self, tensor):
        if _storage(tensor) not in self.known:
            self.known.add(_storage(tensor))
            self.saved[self.run.place] += tensor.untyped_storage().nbytes()
        return tensor

    def parameters(self, titles):
        """Those of each place."""
        held = [[] for _ in titles]
        for p, places in self.places.items():
            if len(places) > 1:
                raise PipesimError(
                    f"profile: {' = '.join(self.names[p])} is one parameter of several layers, "
                    f"{', '.join(titles[k] for k in sorted(places))}: PyTorch does not sum the "
                    "gradients of its copies on several stages; untie it")
            held[places.pop()].append(p)
        return held


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
    known = dict(module.named_modules())
    for layer in layers:
        if not layer or layer not in known:
            raise PipesimError(f"profile: layers: {name} has no submodule {layer!r}")
    return list(layers)


def _tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _bytes(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _storage(tensor):
    return tensor.untyped_storage().data_ptr()
