"""Schedules that exchange tensors by P2PCommunicator._communicate, and wait for what they receive.

Tensors are lists of one without interleaving, and bare with it.
"""

import torch

from .. import parallel_state
from .p2p_communication import P2PCommunicator


def get_forward_backward_func(pp_size=None, vp_size=None):
    if parallel_state.get_pipeline_model_parallel_group().size() == 1:
        return forward_backward_no_pipelining
    return (forward_backward_pipelining_with_interleaving if parallel_state.chunks else
            forward_backward_pipelining_without_interleaving)


def forward_step(forward_step_func, data_iterator, model, num_microbatches, input_tensor,
                 forward_data_store, config, cp_group_size, collect_non_loss_data=False,
                 checkpoint_activations_microbatch=None, is_first_microbatch=False,
                 current_microbatch=None, vp_stage=None, is_last_stage=True):
    alone = not isinstance(input_tensor, list)
    model.set_input_tensor([input_tensor] if alone else input_tensor)
    output, loss_of = forward_step_func(data_iterator, model)
    if is_last_stage:
        output, reduced = loss_of(output)
        output = output / num_microbatches
        forward_data_store.append(reduced)
    return output if alone else [output], torch.tensor(0)


def backward_step(input_tensor, output_tensor, output_tensor_grad, model_type, config):
    given, made, gradient = (one[0] if isinstance(one, list) else one for one in
                             (input_tensor, output_tensor, output_tensor_grad))
    torch.autograd.backward(made, grad_tensors=gradient)
    result = None if given is None else given.grad
    return [result] if isinstance(input_tensor, list) else result


class Exchange:
    """Sends and receives; a message that comes is waited for, one that goes until the end."""

    def __init__(self, config, seq_length, micro_batch_size, wait):
        self.group = parallel_state.get_pipeline_model_parallel_group()
        self.by, self.shape = P2PCommunicator(self.group, config), (seq_length, micro_batch_size, 8)
        self.wait, self.going = wait, []

    def __call__(self, send_next=None, send_prev=None, recv_prev=False, recv_next=False):
        before, after, works = self.by._communicate(
            tensor_send_next=send_next, tensor_send_prev=send_prev, recv_prev=recv_prev,
            recv_next=recv_next, tensor_shape=self.shape, wait_on_reqs=self.wait)
        for way, work in (works or {}).items():
            if way.startswith("send"):
                self.going.append(work)
            else:
                work.wait()
        return before if recv_prev else after

    def finish(self):
        for work in self.going:
            work.wait()


def forward_backward_no_pipelining(
        *, forward_step_func, data_iterator, model, num_microbatches, seq_length, micro_batch_size,
        decoder_seq_length=None, forward_only=False, collect_non_loss_data=False,
        first_val_step=None, adjust_tensor_shapes_fn=None, p2p_communicator=None,
        pg_collection=None, force_all_reduce=False):
    store = []
    for _ in range(num_microbatches):
        made, _ = forward_step(forward_step_func, data_iterator, model, num_microbatches, None,
                               store, model.config, 1)
        if not forward_only:
            backward_step(None, made, None, None, model.config)
    return store


def forward_backward_pipelining_without_interleaving(
        *, forward_step_func, data_iterator, model, num_microbatches, seq_length, micro_batch_size,
        decoder_seq_length=None, forward_only=False, collect_non_loss_data=False,
        first_val_step=None, adjust_tensor_shapes_fn=None, p2p_communicator=None,
        pg_collection=None, force_all_reduce=False):
    exchange = Exchange(model.config, seq_length, micro_batch_size, wait=True)
    rank, size = exchange.group.rank(), exchange.group.size()
    first, last = rank == 0, rank == size - 1
    store, held = [], []

    def forward(given):
        made, _ = forward_step(forward_step_func, data_iterator, model, num_microbatches, [given],
                               store, model.config, 1, is_last_stage=last)
        held.append(([given], made))
        return made[0]

    ahead = num_microbatches if forward_only else min(num_microbatches, size - rank - 1)
    for _ in range(ahead):
        made = forward(None if first else exchange(recv_prev=True))
        if not last:
            exchange(send_next=made)
    rest = num_microbatches - ahead
    given = exchange(recv_prev=True) if rest and not first else None
    for i in range(0 if forward_only else num_microbatches):
        if i < rest:
            made = forward(given)
            gradient = None if last else exchange(send_next=made, recv_next=True)
        else:
            gradient = exchange(recv_next=True)
        result = backward_step(*held.pop(0), [gradient], None, model.config)
        if not first:
            given = exchange(send_prev=result[0], recv_prev=i < rest - 1)
    return store


def forward_backward_pipelining_with_interleaving(
        *, forward_step_func, data_iterator, model, num_microbatches, seq_length, micro_batch_size,
        decoder_seq_length=None, forward_only=False, collect_non_loss_data=False,
        first_val_step=None, adjust_tensor_shapes_fn=None, p2p_communicator=None,
        pg_collection=None, force_all_reduce=False):
    exchange = Exchange(model[0].config, seq_length, micro_batch_size, wait=False)
    rank, size, chunks = exchange.group.rank(), exchange.group.size(), len(model)
    store, held = [], {}

    def place(i):
        return i // size % chunks, i // (size * chunks) * size + i % size

    def forward(chunk, batch):
        last = rank == size - 1 and chunk == chunks - 1
        given = exchange(recv_prev=True) if rank or chunk else None
        made, _ = forward_step(forward_step_func, data_iterator[chunk], model[chunk],
                               num_microbatches, given, store, model[chunk].config, 1,
                               vp_stage=chunk, is_last_stage=last)
        held[chunk, batch] = given, made
        if not last:
            exchange(send_next=made)

    def backward(chunk, batch):
        last = rank == size - 1 and chunk == chunks - 1
        gradient = None if last else exchange(recv_next=True)
        result = backward_step(*held.pop((chunk, batch)), gradient, None, model[chunk].config)
        if rank or chunk:
            exchange(send_prev=result)

    total = num_microbatches * chunks
    ahead = total if forward_only else min(total, 2 * (size - rank - 1) + (chunks - 1) * size)
    for i in range(total + (0 if forward_only else ahead)):
        if i < total:
            forward(*place(i))
        if i >= ahead:
            chunk, batch = place(i - ahead)
            backward(chunks - 1 - chunk, batch)
    exchange.finish()
    return store
