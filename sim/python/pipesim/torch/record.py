"""Records a run of torch.distributed.pipelining as a trace that pipesim reads.

    with pipesim.torch.record(schedule, "run.json"):
        for x, y in batches:
            schedule.step(x, target=y)
            optimizer.step()
            optimizer.zero_grad()

All ranks of the pipeline run this; rank 0 writes one file at the end. Then

    pipesim report run.json                        what limits the run
    pipesim calibrate run.json -o costs.json       costs, to predict other schedules with
    pipesim compare predicted.json run.json        where a prediction is off, and why
    pipesim whatif run.json --scale B@stage1=0.8   how long with something changed

It needs torch alone, whose exchange of objects between ranks needs numpy.

A recording of one chunk per rank gives costs for schedules of one chunk, one of
ScheduleLoopedBFS with two chunks those for schedules of two.

Times are the host's on processors, and on CUDA those of events on the current stream; the latter
has not been run on a GPU yet. The time of a loss belongs to the last stage's forward. On
processors the trace says for how long of an action another process had the rank's processor.

torch.profiler may run at the same time, inside or outside, and sees what runs within an action.
Open its file and the trace in two tabs of ui.perfetto.dev: each counts from its own first event,
and the first forward that was recorded is 0F0.
"""

import warnings

import torch
import torch.distributed as dist

from ..errors import PipesimError
from . import clocks, trace
from .hooks import Hooks, needed

NAMES = {"ScheduleGPipe": "gpipe", "Schedule1F1B": "1f1b", "ScheduleLoopedBFS": "bfs",
         "ScheduleInterleaved1F1B": "interleaved-pytorch",
         "ScheduleInterleavedZeroBubble": "interleaved-zb", "ScheduleZBVZeroBubble": "zb-v",
         "ScheduleDualPipeV": "dualpipe-v"}
TRANSPORTS = {"gloo": "tcp"}  # what carries its messages; others are named as torch does


class record:
    """Records the steps of a schedule within `with`, on all ranks of its pipeline.

    schedule: of torch.distributed.pipelining, any class, also one that runs a CSV file.
    path: FILE.json or FILE.json.gz; rank 0 writes it at the end, whole or not at all.
    optimizer: one or a list, whose steps are recorded; None: all that step meanwhile.
    warmup: how many steps run before the first recorded one; steps: how many are, at most.

    Raises PipesimError at entry, on all ranks, if something can't be recorded: a torch that lacks
    what this needs, ranks with different schedules, a path that can't be written. From then on
    nothing disturbs the training: what goes wrong in here is one warning, and no file. An
    exception of the training passes, and leaves no file. Entry and exit are collective: ranks wait
    for each other. Of several pipelines, as with replicas, each records by itself: give each its
    own path.
    """

    def __init__(self, schedule, path, optimizer=None, *, warmup=1, steps=20):
        self.schedule, self.path = schedule, str(path)
        self.warmup, self.most = warmup, steps
        self.optimizers = [optimizer] if hasattr(optimizer, "step") else optimizer
        self.hooks = self.side = self.taken = self.failure = None

    # ---- Entry and exit

    def __enter__(self):
        if not dist.is_initialized():
            raise PipesimError("record: call torch.distributed.init_process_group() first")
        stages = [stage for stage in getattr(self.schedule, "_stages", None) or
                  [getattr(self.schedule, "_stage", None)] if stage is not None]
        group = getattr(stages[0], "group", None) if stages else None
        self.group = dist.group.WORLD if group is None else group
        self.rank = dist.get_rank(self.group)
        self.ranks = dist.get_process_group_ranks(self.group)
        self.side = dist.new_group(self.ranks, backend="gloo", use_local_synchronization=True)
        try:
            everyone = [None] * len(self.ranks)
            dist.all_gather_object(everyone, {
                "problem": self._problem(stages), "home": clocks.home(),
                "schedule": description(self.schedule)}, group=self.side)
            refuse(everyone)
            homes = [one["home"] for one in everyone]
            self.askers = [i for i, home in enumerate(homes) if home != homes[0]]
            self.reading = clocks.reading(self.side, self.rank, self.askers)
            device = torch.device(getattr(stages[0], "device", "cpu"))
            on_gpu = device.type == "cuda"
            self.clock = clocks.CudaClock(device) if on_gpu else clocks.HostClock()
            self.taken = None if on_gpu else clocks.Taken()
            self.hooks = Hooks(self.schedule, stages, self.warmup, self.most, self.clock,
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
        if self.side is not None:
            dist.destroy_process_group(self.side)
            self.side = None

    def _problem(self, stages):
        """What can't be recorded, or None."""
        if not stages:
            return (f"record: {type(self.schedule).__name__} is no schedule of "
                    "torch.distributed.pipelining")
        for owner, name in needed(self.schedule, stages):
            if not hasattr(owner, name):
                of = getattr(owner, "__name__", type(owner).__name__)
                return (f"record: torch {torch.__version__} has no {of}.{name}, which a recording "
                        "needs; use another version, such as 2.15")
        if "_step_microbatches" in vars(self.schedule):
            return "record: the schedule is being recorded already"
        if self.warmup < 0 or self.most < 1:
            return "record: give warmup from 0, and steps from 1"
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
        warnings.warn(f"pipesim.torch.record: {self.path} is not written: {why}", stacklevel=2)

    # ---- What was recorded

    def _finish(self):
        """Rank 0 gathers what all noted, and writes it."""
        reading = clocks.reading(self.side, self.rank, self.askers)
        own = {"rank": self.rank, "steps": self.hooks.step + 1}
        if self.failure is None:
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
            problem = (f"no step was recorded: {self.hooks.seen} ran, and the first {self.warmup} "
                       "are warm-up; run more, or give a smaller warmup")
        if problem:
            self._warn(problem)
            return
        backend = dist.get_backend(self.group)
        trace.write_whole(self.path, trace.text_of(everyone, {
            "schedule": NAMES.get(type(self.schedule).__name__, ""), "warmup": self.warmup,
            "microbatches": self.schedule._n_microbatches, "device": self.clock.device,
            "transport": TRANSPORTS.get(backend, backend),
            "by": f"pipesim.torch.record, torch {torch.__version__}, {backend}"}))

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
        held = [value for one in self.optimizers or [] for state in one.state.values()
                for value in state.values() if isinstance(value, torch.Tensor)]
        return {"weights": sum(map(bytes_of, parameters)),
                "gradients": sum(bytes_of(p) for p in parameters if p.requires_grad),
                "optimizer": sum(map(bytes_of, held))}


def split_compute(noted):
    return (*noted[:6], noted[6:])


def bytes_of(tensor):
    return tensor.numel() * tensor.element_size()


def description(schedule):
    """What ranks must have in common, by name."""
    order = getattr(schedule, "pipeline_order", None) or {}
    return {"class": type(schedule).__name__,
            "microbatches": getattr(schedule, "_n_microbatches", None),
            "order of actions": [[str(action) for action in order[rank] if action is not None]
                                 for rank in sorted(order)]}


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
