"""Records a run of torch.distributed.pipelining as a trace that pipesim reads.

    with pipesim.torch.record(schedule, "run.json"):
        for batch in batches:
            schedule.step(batch)
            optimizer.step()
            optimizer.zero_grad()

Every rank of the pipeline runs this; rank 0 writes the file at the end. Then

    pipesim report run.json                     says what limits the run
    pipesim calibrate run.json -o costs.json    gives costs to predict other schedules with
    pipesim compare predicted.json run.json     says where a prediction is off
    pipesim whatif run.json --scale B@stage1=0.8

Times are those of the host's clock on processors and of events on the current stream on CUDA;
the latter has not been run on a GPU yet. On processors a B or F may include waiting for a
processor that another process has; the trace says how long.

torch.profiler may run at the same time, inside or outside. Its file and the trace are two views
of one run, each with its own origin of time: open them in two tabs of ui.perfetto.dev, or give
both to `pipesim compare run.json profiles/`.
"""

import warnings

import torch
import torch.distributed as dist
from torch.distributed.pipelining import schedules
from torch.optim import optimizer as optimizers

from ..errors import PipesimError
from . import clocks, trace

NAMES = {"ScheduleGPipe": "gpipe", "Schedule1F1B": "1f1b", "ScheduleLoopedBFS": "bfs",
         "ScheduleInterleaved1F1B": "interleaved-pytorch",
         "ScheduleInterleavedZeroBubble": "interleaved-zb", "ScheduleZBVZeroBubble": "zb-v",
         "ScheduleDualPipeV": "dualpipe-v"}
COMPUTES = ("forward_one_chunk", "backward_one_chunk", "backward_weight_one_chunk")
MESSAGES = {"get_fwd_recv_ops": "RECV_F", "get_fwd_send_ops": "SEND_F",
            "get_bwd_recv_ops": "RECV_B", "get_bwd_send_ops": "SEND_B"}


