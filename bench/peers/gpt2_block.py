"""GPT-2's block as PyTorch users write it: pre-norm, biases, a tanh gelu, no dropout;
its attention is scaled_dot_product_attention. What bench/peers and bench/gpu time."""

import torch
from torch.nn import functional


class Block(torch.nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = torch.nn.LayerNorm(hidden)
        self.qkv = torch.nn.Linear(hidden, 3 * hidden)
        self.out = torch.nn.Linear(hidden, hidden)
        self.norm2 = torch.nn.LayerNorm(hidden)
        self.up = torch.nn.Linear(hidden, 4 * hidden)
        self.down = torch.nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, sequence, hidden = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, sequence, 3, self.heads, hidden // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = x + self.out(mixed.transpose(1, 2).reshape(batch, sequence, hidden))
        return h + self.down(functional.gelu(self.up(self.norm2(h)), approximate="tanh"))
