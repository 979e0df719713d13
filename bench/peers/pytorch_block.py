"""A pre-norm decoder block in PyTorch on one thread: forward and backward.

pytorch_block.py HIDDEN BATCH SEQUENCE RUNS prints "forward backward total", the
medians of RUNS in ms, then the least total; `--version` prints PyTorch's.
"""

import statistics
import sys
import time

import torch

from gpt2_block import Block


def main():
    if sys.argv[1:] == ["--version"]:
        print(torch.__version__)
        return
    hidden, batch, sequence, runs = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    block = Block(hidden, hidden // 64)
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
