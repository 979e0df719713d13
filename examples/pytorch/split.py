#!/usr/bin/env python3
"""Splits models into two stages where pipesim says, and trains them.

For a GPT-2 and a Llama of transformers, and a network of convolutions: profiles the model, lets
`pipesim.partition` balance its layers, splits it there by torch.distributed.pipelining, and trains
it. Losses must be those of one process. Then an even split and the chosen one take turns, and the
medians of their steps are compared with the predicted ones.

    pip install torch transformers pipesim
    torchrun --standalone --nproc-per-node 2 examples/pytorch/split.py

Each rank has one thread. If the load is more than 2 on as many processors, times say little.
"""

import argparse
import copy
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import Schedule1F1B, pipeline

import pipesim
import pipesim.torch

TOKENS, WORDS = 64, 32000


class Logits(torch.nn.Module):
    """A language model that returns nothing else."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, words):
        return self.model(input_ids=words, use_cache=False).logits


# The matrix of the head must not be that of the embedding: it would be on both stages.
COMMON = {"bos_token_id": None, "eos_token_id": None, "use_cache": False,
          "tie_word_embeddings": False, "attn_implementation": "sdpa"}


def gpt2():
    """With many words for its size: the head takes as long as ten blocks."""
    from transformers import GPT2Config, GPT2LMHeadModel
    return Logits(GPT2LMHeadModel(GPT2Config(
        n_layer=12, n_embd=256, n_head=4, n_positions=TOKENS, vocab_size=WORDS, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, **COMMON)))


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    return Logits(LlamaForCausalLM(LlamaConfig(
        num_hidden_layers=8, hidden_size=256, intermediate_size=688, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=TOKENS, vocab_size=WORDS // 4, **COMMON)))


def cnn():
    """Nine convolutions, of which the first see the most pixels."""
    layers = [torch.nn.Sequential(torch.nn.Conv2d(32 if k else 3, 32, 3, padding=1),
                                  torch.nn.ReLU(), torch.nn.MaxPool2d(2 if k in (2, 4, 6) else 1))
              for k in range(9)]
    return torch.nn.Sequential(*layers, torch.nn.Sequential(
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10)))


MODELS = {  # what makes one, and what makes inputs and targets for a number of samples
    "gpt2": (gpt2, lambda n: torch.randint(WORDS, (2, n, TOKENS)).unbind()),
    "llama": (llama, lambda n: torch.randint(WORDS // 4, (2, n, TOKENS)).unbind()),
    "cnn": (cnn, lambda n: (torch.randn(n, 3, 64, 64), torch.randint(10, (n,)))),
}


def loss_of(output, target):
    return torch.nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())


def train(module, optimizer, batch, microbatches, schedule=None):
    """One step: its mean loss, which the last rank knows, and its ns without the optimizer."""
    start, losses = time.perf_counter_ns(), []
    if schedule is None:
        for x, y in zip(*(each.chunk(microbatches) for each in batch)):
            losses.append(loss_of(module(x), y))
            (losses[-1] / microbatches).backward()
    else:
        inputs, target = (batch[:1], None) if dist.get_rank() == 0 else ((), batch[1])
        schedule.step(*inputs, target=target, losses=losses)
        dist.barrier()
    took = time.perf_counter_ns() - start
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    return sum(losses, torch.zeros(())).item() / microbatches, took


def try_model(name, microbatches, rounds):
    torch.manual_seed(1)
    make, batch_of = MODELS[name]
    module, batch = make(), batch_of(4 * microbatches)
    example, target = (each.chunk(microbatches)[0] for each in batch)
    # All ranks do so at once: the machine is as busy as in the training. The first decides.
    profile = pipesim.torch.profile(module, example, loss=lambda output: loss_of(output, target),
                                    exported=True)
    parts = pipesim.partition(costs=profile.costs(), schedule="1f1b", stages=2,
                              microbatches=microbatches)
    cuts = [(cut.layout, cut.makespan_ns) for cut in (parts.even, parts.balanced)]
    dist.broadcast_object_list(cuts)
    runs = []
    for layout, _ in cuts:
        pipe = pipeline(copy.deepcopy(module), mb_args=(example,),
                        split_spec=profile.split_points(layout))
        stage = pipe.build_stage(dist.get_rank(), torch.device("cpu"))
        optimizer = torch.optim.SGD(stage.submod.parameters(), lr=0.05)
        schedule = Schedule1F1B(stage, microbatches, loss_fn=loss_of)
        runs.append((stage.submod, optimizer, batch, microbatches, schedule))
    losses = [[train(*run)[0] for _ in range(3)] for run in runs]
    turns = [[train(*run)[1] for run in runs] for _ in range(rounds)]
    if dist.get_rank() == 0:
        return
    whole = (module, torch.optim.SGD(module.parameters(), lr=0.05), batch, microbatches)
    expected = [train(*whole)[0] for _ in range(3)]
    worst = max(abs(a - b) for own in losses for a, b in zip(own, expected))
    print(f"{name}: losses {expected[0]:.5f} to {expected[-1]:.5f}, the pipelines' {worst:.1e} off")
    measured = [statistics.median(times) for times in zip(*turns)]
    for what, (layout, ns), took in zip(("even", "chosen"), cuts, measured):
        print(f"  {what:<7}{layout}  predicted {ns / 1e6:.1f} ms, measured {took / 1e6:.1f} ms")
    predicted, seen = cuts[0][1] / cuts[1][1], measured[0] / measured[1]
    print(f"  chosen is {predicted:.2f} times as fast as even by prediction, {seen:.2f} measured: "
          f"{predicted / seen - 1:+.1%}; load {os.getloadavg()[0]:.1f}", flush=True)
    assert worst < 1e-4, "the losses differ"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", default=list(MODELS), help=", ".join(MODELS))
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=9, help="timed steps of each split")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name in options.models:
        try_model(name, options.microbatches, options.rounds)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
