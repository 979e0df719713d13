"""Records a training with Megatron-LM, by megatron.core's schedules, as a trace that pipesim reads.

    with pipesim.megatron.record("run.json"):
        train(...)

or, before pretrain(), training.train = pipesim.megatron.record("run.json")(training.train), where
training is megatron.training.training; not with --exit-interval, which raises SystemExit.

All ranks of a pipeline record, after initialize_model_parallel(). A step is a call of what
get_forward_backward_func() returns within, unless forward_only, and the optimizer's step after it;
reductions of gradients are time between. Stage c * p + r is chunk c of rank r of p. Hooks are on
megatron.core.pipeline_parallel's schedules, forward_step, backward_step, and _communicate, from
0.14 on P2PCommunicator's. overlap_moe_expert_parallel_comm, which uses others, is one warning.

Run with megatron.core 0.9.0, 0.12.3, 0.14.0, 0.16.1, 0.19.0 and 0.20.0 and torch 2.15 on
processors, where these asked for a GPU given a processor, over gloo: 1F1B, and interleaved with
overlap_p2p_comm, on 2 ranks; 0.16.1 also on 4, there with batch_p2p_comm. The orders were
pipesim's. Not run on GPUs, nor by megatron.training.
"""

import torch
from megatron import core
from megatron.core import parallel_state
from megatron.core.pipeline_parallel import p2p_communication, schedules

from .torch import trainer

RUNS = ("forward_backward_no_pipelining", "forward_backward_pipelining_without_interleaving",
        "forward_backward_pipelining_with_interleaving")
PLACE = getattr(p2p_communication, "P2PCommunicator", p2p_communication)  # of _communicate


class Hooks(trainer.TensorHooks):
    """Notes what a rank does in the steps of megatron.core's schedules."""

    def install(self, optimizers):
        for name in RUNS:
            self._put(schedules, name, self._running(self._begin))
        self._put(schedules, "forward_step", self._computing("F", self._forward, self.makes))
        self._put(schedules, "backward_step", self._computing("B", self._backward, self.makes))
        self._put(PLACE, "_communicate", self._communicating)
        self.put_optimizers(optimizers)

    def _begin(self, *, model, num_microbatches, forward_only=False, **_):
        if not forward_only:
            models, own = model if isinstance(model, list) else [model], self.schedule
            rank, size, own._n_microbatches = own.group.rank(), own.group.size(), num_microbatches
            own._stages[:] = [trainer.Stage(i * size + rank, one) for i, one in enumerate(models)]
            config = getattr(models[0], "config", None)
            group = getattr(config, "microbatch_group_size_per_vp_stage", None) or size
            own.schedule = "1f1b" if len(models) == 1 else "interleaved" if group == size else ""
        self.start_step(not forward_only)

    def _forward(self, _function, _data, model, _microbatches, input_tensor, *_, **__):
        stage = next(one.stage_index for one in self.stages if one.submod is model)
        place = stage, self.next_of("F", stage)
        self.takes(input_tensor, place)
        return place

    def _backward(self, _input, output_tensor, gradient, *_, **__):
        place = self.made_by(output_tensor)
        self.next_of("B", place[0])
        self.takes(gradient, place)
        return place

    def _communicating(self, old):
        def communicating(*args, **named):
            start = self.begin()
            result = old(*args, **named)
            return start and self.quietly(self._communicated, start[1], named, *result) or result
        return communicating

    def _communicated(self, tick, named, before, after, waits):
        """Notes messages. A stand-in is for each request that the schedule waits for itself."""
        times = (tick, None, None) if waits else (tick, tick, self.clock.tick())
        messages = {"send_next": self.sends(named["tensor_send_next"], times),
                    "send_prev": self.sends(named["tensor_send_prev"], times),
                    "recv_prev": self.receives("RECV_F", before, times),
                    "recv_next": self.receives("RECV_B", after, times)}
        if isinstance(waits, dict):
            waits = {way: self.stand_in(work, messages.get(way)) for way, work in waits.items()}
        elif waits:  # before 0.10 a list, all of which is waited for at once
            waits[-1] = self.stand_in(waits[-1], *messages.values())
        return before, after, waits


class record(trainer.TrainerRecording):
    """Records the steps of a training within `with`, on all ranks of its pipeline.

    path, warmup, steps, errors: as of pipesim.torch.record; pipelines side by side, as of other
    data- or tensor-parallel ranks, need a path each. optimizer: one or a list, whose step() is
    recorded; None: all of PyTorch's. group: of the pipeline's ranks; None: parallel_state's.
    """

    Hooks = Hooks
    name, trainer = "pipesim.megatron.record", f"megatron.core {core.__version__}"
    hint = "; call get_forward_backward_func() within the recording"

    def __init__(self, path, optimizer=None, *, warmup=1, steps=20, group=None):
        super().__init__(path, optimizer, warmup=warmup, steps=steps)
        self.given = group

    def _pipeline(self):
        group = self.given or parallel_state.get_pipeline_model_parallel_group()
        return trainer.Pipeline(group, "cuda" if torch.cuda.is_initialized() else "cpu",
                                [trainer.Stage(group.rank())])

    def _needed(self):
        return [(schedules, one) for one in (*RUNS, "forward_step", "backward_step")] + [
            (PLACE, "_communicate")]
