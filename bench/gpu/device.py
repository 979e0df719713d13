"""What the kernels of a training step reach on one GPU, by PyTorch: a minute of measuring.

    python3 bench/gpu/device.py [--device cuda] [--small]

Prints one JSON object a line, each with "what": "kernel", its size, the median and the least time
of a call in ms, and how many calls were timed. Products are measured twice: cool, in a few calls after a
pause, and sustained, in calls for two seconds of which the second half counts, since power then
lowers the clock. What follows from them (a rate, a clock) is the reader's affair. Ends with 1,
and says why, if another process uses the GPU.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

BACK_ENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def times_of(call, calls):
    """Times of that many calls in ms, each between two events."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(calls + 1)]
    marks[0].record()
    for mark in marks[1:]:
        call()
        mark.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]


def say(name, times, **size):
    print(json.dumps({"what": "kernel", "name": name, **size, "ms": round(statistics.median(times), 5),
                      "least_ms": round(min(times), 5), "calls": len(times)}), flush=True)


def cool(call, calls=20, pause=0.5):
    call()
    torch.cuda.synchronize()
    time.sleep(pause)
    return times_of(call, calls)


def sustained(call, seconds):
    """The second half of calls that take so long."""
    one = statistics.median(times_of(call, 3))
    calls = max(4, int(1e3 * seconds / one))
    return times_of(call, calls)[calls // 2:]


def random(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def products(seconds, scale):
    def bf16(m, n, k):
        x, w = random(m, k), random(n, k)
        return lambda: functional.linear(x, w)

    def fp8(m, n, k):
        one = torch.ones((), device="cuda")
        x, w = random(m, k).to(torch.float8_e4m3fn), random(n, k).to(torch.float8_e4m3fn).t()
        return lambda: torch._scaled_mm(x, w, scale_a=one, scale_b=one, out_dtype=torch.bfloat16,
                                        use_fast_accum=True)

    kinds = {"bf16": bf16}
    if torch.cuda.get_device_capability() >= (8, 9):
        kinds["fp8"] = fp8
    for kind, make in kinds.items():
        for m, n, k in ((2048, 8192, 8192), (4096, 4096, 1024), (4096, 4096, 4096), (2048, 2048, 8192)):
            m, n, k = m // scale, n // scale, k // scale
            say(f"{kind} product, cool", cool(make(m, n, k)), m=m, n=n, k=k)
        for m, n, k in ((16384, 8192, 8192), (8192, 8192, 32768), (16384, 4096, 1024)):
            m, n, k = m // scale, n // scale, k // scale
            say(f"{kind} product, sustained", sustained(make(m, n, k), seconds), m=m, n=n, k=k)


def attention(seconds, scale):
    for name, back_end in BACK_ENDS.items():
        for batch, tokens, heads, kv_heads, size in ((1, 8192, 32, 32, 128), (4, 2048, 32, 32, 128),
                                                     (1, 4096, 32, 8, 128), (8, 1024, 16, 16, 64)):
            tokens //= scale
            q, k, v = (random(batch, n, tokens, size).requires_grad_() for n in (heads, kv_heads, kv_heads))

            def forward():
                return functional.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                               enable_gqa=heads != kv_heads)

            with sdpa_kernel(back_end):
                shape = dict(batch=batch, sequence=tokens, heads=heads, kv_heads=kv_heads, head_size=size)
                try:
                    say(f"attention by {name}, forward", sustained(forward, seconds / 4), **shape)
                    y = forward()
                except RuntimeError as error:
                    print(f"device.py: no attention by {name} here: {error}", file=sys.stderr)
                    break
                gradient = torch.randn_like(y)
                say(f"attention by {name}, backward",
                    sustained(lambda: torch.autograd.grad(y, (q, k, v), gradient, retain_graph=True),
                              seconds / 4), **shape)


def memory_bound(seconds, scale):
    half = (1 << 30) // scale
    a, b = (torch.empty(half, device="cuda", dtype=torch.uint8) for _ in range(2))
    say("copy", sustained(lambda: b.copy_(a), seconds / 4), bytes=2 * half)
    for tokens, hidden in ((8192, 8192), (4096, 2048)):
        tokens //= scale
        x, y = random(tokens, hidden), random(tokens, 4 * hidden)
        w = random(hidden)
        wide = random(tokens, hidden, dtype=torch.float32)
        n = tokens * hidden
        for name, call, traffic in (
                ("layer norm", lambda: functional.layer_norm(x, (hidden,), w, w), 4 * n),
                ("RMS norm", lambda: functional.rms_norm(x, (hidden,), w), 4 * n),
                ("gelu", lambda: functional.gelu(y, approximate="tanh"), 16 * n),
                ("addition", lambda: x + x, 4 * n),
                ("cast from float32", lambda: wide.to(torch.bfloat16), 6 * n)):
            say(name, sustained(call, seconds / 8), tokens=tokens, hidden=hidden, bytes=traffic)
    weights = [torch.nn.Parameter(random((1 << 28) // scale, dtype=torch.float32))]
    weights[0].grad = torch.randn_like(weights[0])
    step = torch.optim.AdamW(weights, lr=1e-5, fused=True).step
    step()
    # Read: weight, gradient, two moments; written: all but the gradient.
    say("fused AdamW", sustained(step, seconds / 4), bytes=28 * weights[0].numel())


def host():
    """What a launch costs the processor: calls so small that the GPU waits for them."""
    layer = torch.nn.Linear(64, 64, bias=False, device="cuda", dtype=torch.bfloat16)
    x = random(64, 64).requires_grad_()
    count = 200

    def timed(build):
        found = []
        for _ in range(7):
            torch.cuda.synchronize()
            before = time.perf_counter()
            y = build()
            between = time.perf_counter()
            y.backward(torch.ones_like(y))
            after = time.perf_counter()
            found.append((1e3 * (between - before) / count, 1e3 * (after - between) / count))
        torch.cuda.synchronize()
        return zip(*found[2:])

    def chain(step):
        def build():
            y = x
            for _ in range(count):
                y = step(y)
            return y
        return build

    for name, step in (("linear layer", layer), ("addition", lambda y: y + x),
                       ("linear layer under autocast", None)):
        if step is None:
            wide = torch.nn.Linear(64, 64, bias=False, device="cuda")

            def step(y):
                with torch.autocast("cuda", torch.bfloat16):
                    return wide(y)
        forward, backward = timed(chain(step))
        say(f"host: {name}, forward", forward)
        say(f"host: {name}, backward", backward)


def state(when):
    """Clocks, power and temperature, and other processes on the GPU."""
    query = "clocks.sm,clocks.mem,power.draw,power.limit,temperature.gpu,clocks_event_reasons.active"
    found = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
                           capture_output=True, text=True)
    print(json.dumps({"what": "state", "when": when, **dict(zip(query.split(","),
                     (value.strip() for value in found.stdout.split(","))))}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try it out")
    parser.add_argument("--seconds", type=float, default=2, help="of each sustained product")
    args = parser.parse_args()
    seconds, scale = (0.05, 16) if args.small else (args.seconds, 1)
    if not torch.cuda.is_available():
        sys.exit("device.py: PyTorch sees no GPU here")
    free, total = torch.cuda.mem_get_info()
    if free < 0.95 * total and not args.small:
        sys.exit(f"device.py: {(total - free) >> 20} MiB of the GPU are in use; end what uses it")
    torch.manual_seed(1)
    print(json.dumps({"what": "device", "who": "PyTorch", "name": torch.cuda.get_device_name(),
                      "torch": torch.__version__, "memory_bytes": total,
                      "multiprocessors": torch.cuda.get_device_properties(0).multi_processor_count}))
    state("before")
    for part in (memory_bound, attention, products):
        part(seconds, scale)
        state(f"after {part.__name__}")
    host()


main()
