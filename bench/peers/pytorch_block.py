"""A pre-norm decoder block in PyTorch on one thread: forward and backward.

pytorch_block.py MODE ARCHITECTURE HIDDEN BATCH SEQUENCE RUNS prints "forward backward total",
the medians of RUNS in ms, then the least total; `--version` prints PyTorch's. MODE is eager or
compiled, by torch.compile; ARCHITECTURE is gpt or llama.
"""

import statistics
import sys
import time

import torch

import gpt2_block
import llama_block


def block_of(architecture, hidden, sequence):
    heads = hidden // 64
    if architecture == "llama":
        return llama_block.Block(hidden, heads, heads // 4, hidden * 11 // 4, sequence)
    return gpt2_block.Block(hidden, heads)


def main():
    if sys.argv[1:] == ["--version"]:
        print(torch.__version__)
        return
    mode, architecture = sys.argv[1:3]
    hidden, batch, sequence, runs = map(int, sys.argv[3:])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    block = block_of(architecture, hidden, sequence)
    if mode == "compiled":
        block = torch.compile(block)
    x = torch.randn(batch, sequence, hidden, requires_grad=True)
    dy = torch.randn(batch, sequence, hidden)
    forward, backward, total = [], [], []
    for run in range(runs + 3):
        start = time.thread_time()
        y = block(x)
        middle = time.thread_time()
        y.backward(dy)  # adds to the gradients of the parameters and of x
        end = time.thread_time()
        if run >= 3:
            forward.append(middle - start)
            backward.append(end - middle)
            total.append(end - start)
    figures = [statistics.median(times) for times in (forward, backward, total)] + [min(total)]
    print(*(f"{1e3 * figure:.3f}" for figure in figures))


main()
