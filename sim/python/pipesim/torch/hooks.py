"""What a recording puts around a schedule's own methods, and what they then note.

Nothing in here changes what a method gets or returns, except that a Waited stands for each Work.
An exception of the recorder itself ends the recording and goes to `fail`; those of the training
pass through.
"""

import functools

from torch.distributed.pipelining import schedules
from torch.optim import optimizer as optimizers

COMPUTES = {"forward_one_chunk": lambda args, named: "F",
            "backward_one_chunk":
                lambda args, named: "B" if full_backward(*args[2:], **named) else "I",
            "backward_weight_one_chunk": lambda args, named: "W"}
MESSAGES = {"get_fwd_recv_ops": "RECV_F", "get_fwd_send_ops": "SEND_F",
            "get_bwd_recv_ops": "RECV_B", "get_bwd_send_ops": "SEND_B"}
GLOBAL_HOOKS = ("register_optimizer_step_pre_hook", "register_optimizer_step_post_hook")


def full_backward(full_backward=True, *_, **__):
    return full_backward


def needed(schedule, stages):
    """What must be there, as (owner, name)."""
    return [(schedules, "_batch_p2p"), *((optimizers, name) for name in GLOBAL_HOOKS),
            *((schedule, name) for name in ("_step_microbatches", "_maybe_compute_loss",
                                            "_n_microbatches")),
            *((stage, name) for stage in stages for name in (*COMPUTES, *MESSAGES))]


