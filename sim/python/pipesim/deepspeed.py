"""Records a training with DeepSpeed's pipelines as a trace that pipesim reads.

    with pipesim.deepspeed.record(engine, "run.json"):
        for _ in range(10):
            engine.train_batch(batches)

All ranks of a pipeline run this. A step is a train_batch(); eval_batch() is none. A PipelineEngine
has one stage per rank, a DualPipeVEngine two. Hooks are on train_batch, on what the engine's
_INSTRUCTION_MAP does and, for bytes, on p2p.send and p2p.recv of deepspeed.runtime.pipe. What
reduces gradients before OptimizerStep is part of OPTIMIZER; loading data is time before an F.

Run with deepspeed 0.19.8 and torch 2.15 on processors, over gloo, both engines on 2 and on 4 ranks:
the orders were pipesim's 1f1b and, with whole backwards, dualpipe-v. 0.16.9 has the first engine
alone, run on 2 ranks. 0.12.6 does not run there without intel_extension_for_pytorch. Not on GPUs.
"""

import deepspeed
from deepspeed.runtime.pipe import p2p, schedule

from .torch import trainer

COMPUTES = {"ForwardPass": "F", "BackwardPass": "B", "ReduceTiedGrads": "OPTIMIZER",
            "ReduceGrads": "OPTIMIZER", "OptimizerStep": "OPTIMIZER"}
MESSAGES = {"SendActivation": "SEND_F", "RecvActivation": "RECV_F", "SendGrad": "SEND_B",
            "RecvGrad": "RECV_B"}


class Hooks(trainer.Hooks):
    """Notes what the instructions of an engine do."""

    bytes = 0  # sent and received since a message began

    def install(self, _):
        self.engine, self.queued = self.schedule.engine, []  # messages for the next CommitP2P
        self._put(self.engine, "train_batch", self._running(lambda *_, **__: self.start_step()))
        self._put(self.engine, "_INSTRUCTION_MAP", lambda old: {
            one: self._hooked(one.__name__, do) for one, do in old.items()})
        self._put(p2p, "send", self._counting)
        self._put(p2p, "recv", self._counting)

    def end_step(self):
        super().end_step()
        self.on = False  # an eval_batch() may follow

    def _hooked(self, name, do):
        """Around what an instruction does."""
        kind = COMPUTES.get(name)
        if kind is not None:
            return self._computing(kind, lambda _, **named: self._place(kind, **named))(do)
        return self._moving(MESSAGES.get(name), do) if name in (*MESSAGES, "CommitP2P") else do

    def _place(self, kind, phase=0, **_):
        """The stage, and the microbatch that is next, of an instruction."""
        stage = self.stages[phase].stage_index
        return stage, None if kind == "OPTIMIZER" else self.next_of(kind, stage)

    def _moving(self, kind, old):
        def moving(engine, **named):
            start = self.begin()
            self.bytes, queued = 0, len(getattr(engine, "_p2p_ops", ()))
            result = old(engine, **named)
            if start is not None:
                self.quietly(self._moved, kind, start[1], queued, **named)
            return result
        return moving

    def _moved(self, kind, start, queued, **named):
        """Notes a message, or, for a CommitP2P, whose kind is None, those that were queued."""
        end, ops = self.clock.tick(), getattr(self.engine, "_p2p_ops", ())[queued:]
        if kind is not None:
            size = sum(trainer.bytes_of(op.tensor) for op in ops) or self.bytes
            self.queued.append([kind, *self._place(kind, **named), self.step, *[None] * 3, size])
        if kind is None or not ops:
            for message in self.queued:
                message[4:7] = start, start if message[0].startswith("RECV") else None, end
            self.messages += self.queued
            self.queued = []

    def _counting(self, old):
        def counting(tensor, *args, **named):
            self.bytes += tensor.numel() * tensor.element_size()
            return old(tensor, *args, **named)
        return counting


class record(trainer.TrainerRecording):
    """Records train_batch() of `engine` within `with`, on all ranks of its pipeline.

    path, warmup, steps, errors as of pipesim.torch.record. Pipelines side by side need a path each.
    """

    Hooks = Hooks
    name, trainer = "pipesim.deepspeed.record", f"deepspeed {deepspeed.__version__}"

    def __init__(self, engine, path, *, warmup=1, steps=20):
        super().__init__(path, warmup=warmup, steps=steps)
        self.engine = engine

    def _pipeline(self):
        one, twice = self.engine, hasattr(self.engine, "_exec_commit_p2p")  # two stages per rank
        stages = [one.stage_id, 2 * one.num_stages - 1 - one.stage_id][:2 if twice else 1]
        found = trainer.Pipeline(one.grid.get_pipe_parallel_group(), one.device,
                                 [trainer.Stage(i) for i in stages], one.micro_batches,
                                 "" if twice else "1f1b")
        found._stages[0].submod, found.engine = one.module, one
        return found

    def _needed(self):
        return [(self.engine, "train_batch"), (self.engine, "_INSTRUCTION_MAP"), (p2p, "send"),
                (p2p, "recv"), *((schedule, name) for name in (*COMPUTES, *MESSAGES))]
