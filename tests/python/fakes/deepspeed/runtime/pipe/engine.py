import types

import torch
import torch.distributed as dist

from . import p2p, schedule


class PipelineEngine:
    """1F1B. In each turn a rank does a forward, or a backward, or nothing."""

    def __init__(self, module, optimizer, loss_fn, micro_batches):
        self.module, self.optimizer, self.loss_fn = module, optimizer, loss_fn
        self.micro_batches, self.device = micro_batches, torch.device("cpu")
        self.stage_id, self.num_stages = dist.get_rank(), dist.get_world_size()
        self.first, self.last = self.stage_id == 0, self.stage_id == self.num_stages - 1
        self.grid = types.SimpleNamespace(get_pipe_parallel_group=lambda: dist.group.WORLD)

    def train_batch(self, data_iter=None):
        self._start(data_iter)
        self._exec_schedule(self.instructions())
        return self.total

    def eval_batch(self, data_iter, return_logits=False, compute_loss=True, reduce_output="avg",
                   bcast_loss=True, num_micro_batches=None):
        self._start(data_iter)
        with torch.no_grad():
            for i in range(self.micro_batches):
                self._exec_schedule([
                    *([] if self.first else [schedule.RecvActivation(buffer_id=i)]),
                    *([schedule.LoadMicroBatch(buffer_id=i)] if self.first or self.last else []),
                    schedule.ForwardPass(buffer_id=i),
                    *([] if self.last else [schedule.SendActivation(buffer_id=i)])])
        return self.total

    def _start(self, data):
        self.data, self.total = data, 0.0
        self.inputs, self.outputs, self.labels = {}, {}, {}

    def instructions(self):
        """Stage s has forward i in turn s + 2i, and backward i in turn 2S - 1 - s + 2i."""
        before = None
        for turn in range(2 * (self.micro_batches + self.num_stages - 1)):
            forward = (turn - self.stage_id) % 2 == 0
            first_turn = self.stage_id if forward else 2 * self.num_stages - 1 - self.stage_id
            i = (turn - first_turn) // 2
            now = i if 0 <= i < self.micro_batches else None
            if forward and not self.first:
                yield from (kind(buffer_id=at) for kind, at in (
                    (schedule.SendGrad, before), (schedule.RecvActivation, now)) if at is not None)
            if not forward and not self.last:
                yield from (kind(buffer_id=at) for kind, at in (
                    (schedule.RecvGrad, now), (schedule.SendActivation, before)) if at is not None)
            if now is not None and forward and (self.first or self.last):
                yield schedule.LoadMicroBatch(buffer_id=now)
            if now is not None:
                yield (schedule.ForwardPass if forward else schedule.BackwardPass)(buffer_id=now)
            before = now
        yield from (schedule.ReduceTiedGrads(), schedule.ReduceGrads(), schedule.OptimizerStep())

    def _exec_schedule(self, pipe_schedule):
        for one in pipe_schedule:
            types.MethodType(self._INSTRUCTION_MAP[type(one)], self)(**one.kwargs)

    def _exec_load_micro_batch(self, buffer_id):
        x, self.labels[buffer_id] = next(self.data)
        if self.first:
            self.inputs[buffer_id] = x

    def _exec_forward_pass(self, buffer_id):
        output = self.module(self.inputs[buffer_id])
        if self.last:
            output = self.loss_fn(output, self.labels[buffer_id]) / self.micro_batches
            self.total += output.item()
        self.outputs[buffer_id] = output

    def _exec_backward_pass(self, buffer_id):
        self.outputs.pop(buffer_id).backward(None if self.last else self.gradient)

    def _exec_send_activations(self, buffer_id):
        p2p.send(self.outputs[buffer_id].detach(), self.stage_id + 1)

    def _exec_recv_activations(self, buffer_id):
        received = torch.empty(2, 8)
        p2p.recv(received, self.stage_id - 1)
        self.inputs[buffer_id] = received.requires_grad_()

    def _exec_send_grads(self, buffer_id):
        p2p.send(self.inputs.pop(buffer_id).grad, self.stage_id - 1)

    def _exec_recv_grads(self, buffer_id):
        self.gradient = torch.empty(2, 8)
        p2p.recv(self.gradient, self.stage_id + 1)

    def _exec_reduce_tied_grads(self):
        pass

    def _exec_reduce_grads(self):
        pass

    def _exec_optimizer_step(self, lr_kwargs=None):
        self.optimizer.step()
        self.optimizer.zero_grad()

    _INSTRUCTION_MAP = {
        schedule.OptimizerStep: _exec_optimizer_step,
        schedule.ReduceGrads: _exec_reduce_grads,
        schedule.ReduceTiedGrads: _exec_reduce_tied_grads,
        schedule.LoadMicroBatch: _exec_load_micro_batch,
        schedule.ForwardPass: _exec_forward_pass,
        schedule.BackwardPass: _exec_backward_pass,
        schedule.SendActivation: _exec_send_activations,
        schedule.RecvActivation: _exec_recv_activations,
        schedule.SendGrad: _exec_send_grads,
        schedule.RecvGrad: _exec_recv_grads,
    }
