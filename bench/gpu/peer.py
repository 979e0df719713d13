"""PyTorch in eager mode on what gpu_speed times: a GPT-2 block and causal attention.

    python3 bench/gpu/peer.py --precision bf16 [--device cuda] [--small]

Prints one JSON object a line for tables.py. The block is pre-norm, has biases, a
tanh gelu and no dropout; its attention is scaled_dot_product_attention. TF32 is
off. Gradients of weights add up over iterations, twice measured: in .grad, of the
weights' type, as PyTorch does by itself; and in float32 sums beside, as pipesim
does and as training in bfloat16 needs.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import torch
from torch.nn import functional

sys.path.append(str(pathlib.Path(__file__).parent.parent / "peers"))
from gpt2_block import Block

SETS = 3  # inputs by turns, so that what an iteration reads is in no cache
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Timer:
    """Instants of the device; on the CPU, of its clock."""

    def __init__(self, device):
        self.on_gpu = device.type == "cuda"

    def mark(self):
        if not self.on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def wait(self):
        if self.on_gpu:
            torch.cuda.synchronize()

    def ms(self, before, after):
        return before.elapsed_time(after) if self.on_gpu else 1e3 * (after - before)


def add_up_in_float32(block):
    """Has each gradient added to a float32 sum as soon as it is there."""

    def add(weight):
        weight.main_grad.add_(weight.grad)
        weight.grad = None

    for weight in block.parameters():
        weight.main_grad = torch.zeros_like(weight, dtype=torch.float32)
        weight.register_post_accumulate_grad_hook(add)


def measure_block(args, hidden, heads, batch, sequence, sums):
    timer = Timer(args.device)
    torch.manual_seed(1)
    block = Block(hidden, heads).to(args.device, TYPES[args.precision])
    if sums == "float32":
        add_up_in_float32(block)
    shape = (batch, sequence, hidden)
    new = lambda: torch.randn(shape, device=args.device, dtype=TYPES[args.precision])
    inputs = [new().requires_grad_() for _ in range(SETS)]
    gradients = [new() for _ in range(SETS)]
    blocks = 2 if args.small else 8

    def one_round():
        for x in inputs:
            x.grad = None
        timer.wait()
        marks = [timer.mark()]
        for i in range(blocks):
            x = inputs[i % SETS]
            x.grad = None
            y = block(x)
            marks.append(timer.mark())
            y.backward(gradients[i % SETS])
            marks.append(timer.mark())
        timer.wait()
        laps = [timer.ms(a, b) for a, b in zip(marks, marks[1:])]
        return laps[0::2], laps[1::2], timer.ms(marks[0], marks[-1]) / blocks

    for _ in range(2):
        one = one_round()[2]
    rounds = 2 if args.small else min(15, max(3, int(500 / (one * blocks))))
    forward, backward, totals = [], [], []
    for _ in range(rounds):
        f, b, total = one_round()
        forward += f
        backward += b
        totals.append(total)
    return {
        "who": "PyTorch" if sums == "own" else "PyTorch, float32 sums",
        "what": "block",
        "precision": args.precision,
        "hidden": hidden,
        "heads": heads,
        "batch": batch,
        "sequence": sequence,
        "F_ms": statistics.median(forward),
        "B_ms": statistics.median(backward),
        "ms": statistics.median(totals),
        "least_ms": min(totals),
        "repeats": rounds * blocks,
    }


def measure_attention(args, batch, sequence, heads, head_size):
    timer = Timer(args.device)
    torch.manual_seed(1)
    new = lambda n: torch.randn(
        (batch, sequence, n, heads, head_size), device=args.device, dtype=TYPES[args.precision]
    )
    packed = [new(3).permute(2, 0, 3, 1, 4) for _ in range(SETS)]
    gradients = [new(1)[:, :, 0].transpose(1, 2) for _ in range(SETS)]
    forward, backward = [], []
    for i in range(4 if args.small else 33):
        q, k, v = (x.detach().requires_grad_() for x in packed[i % SETS])
        timer.wait()
        before = timer.mark()
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        between = timer.mark()
        torch.autograd.grad(y, (q, k, v), gradients[i % SETS])
        after = timer.mark()
        timer.wait()
        if i >= 3:
            forward.append(timer.ms(before, between))
            backward.append(timer.ms(between, after))
    return {
        "who": "PyTorch",
        "what": "attention",
        "precision": args.precision,
        "batch": batch,
        "sequence": sequence,
        "heads": heads,
        "head_size": head_size,
        "F_ms": statistics.median(forward),
        "B_ms": statistics.median(backward),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", choices=TYPES, default="bf16")
    parser.add_argument("--device", type=torch.device, default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try it out")
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    name = torch.cuda.get_device_name() if args.device.type == "cuda" else "cpu"
    say = lambda line: print(json.dumps(line), flush=True)
    say({"who": "PyTorch", "what": "device", "name": f"PyTorch {torch.__version__} ({name})"})

    if args.small:
        blocks = [(64, 2, 1, 32), (64, 2, 2, 32)]
        attention = [(1, 32, 2, 32)]
    else:
        blocks = [(4096, 32, 1, 2048), (2048, 16, 1, 2048), (1024, 8, 1, 2048)]
        if args.precision == "bf16":
            blocks[1:1] = [(4096, 32, 2, 2048), (4096, 32, 4, 2048)]
        attention = [(1, 2048, 32, 128), (4, 2048, 32, 128)]
    for shape in blocks:
        say(measure_block(args, *shape, sums="own"))
        if args.precision == "bf16":
            say(measure_block(args, *shape, sums="float32"))
    for shape in attention:
        say(measure_attention(args, *shape))


main()
