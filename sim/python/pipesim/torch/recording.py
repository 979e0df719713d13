"""What all recorders share: entry, exit, and the file.

A recorder derives from Recording, and says by `_look` what this rank has of a pipeline, by `_needed`
what hooks go on, and by `Hooks` what they note. Entry and exit are collective within the pipeline,
rank 0 writes one file, and from entry on nothing disturbs the training.
"""

import contextlib
import os
import warnings

import torch
import torch.distributed as dist

from ..errors import PipesimError
from . import clocks, trace

TRANSPORTS = {"gloo": "tcp"}  # what carries its messages; others are named as torch does


class Recording(contextlib.ContextDecorator):
    """Records a pipeline within `with`, or a function's call, on all its ranks."""

    Hooks: type          # made of schedule, stages, warmup, steps, clock, taken, and what fails
    name = trainer = ""  # of this recorder, and of the trainer with its version
    hint = ""            # added to the sentence that no step was recorded

    def __init__(self, path, optimizer=None, *, warmup=1, steps=20):
        self.path, self.warmup, self.most = os.path.abspath(path), warmup, steps
        self.optimizers = [optimizer] if hasattr(optimizer, "step") else optimizer
        self.schedule = None  # has _n_microbatches
        self.hooks = self.taken = self.failure = None

    def _look(self):
        """This rank's schedule, stages, group (None: all ranks) and device. Raises AttributeError
        if the trainer has no such thing."""
        raise NotImplementedError

    def _needed(self):
        """Where hooks go, as (owner, name)."""
        raise NotImplementedError

    def _alike(self):
        """What ranks must have in common, by name."""
        return {"microbatches": self.schedule._n_microbatches}

    def _schedule_name(self):
        """pipesim's, or "" if it has none."""
        return ""

    # ---- Entry and exit

    def __enter__(self):
        if not dist.is_initialized():
            raise PipesimError("record: call torch.distributed.init_process_group() first")
        try:
            self.schedule, stages, group, device = self._look()
        except AttributeError as error:
            raise PipesimError(f"record: {self.trainer} lacks what a recording needs: {error}")
        self.group = dist.group.WORLD if group is None else group
        self.rank, self.ranks = dist.get_rank(self.group), dist.get_process_group_ranks(self.group)
        self.side = side_group(self.ranks)
        try:
            everyone = [None] * len(self.ranks)
            dist.all_gather_object(everyone, {
                "problem": self._problem(), "home": clocks.home(), "schedule": self._alike()},
                group=self.side)
            refuse(everyone)
            homes = [one["home"] for one in everyone]
            self.askers = [i for i, home in enumerate(homes) if home != homes[0]]
            self.reading = clocks.reading(self.side, self.rank, self.askers)
            on_gpu = device.type == "cuda"
            self.clock = clocks.CudaClock(device) if on_gpu else clocks.HostClock()
            self.taken = None if on_gpu else clocks.Taken()
            self.hooks = self.Hooks(self.schedule, stages, self.warmup, self.most, self.clock,
                                    self.taken, self._fail)
            self.hooks.install(self.optimizers)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, kind, error, traceback):
        try:
            self.hooks.on = False
            if kind is None:
                self._finish()
        except Exception as failure:
            self._fail(failure)
        try:
            self._leave()
        except Exception as failure:
            self._fail(failure)
        return False

    def _leave(self):
        """Everything is as it was before."""
        if self.hooks is not None:
            self.hooks.remove()
        if self.taken is not None:
            self.taken.close()

    def _problem(self):
        """What can't be recorded, or None."""
        for owner, name in self._needed():
            of = getattr(owner, "__qualname__", getattr(owner, "__name__", type(owner).__name__))
            if not hasattr(owner, name):
                return (f"record: {self.trainer} has no {of}.{name}, which a recording needs; use "
                        "another version")
            if getattr(vars(owner).get(name), "recorded", False):
                return f"record: {of}.{name} is being recorded already"
        if not all(isinstance(n, int) for n in (self.warmup, self.most)) or (
                self.warmup < 0 or self.most < 1):
            return "record: give warmup from 0, and steps from 1"
        known = self.optimizers is None or isinstance(self.optimizers, (list, tuple))
        if not known or not all(hasattr(one, "step") for one in self.optimizers or []):
            return "record: optimizer: give an optimizer, a list of them, or None"
        try:
            trace.check_place(self.path)
        except PipesimError as error:
            return str(error)
        return None

    def _fail(self, error):
        """Says once that there is no recording, and why."""
        if self.failure is None:
            self.failure = f"{type(error).__name__}: {error}"
            self._warn(f"{self.failure}; the training goes on; please report this")

    def _warn(self, why):
        warnings.warn(f"{self.name}: {self.path} is not written: {why}", stacklevel=2)

    # ---- What was recorded

    def _finish(self):
        """Rank 0 gathers what all noted, and writes it."""
        reading = clocks.reading(self.side, self.rank, self.askers)
        own = {"rank": self.rank, "steps": self.hooks.step + 1}
        if self.failure is None and self.hooks.step >= 0:
            try:
                own.update(self._noted(clocks.Line(self.reading, reading)))
            except Exception as error:
                self._fail(error)
        own["failed"] = self.failure is not None
        everyone = [None] * len(self.ranks) if self.rank == 0 else None
        dist.gather_object(own, everyone, dst=self.ranks[0], group=self.side)
        if self.rank != 0 or any(one["failed"] for one in everyone):
            return  # the one that failed has said so
        problem = disagreement("recorded", [f"{one['steps']} steps" for one in everyone])
        if self.hooks.step < 0:
            problem = (f"no step was recorded: {self.hooks.seen} were seen, and the first "
                       f"{self.warmup} are warm-up; run more, or give a smaller warmup{self.hint}")
        if problem:
            self._warn(problem)
            return
        backend = dist.get_backend(self.group)
        trace.write_whole(self.path, trace.text_of(everyone, {
            "schedule": self._schedule_name(), "warmup": self.warmup,
            "microbatches": self.schedule._n_microbatches, "device": self.clock.device,
            "transport": TRANSPORTS.get(backend, backend),
            "by": ", ".join(dict.fromkeys([self.name, self.trainer, f"torch {torch.__version__}",
                                           backend]))}))

    def _noted(self, line):
        """This rank's part, as trace.py takes it."""
        ns_of = self.clock.settle()

        def when(step, *ticks):
            return (None if tick is None else line(ns_of(tick, step)) for tick in ticks)

        hooks = self.hooks
        return {
            "stages": [stage.stage_index for stage in hooks.stages],
            "computes": [(*what, step, *when(step, start, end), *more)
                         for *what, step, start, end, more in map(split_compute, hooks.computes)],
            "messages": [(*what, step, *when(step, posted, start, end), size)
                         for *what, step, posted, start, end, size in hooks.messages],
            "states": self._states(), "peak_bytes": self.clock.peak_bytes(),
            "clock": line.metadata() if self.askers else None}

    def _states(self):
        """Bytes that the rank holds all the time; those of an optimizer only if it was given."""
        parameters = [p for stage in self.hooks.stages for p in stage.submod.parameters()]
        known = [one for one in self.optimizers or [] if isinstance(one, torch.optim.Optimizer)]
        held = [value for one in known for state in one.state.values()
                for value in state.values() if isinstance(value, torch.Tensor)]
        return {"weights": sum(map(bytes_of, parameters)),
                "gradients": sum(bytes_of(p) for p in parameters if p.requires_grad),
                "optimizer": sum(map(bytes_of, held))}


