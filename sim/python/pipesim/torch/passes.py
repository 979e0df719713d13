"""One forward and backward of a model, with the time and the bytes of each of its layers."""

import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..errors import PipesimError


class Pass:
    """A forward and a backward. Place 0 is what runs before the chain of modules, k + 1 its module
    k, and the last what runs after it; mark k stands before place k."""

    def __init__(self, module, names, args, kwargs, loss):
        self.module, self.names, self.inputs, self.loss = module, names, (args, kwargs), loss
        self.last = len(names) + 1
        self.sent = [0] * (self.last + 1)
        devices = {t.device for t in [*module.parameters(), *tensors_of(self.inputs)]}
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
        self.place, self.given, self.forward, self.backward = 0, [], {0: self._tick()}, {}
        try:
            output = self.module(*args, **kwargs)
        except Exception as error:
            if isinstance(error, PipesimError):
                raise
            raise PipesimError(f"profile: {name} fails for the example: {type(error).__name__}: "
                               f"{error}") from error
        if self.place != self.last:
            raise PipesimError(f"profile: {self.names[self.place]} does not run for the example")
        self.sent[-1] = bytes_of(tensors_of(output))
        goals = [goal for goal in tensors_of(output if self.loss is None else self.loss(output))
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
        if any(tensor._version != version for tensor, version in self.given):
            raise PipesimError(f"profile: {self.names[place - 2]} changes its input in place, which"
                               " the first layer of a stage can't: give it inplace=False")
        inputs = [t for t in tensors_of(inputs) if not isinstance(t, torch.nn.Parameter)]
        self.given = [(t, t._version) for t in inputs if t.requires_grad]
        self.place, self.sent[place - 1] = place, bytes_of(set(inputs))
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


class Seen(TorchDispatchMode):
    """Which place uses which parameters, and how many bytes each keeps for the backward."""

    def __init__(self, module, run):
        super().__init__()
        self.run, self.saved, self.names, self.places = run, [0] * len(run.sent), {}, {}
        for name, p in module.named_parameters(remove_duplicate=False):
            self.names.setdefault(p, []).append(name)
        self.known = {storage_of(t) for t in [*module.parameters(), *module.buffers()]}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        for tensor in tensors_of((args, kwargs)):
            if tensor in self.names and not self.run.backward:
                self.places.setdefault(tensor, set()).add(self.run.place)
        return function(*args, **(kwargs or {}))

    def pack(self, tensor):
        if storage_of(tensor) not in self.known:
            self.known.add(storage_of(tensor))
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


def tensors_of(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def bytes_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def storage_of(tensor):
    return tensor.untyped_storage().data_ptr()
