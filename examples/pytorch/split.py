#!/usr/bin/env python3
"""Splits models into two stages where pipesim says, and trains them.

For a GPT-2 and a Llama of transformers, and a network of convolutions: profiles
the model, lets `pipesim.partition` balance its layers, splits it there by
torch.distributed.pipelining, and trains it for some steps. The losses must be
those of one process. Then an even split and the chosen one take turns, and the
medians of their steps are compared with the predicted ones.

    pip install torch transformers pipesim
    torchrun --standalone --nproc-per-node 2 examples/pytorch/split.py

Each rank has one thread. Times mean something only if each has a processor to itself.
"""

import argparse
import copy
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe, pipeline
from torch.nn import functional

import pipesim
import pipesim.torch

SCHEDULES = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}
TOKENS, WORDS = 64, 32000
STEPS = 3  # of training, whose losses are compared


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
    """Many words for its size: the head takes as long as ten blocks."""
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
    layers, channels = [], 3
    for block in range(9):
        layers.append(torch.nn.Sequential(
            torch.nn.Conv2d(channels, 32, 3, padding=1), torch.nn.ReLU(),
            *([torch.nn.MaxPool2d(2)] if block in (2, 4, 6) else [])))
        channels = 32
    return torch.nn.Sequential(*layers, torch.nn.Sequential(
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10)))


MODELS = {  # what makes one, and what makes inputs and targets for a number of samples
    "gpt2": (gpt2, lambda n: torch.randint(WORDS, (2, n, TOKENS)).unbind()),
    "llama": (llama, lambda n: torch.randint(WORDS // 4, (2, n, TOKENS)).unbind()),
    "cnn": (cnn, lambda n: (torch.randn(n, 3, 64, 64), torch.randint(10, (n,)))),
}


def waited_ns():
    """For how long other processes had this thread's processor so far."""
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1])


def loss_of(output, target):
    return functional.cross_entropy(output.flatten(0, -2), target.flatten())


class Split:
    """This rank's part of a model, and its schedule."""

    def __init__(self, module, example, points, options):
        pipe = pipeline(copy.deepcopy(module), mb_args=(example,), split_spec=points)
        stage = pipe.build_stage(dist.get_rank(), torch.device("cpu"))
        self.optimizer = torch.optim.SGD(stage.submod.parameters(), lr=0.05)
        self.schedule = SCHEDULES[options.schedule](stage, options.microbatches, loss_fn=loss_of)

    def step(self, inputs, targets):
        """The mean loss, known to the last rank, and how long the step took, in ns."""
        losses = []
        dist.barrier()
        start = time.perf_counter_ns()
        if dist.get_rank() == 0:
            self.schedule.step(inputs)
        else:
            self.schedule.step(target=targets, losses=losses)
        dist.barrier()
        took = time.perf_counter_ns() - start
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        return sum(losses, torch.zeros(())).item() / self.schedule._n_microbatches, took


def losses_of_one_process(module, batches, microbatches):
    optimizer, losses = torch.optim.SGD(module.parameters(), lr=0.05), []
    for inputs, targets in batches:
        parts = [loss_of(module(x), y) / microbatches
                 for x, y in zip(inputs.chunk(microbatches), targets.chunk(microbatches))]
        sum(parts).backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(sum(parts).item())
    return losses


def try_model(name, options):
    torch.manual_seed(1)
    make, batch = MODELS[name]
    module, batches = make(), [batch(4 * options.microbatches) for _ in range(STEPS)]
    example, target = (each.chunk(options.microbatches)[0] for each in batches[0])
    # All ranks do so at once: the machine is as busy as in the training. The first decides.
    profile = pipesim.torch.profile(module, example, loss=lambda y: loss_of(y, target))
    parts = pipesim.partition(costs=profile.costs(), schedule=options.schedule, stages=2,
                              microbatches=options.microbatches)
    cuts = [(cut.layout, cut.makespan_ns) for cut in (parts.even, parts.balanced)]
    dist.broadcast_object_list(cuts)
    splits = [Split(module, example, profile.split_points(layout), options) for layout, _ in cuts]
    losses = [[split.step(*each)[0] for each in batches] for split in splits]
    waited, start = waited_ns(), time.perf_counter_ns()
    turns = [[split.step(*batches[0])[1] for split in splits] for _ in range(options.rounds)]
    waited = (waited_ns() - waited) / (time.perf_counter_ns() - start)
    if dist.get_rank() == 0:
        return
    expected = losses_of_one_process(module, batches, options.microbatches)
    worst = max(abs(a - b) for own in losses for a, b in zip(own, expected))
    print(f"{name}: losses {', '.join(f'{loss:.5f}' for loss in expected)}; "
          f"the pipelines' differ by {worst:.1e} at most")
    measured = [statistics.median(times) for times in zip(*turns)]
    for what, (layout, ns), took in zip(("even", "chosen"), cuts, measured):
        print(f"  {what:<7}{layout}  predicted {ns / 1e6:.1f} ms, measured {took / 1e6:.1f} ms")
    predicted, seen = cuts[0][1] / cuts[1][1], measured[0] / measured[1]
    print(f"  chosen is {predicted:.2f} times as fast as even by prediction, {seen:.2f} measured: "
          f"{predicted / seen - 1:+.1%}; other processes had its processor for {waited:.0%}")
    if worst > 1e-4:
        raise SystemExit(f"{name}: losses differ by more than 1e-4")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL",
                        help=f"of {', '.join(MODELS)}; default all")
    parser.add_argument("--schedule", choices=SCHEDULES, default="1f1b")
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=9, help="timed steps of each split")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name in options.models or MODELS:
        try_model(name, options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