_side_groups: dict = {}


def side_group(ranks):
    """A gloo group of these ranks, one for all recordings.

    It ends with torch's other groups: gloo can hang if a group is destroyed right after its use.
    """
    group = _side_groups.get(tuple(ranks))
    try:
        if group is not None and dist.get_process_group_ranks(group) == ranks:
            return group
    except (KeyError, ValueError, RuntimeError):
        pass  # of a process group that was destroyed since
    group = dist.new_group(ranks, backend="gloo", use_local_synchronization=True)
    _side_groups[tuple(ranks)] = group
    return group


def split_compute(noted):
    return (*noted[:6], noted[6:])


def bytes_of(tensor):
    return tensor.numel() * tensor.element_size()


def disagreement(what, texts):
    """Says which ranks, by their texts, do `what` differently; None if none does."""
    ranks_of = {}
    for rank, text in enumerate(texts):
        ranks_of.setdefault(text, []).append(rank)
    if len(ranks_of) == 1:
        return None
    return f"ranks {what} differently: " + "; ".join(
        f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}: {text}"
        for text, ranks in ranks_of.items())


def refuse(everyone):
    """Raises PipesimError if a rank has a problem, or their schedules differ."""
    problems = [one["problem"] for one in everyone]
    for rank, problem in enumerate(problems):
        if problem:
            alike = all(other == problem for other in problems)
            raise PipesimError(problem if alike else f"rank {rank}: {problem}")
    for name in everyone[0]["schedule"]:
        values = [one["schedule"][name] for one in everyone]
        texts = [f"as rank {values.index(value)}" if isinstance(value, list) else str(value)
                 for value in values]
        difference = disagreement(f"have the {name} of their schedules", texts)
        if difference:
            raise PipesimError(f"record: {difference}; give all ranks the same schedule")