class record:
    """Records the steps of a schedule between `with` and its end, on all ranks of its pipeline.

    schedule: of torch.distributed.pipelining, any class.
    path: the trace, FILE.json or FILE.json.gz; rank 0 writes it at the end, whole or not at all.
    optimizer: one or a list, whose steps are recorded; None: all that step meanwhile.
    warmup: how many steps run before the first that is recorded; steps: at most how many are.

    PipesimError at entry, on all ranks, says what can't be recorded: a torch without what this
    needs, ranks with different schedules, a path that can't be written. Later nothing disturbs the
    training: what fails in here is one warning, and no file. An exception of the training ends the
    recording without a file. With several pipelines, as with replicas, give each its own path.
    """

    def __init__(self, schedule, path, optimizer=None, *, warmup=1, steps=100):
        self.schedule, self.path = schedule, str(path)
        self.optimizers = None if optimizer is None else (
            list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer])
        self.warmup, self.most = warmup, steps
        self.on = False        # whether what happens is recorded
        self.failed = None     # why nothing is any more
        self.seen = 0          # steps, warm-up included
        self.step = -1         # the recorded one in progress, or the last
        self.computes, self.messages = [], []
        self.posted = {}       # id of a P2POp -> (kind, stage, microbatch, op)
        self.undo = []         # in order of installing

    # ---- Entry and exit

    def __enter__(self):
        stages, problem = self._look()
        self.stages = stages
        if not dist.is_initialized():
            raise PipesimError("record: call torch.distributed.init_process_group() first")
        group = getattr(stages[0], "group", None) if stages else None
        self.group = dist.group.WORLD if group is None else group
        self.rank, self.size = dist.get_rank(self.group), dist.get_world_size(self.group)
        self.side = dist.new_group(dist.get_process_group_ranks(self.group), backend="gloo",
                                   use_local_synchronization=True)
        try:
            own = {"problem": problem, "home": clocks.home(), "schedule": self._description()}
            everyone = [None] * self.size
            dist.all_gather_object(everyone, own, group=self.side)
            refuse(everyone)
            homes = [one["home"] for one in everyone]
            self.askers = [i for i, home in enumerate(homes) if home != homes[0]]
            self.reading = clocks.reading(self.side, self.rank, self.askers)
            device = torch.device(getattr(stages[0], "device", "cpu"))
            self.clock = (clocks.CudaClock if device.type == "cuda" else clocks.HostClock)(
                *([device] if device.type == "cuda" else []))
            self.taken = clocks.Taken() if device.type == "cpu" else None
            self._install()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind, error, traceback):
        self.on = False
        try:
            if kind is None:
                self._finish()
        except Exception as failure:
            self._fail(failure)
        finally:
            self._remove()
        return False

    def _look(self):
        """The rank's stages, and what can't be recorded about them, or None."""
        stages = getattr(self.schedule, "_stages", None) or [getattr(self.schedule, "_stage", None)]
        if stages[0] is None:
            return [], (f"record: {type(self.schedule).__name__} is no schedule of "
                        "torch.distributed.pipelining")
        needed = [(schedules, "_batch_p2p"), (self.schedule, "_step_microbatches"),
                  (self.schedule, "_maybe_compute_loss"), (self.schedule, "_n_microbatches"),
                  (optimizers, "register_optimizer_step_pre_hook"),
                  (optimizers, "register_optimizer_step_post_hook")]
        needed += [(stage, name) for stage in stages for name in (*COMPUTES, *MESSAGES)]
        for owner, name in needed:
            if not hasattr(owner, name):
                of = getattr(owner, "__name__", type(owner).__name__)
                return stages, (f"record: torch {torch.__version__} has no {of}.{name}, which a "
                                "recording needs; use a version from 2.5 to 2.15")
        if "_step_microbatches" in vars(self.schedule):
            return stages, "record: the schedule is being recorded already"
        if self.warmup < 0 or self.most < 1:
            return stages, "record: give warmup from 0, and steps from 1"
        try:
            trace.check_place(self.path)
        except PipesimError as error:
            return stages, str(error)
        return stages, None

    def _description(self):
        """What all ranks have in common, in words by name."""
        order = getattr(self.schedule, "pipeline_order", None)
        rows = [[str(action) for action in order[rank] if action] for rank in sorted(order)] \
            if order else None
        return {"class": type(self.schedule).__name__,
                "microbatches": getattr(self.schedule, "_n_microbatches", None),
                "order of actions": rows}

    def _fail(self, error):
        """Ends the recording with one warning."""
        self.on = False
        if self.failed is None:
            self.failed = f"{type(error).__name__}: {error}"
            warnings.warn(f"pipesim.torch.record: the recording failed, {self.path} is not written "
                          f"and the training goes on ({self.failed}); please report it",
                          stacklevel=2)

    # ---- Hooks

    def _put(self, owner, name, wrap):
        """Replaces an attribute by what `wrap` makes of it, until the end."""
        old = getattr(owner, name)
        own = name in vars(owner)
        setattr(owner, name, wrap(old))
        self.undo.append(lambda: setattr(owner, name, old) if own else delattr(owner, name))

    def _install(self):
        for stage in self.stages:
            self._put(stage, "forward_one_chunk", self._computing(stage, lambda args, named: "F"))
            self._put(stage, "backward_one_chunk", self._computing(stage, kind_of_backward))
            self._put(stage, "backward_weight_one_chunk",
                      self._computing(stage, lambda args, named: "W"))
            for name, kind in MESSAGES.items():
                self._put(stage, name, self._making(stage, kind))
        self._put(schedules, "_batch_p2p", self._posting)
        self._put(self.schedule, "_maybe_compute_loss", self._losing)
        self._put(self.schedule, "_step_microbatches", self._stepping)
        if self.optimizers is None:
            hooks = [optimizers.register_optimizer_step_pre_hook(self._before_optimizer),
                     optimizers.register_optimizer_step_post_hook(self._after_optimizer)]
        else:
            hooks = [hook for one in self.optimizers for hook in (
                one.register_step_pre_hook(self._before_optimizer),
                one.register_step_post_hook(self._after_optimizer))]
        self.undo += [hook.remove for hook in hooks]

    def _remove(self):
        while self.undo:
            self.undo.pop()()
        self.posted.clear()
        if getattr(self, "taken", None):
            self.taken.close()
        if self.side is not None:
            dist.destroy_process_group(self.side)
            self.side = None

    def _begin(self):
        """What _end wants, or None. No more than one exception of the recorder is ever raised."""
        if not self.on:
            return None
        try:
            return self.taken() if self.taken else 0, self.clock.tick()
        except Exception as error:
            self._fail(error)

    def _end(self, begun, kind, stage, microbatch):
        if begun is None or not self.on:
            return
        try:
            tick = self.clock.tick()
            taken = self.taken() - begun[0] if self.taken else 0
            self.computes.append((kind, stage, microbatch, self.step, begun[1], tick, taken,
                                  self.clock.allocated()))
        except Exception as error:
            self._fail(error)

    def _computing(self, stage, kind_of):
        def wrap(old):
            def computing(*args, **named):
                begun = self._begin()
                result = old(*args, **named)
                if begun is not None:
                    self._end(begun, kind_of(args, named), stage.stage_index, args[0])
                return result
            return computing
        return wrap

    def _losing(self, old):
        def losing(stage, output, targets, microbatch, *args, **named):
            begun = self._begin() if stage.is_last else None
            result = old(stage, output, targets, microbatch, *args, **named)
            self._end(begun, "LOSS", stage.stage_index, microbatch)
            return result
        return losing

    def _making(self, stage, kind):
        def wrap(old):
            def making(*args, **named):
                ops = old(*args, **named)
                if self.on:
                    try:
                        for op in ops:
                            self.posted[id(op)] = (kind, stage.stage_index, args[0], op)
                    except Exception as error:
                        self._fail(error)
                return ops
            return making
        return wrap

    def _posting(self, old):
        def posting(ops, *args, **named):
            if not self.on:
                return old(ops, *args, **named)
            known = list(ops)  # some versions clear theirs
            begun = self._begin()
            works = old(ops, *args, **named)
            return works if begun is None else self._posted(known, begun[1], works)
        return posting

    def _posted(self, ops, tick, works):
        """Notes messages; returns what stands for their Works."""
        try:
            messages = []
            for op in ops:
                what = self.posted.pop(id(op), None)
                message = None
                if what is not None:
                    size = op.tensor.numel() * op.tensor.element_size()
                    message = [*what[:3], self.step, tick, None, None, size]
                    self.messages.append(message)
                messages.append(message)
            if works is None or not any(messages):
                return works
            one = not isinstance(works, (list, tuple))
            listed = [works] if one else list(works)
            # One Work for all of a batch, or for the last of them, ends them all.
            alone = len(listed) == len(messages)
            stand_ins = [Waited(work, self, [messages[i]] if alone else messages)
                         for i, work in enumerate(listed)]
            return stand_ins[0] if one else stand_ins
        except Exception as error:
            self._fail(error)
            return works

    def _waited(self, messages, tick):
        try:
            end = self.clock.tick()
            for message in messages:
                if message is not None and message[6] is None:
                    message[5:7] = tick, end
        except Exception as error:
            self._fail(error)

    def _stepping(self, old):
        def stepping(*args, **named):
            self._start_step()
            return old(*args, **named)
        return stepping

    def _start_step(self):
        trains = getattr(self.schedule, "_has_backward", True)
        self.on = trains and self.failed is None and self.warmup <= self.seen < self.warmup + self.most
        self.seen += 1 if trains else 0
        if self.on:
            self.step += 1
            begun = self._begin()
            if begun is not None:
                self.clock.start_step(begun[1])

    def _before_optimizer(self, *_):
        self.stepping_since = self._begin()

    def _after_optimizer(self, *_):
        stage = min(stage.stage_index for stage in self.stages)
        self._end(self.stepping_since, "OPTIMIZER", stage, None)

    # ---- What was recorded

    def _finish(self):
        own = {"rank": self.rank, "failed": self.failed, "steps": self.step + 1, "seen": self.seen}
        reading = clocks.reading(self.side, self.rank, self.askers)
        if self.failed is None:
            try:
                own.update(self._recorded(clocks.Line(self.reading, reading)))
            except Exception as error:
                self._fail(error)
                own["failed"] = self.failed
        everyone = [None] * self.size if self.rank == 0 else None
        dist.gather_object(own, everyone, dst=dist.get_process_group_ranks(self.side)[0],
                           group=self.side)
        if self.rank != 0 or any(one["failed"] for one in everyone):
            return  # the one that failed has said so
        problem = disagreement("recorded", {one["rank"]: f"{one['steps']} steps" for one in everyone})
        if self.step < 0:
            problem = (f"no step was recorded: {self.seen} ran, and the first {self.warmup} are "
                       "warm-up; run more, or give a smaller warmup")
        if problem:
            warnings.warn(f"pipesim.torch.record: {self.path} is not written: {problem}",
                          stacklevel=3)
            return
        about = {"schedule": NAMES.get(type(self.schedule).__name__, ""), "warmup": self.warmup,
                 "microbatches": self.schedule._n_microbatches, "device": self.clock.device,
                 "transport": dist.get_backend(self.group), "torch": torch.__version__}
        trace.write_whole(self.path, trace.text_of(everyone, about))

    def _recorded(self, line):
        """This rank's part, as trace.py takes it."""
        ns_of = self.clock.settle()

        def when(tick, step):
            return None if tick is None else line(ns_of(tick, step))

        parameters = [p for stage in self.stages for p in stage.submod.parameters()]
        states = {"weights": sum(map(bytes_of, parameters)),
                  "gradients": sum(bytes_of(p) for p in parameters if p.requires_grad),
                  "optimizer": sum(bytes_of(value) for one in self.optimizers or []
                                   for state in one.state.values() for value in state.values()
                                   if isinstance(value, torch.Tensor))}
        return {
            "stages": [stage.stage_index for stage in self.stages],
            "computes": [(*what, step, when(start, step), when(end, step), taken, allocated)
                         for *what, step, start, end, taken, allocated in self.computes],
            "messages": [(*what, step, when(at, step), when(start, step), when(end, step), size)
                         for *what, step, at, start, end, size in self.messages],
            "states": states, "peak_bytes": self.clock.peak_bytes(),
            "clock": line.metadata() if self.askers else None}


