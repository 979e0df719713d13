"""A pre-norm decoder block in PyTorch on one thread: forward and backward.

pytorch_block.py HIDDEN BATCH SEQUENCE RUNS prints "forward backward total", the
medians of RUNS in ms, then the least total; `--version` prints PyTorch's.
"""

import statistics
import sys
import time

import torch
from torch.nn import functional


class Block(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.heads = hidden // 64
        self.norm1 = torch.nn.LayerNorm(hidden)
        self.qkv = torch.nn.Linear(hidden, 3 * hidden)
        self.out = torch.nn.Linear(hidden, hidden)
        self.norm2 = torch.nn.LayerNorm(hidden)
        self.up = torch.nn.Linear(hidden, 4 * hidden)
        self.down = torch.nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, sequence, hidden = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, sequence, 3, self.heads, 64)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = x + self.out(mixed.transpose(1, 2).reshape(batch, sequence, hidden))
        return h + self.down(functional.gelu(self.up(self.norm2(h)), approximate="tanh"))


def main():
    if sys.argv[1:] == ["--version"]:
        print(torch.__version__)
        return
    hidden, batch, sequence, runs = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    block = Block(hidden)
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
