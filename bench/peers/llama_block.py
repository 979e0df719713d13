"""Llama's block as PyTorch users write it: pre-norm by root mean squares, rotary positions,
heads that share keys and values, a gated MLP, no biases but, where asked, those of queries,
keys and values; its attention is scaled_dot_product_attention."""

import torch
from torch.nn import functional


def turned(x, cosines, sines):
    """Numbers i and i + d / 2 of each head, as points, turned by their position's angles."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cosines - b * sines, b * cosines + a * sines), dim=-1)


class Block(torch.nn.Module):
    def __init__(self, hidden, heads, kv_heads, mlp, positions, base=10000.0, qkv_bias=False):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, hidden // heads
        self.norm1 = torch.nn.RMSNorm(hidden, eps=1e-5)
        self.qkv = torch.nn.Linear(hidden, (heads + 2 * kv_heads) * self.size, bias=qkv_bias)
        self.out = torch.nn.Linear(hidden, hidden, bias=False)
        self.norm2 = torch.nn.RMSNorm(hidden, eps=1e-5)
        self.up = torch.nn.Linear(hidden, 2 * mlp, bias=False)  # gates first
        self.down = torch.nn.Linear(mlp, hidden, bias=False)
        exponents = torch.arange(0, self.size, 2, dtype=torch.float64) / self.size
        angles = torch.outer(torch.arange(positions, dtype=torch.float64), base**-exponents)
        self.register_buffer("cosines", angles.cos().float(), persistent=False)
        self.register_buffer("sines", angles.sin().float(), persistent=False)

    def forward(self, x):
        batch, sequence, hidden = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, sequence, -1, self.size).transpose(1, 2)
        q, k, v = heads.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        cosines, sines = self.cosines[:sequence], self.sines[:sequence]
        q, k = turned(q, cosines, sines), turned(k, cosines, sines)
        group = self.heads // self.kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = x + self.out(mixed.transpose(1, 2).reshape(batch, sequence, hidden))
        gate, up = self.up(self.norm2(h)).chunk(2, dim=-1)
        return h + self.down(functional.silu(gate) * up)