class Waited:
    """Stands for a Work, and notes when it was waited for."""

    __slots__ = ("_work", "_recorder", "_messages")

    def __init__(self, work, recorder, messages):
        self._work, self._recorder, self._messages = work, recorder, messages

    def wait(self, *args, **named):
        begun = self._recorder._begin() if self._messages else None
        result = self._work.wait(*args, **named)
        if begun is not None:
            messages, self._messages = self._messages, None
            self._recorder._waited(messages, begun[1])
        return result

    def __getattr__(self, name):
        return getattr(self._work, name)


def bytes_of(tensor):
    return tensor.numel() * tensor.element_size()


def kind_of_backward(args, named):
    return "B" if named.get("full_backward", args[2] if len(args) > 2 else True) else "I"


def disagreement(what, by_rank):
    """Says which ranks differ from rank 0, or None."""
    groups = {}
    for rank in sorted(by_rank):
        groups.setdefault(by_rank[rank], []).append(rank)
    if len(groups) == 1:
        return None
    return f"ranks {what} differently: " + "; ".join(
        f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}: {text}"
        for text, ranks in groups.items())


def refuse(everyone):
    """Raises PipesimError if a rank has a problem, or their schedules differ."""
    for rank, one in enumerate(everyone):
        if one["problem"]:
            text = one["problem"]
            raise PipesimError(text if all(other["problem"] == text for other in everyone)
                               else f"rank {rank}: {text}")
    for name in everyone[0]["schedule"]:
        values = [one["schedule"][name] for one in everyone]
        if any(value != values[0] for value in values):
            words = {}
            for rank, value in enumerate(values):
                same = values.index(value)
                words[rank] = f"like rank {same}'s" if isinstance(value, list) else f"{value}"
            raise PipesimError(f"record: {disagreement(f'have the {name} of their schedules', words)}"
                               "; give all ranks the same schedule")