class Hooks:
    """Notes what a rank does in the steps from `warmup` on, at most `most` of them.

    `clock` gives ticks, `taken` how long others had the thread's processor, or None.
    """

    def __init__(self, schedule, stages, warmup, most, clock, taken, fail):
        self.schedule, self.stages = schedule, stages
        self.warmup, self.most = warmup, most
        self.clock, self.taken, self._tell = clock, taken, fail
        self.on = False       # whether what happens is noted
        self.failed = False   # then nothing is any more
        self.seen = 0         # steps, warm-up included
        self.step = -1        # the noted one in progress, or the last
        self.computes = []    # (kind, stage, microbatch, step, start, end, taken, allocated)
        self.messages = []    # [kind, stage, microbatch, step, posted, wait, its end, bytes]
        self.made = {}        # by id, P2POps that are not posted: (kind, stage, microbatch, op)
        self._optimizer_start = None
        self._undo = []       # in order of installing

    # ---- To have and to lose

    def install(self, own_optimizers):
        """Puts hooks in; of `own_optimizers`, or, if that is None, of all that step."""
        for stage in self.stages:
            for name, kind_of in COMPUTES.items():
                self._put(stage, name, self._computing(stage, kind_of))
            for name, kind in MESSAGES.items():
                self._put(stage, name, self._making(stage, kind))
        self._put(schedules, "_batch_p2p", self._posting)
        self._put(self.schedule, "_maybe_compute_loss", self._losing)
        self._put(self.schedule, "_step_microbatches", self._stepping)
        pairs = [(one.register_step_pre_hook, one.register_step_post_hook)
                 for one in own_optimizers or []]
        if own_optimizers is None:
            pairs = [tuple(getattr(optimizers, name) for name in GLOBAL_HOOKS)]
        for before, after in pairs:
            self._undo += [before(self._before_optimizer).remove,
                           after(self._after_optimizer).remove]

    def remove(self):
        self.on = False
        while self._undo:
            self._undo.pop()()
        self.made.clear()

    def _put(self, owner, name, wrap):
        """Replaces an attribute by what `wrap` makes of it."""
        old, is_own = getattr(owner, name), name in vars(owner)
        new = wrap(old)
        if callable(old):
            new = functools.wraps(old)(new)
            new.recorded = True
        setattr(owner, name, new)
        self._undo.append(lambda: setattr(owner, name, old) if is_own else delattr(owner, name))

    def fail(self, error):
        self.on, self.failed = False, True
        self._tell(error)

    # ---- Around a call

    def begin(self):
        """A start, for `end`; None if nothing is noted."""
        if not self.on:
            return None
        try:
            return self.taken() if self.taken else 0, self.clock.tick()
        except Exception as error:
            self.fail(error)

    def end(self, start, what):
        """`what` gives kind, stage and microbatch."""
        if start is None or not self.on:
            return
        try:
            tick = self.clock.tick()
            taken = self.taken() - start[0] if self.taken else 0
            self.computes.append((*what(), self.step, start[1], tick, taken,
                                  self.clock.allocated()))
        except Exception as error:
            self.fail(error)

    def _computing(self, stage, kind_of):
        def wrap(old):
            def computing(*args, **named):
                start = self.begin()
                result = old(*args, **named)
                self.end(start, lambda: (kind_of(args, named), stage.stage_index, args[0]))
                return result
            return computing
        return wrap

    def _losing(self, old):
        def losing(*args, **named):  # stage, output, targets, microbatch
            start = self.begin() if args and args[0].is_last else None
            result = old(*args, **named)
            self.end(start, lambda: ("LOSS", args[0].stage_index, args[3]))
            return result
        return losing

    def _stepping(self, old):
        def stepping(*args, **named):
            self._start_step()
            return old(*args, **named)
        return stepping

    def _start_step(self):
        trains = getattr(self.schedule, "_has_backward", True)
        last = self.warmup + self.most
        self.on = trains and not self.failed and self.warmup <= self.seen < last
        self.seen += 1 if trains else 0
        start = self.begin()
        if start is not None:
            self.step += 1
            self.clock.start_step(start[1])

    def _before_optimizer(self, *_):
        self._optimizer_start = self.begin()

    def _after_optimizer(self, *_):
        self.end(self._optimizer_start, lambda: (
            "OPTIMIZER", min(stage.stage_index for stage in self.stages), None))

    # ---- Messages: made by a stage, posted in a batch, waited for

    def _making(self, stage, kind):
        def wrap(old):
            def making(*args, **named):
                ops = old(*args, **named)
                if self.on:
                    try:
                        for op in ops:
                            self.made[id(op)] = (kind, stage.stage_index, args[0], op)
                    except Exception as error:
                        self.fail(error)
                return ops
            return making
        return wrap

    def _posting(self, old):
        def posting(ops, *args, **named):
            start = self.begin()
            if start is None:
                return old(ops, *args, **named)
            posted = list(ops)  # some versions of torch clear theirs
            works = old(ops, *args, **named)
            return self._posted(posted, start[1], works)
        return posting

    def _posted(self, ops, tick, works):
        """Notes the messages of a batch; returns what stands for its Works."""
        try:
            messages = []
            for op in ops:
                what = self.made.pop(id(op), None)
                if what is None:  # posted by a batch within this one, or no stage's
                    messages.append(None)
                    continue
                size = op.tensor.numel() * op.tensor.element_size()
                messages.append([*what[:3], self.step, tick, None, None, size])
            self.messages += filter(None, messages)
            if works is None or not any(messages):
                return works
            is_list = isinstance(works, (list, tuple))
            listed = list(works) if is_list else [works]
            # A Work for all of a batch, or for the last of them, ends them all.
            by_one = len(listed) == len(messages)
            stand_ins = [Waited(work, self, [messages[i]] if by_one else messages)
                         for i, work in enumerate(listed)]
            return stand_ins if is_list else stand_ins[0]
        except Exception as error:
            self.fail(error)
            return works

    def waited(self, messages, start):
        try:
            end = self.clock.tick()
            for message in messages:
                if message is not None and message[6] is None:
                    message[5:7] = start[1], end
        except Exception as error:
            self.fail(error)


class Waited:
    """Stands for a Work, and notes when it was first waited for."""

    __slots__ = ("_work", "_hooks", "_messages")

    def __init__(self, work, hooks, messages):
        self._work, self._hooks, self._messages = work, hooks, messages

    def wait(self, *args, **named):
        start = self._hooks.begin() if self._messages else None
        result = self._work.wait(*args, **named)
        if start is not None:
            messages, self._messages = self._messages, None
            self._hooks.waited(messages, start)
        return result

    def __getattr__(self, name):
        return getattr(self._work, name)
