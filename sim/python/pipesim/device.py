#!/usr/bin/env python3
"""What the kernels of a device reach, by PyTorch: a minute of measuring, for pipesim.

    python -m pipesim.device -o mine.json       measures cuda:0, and writes a pipesim-device
    python -m pipesim.device --device cpu -o mine.json
    python -m pipesim.device --lines               prints every time instead, a JSON object a line

`pipesim --cluster mine.json` predicts with the file. Products are measured cool, in a few calls
after a pause, and sustained, in calls for two seconds of which the second half counts, since power
then lowers the clock. A device that another process uses, that throttles for heat, or whose times
are not steady is refused. Needs PyTorch alone: without the package, run the file itself.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

BACK_ENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
# Bits of nvidia-smi's clocks_event_reasons.active that no training is meant to run under.
THROTTLES = {0x8: "hardware slowdown", 0x20: "heat, by software", 0x40: "heat, by hardware",
             0x80: "an external power brake"}
UNSTEADY = 0.25  # the middle half of times, relative to their median


class Refused(Exception):
    """Why a device is not measured."""


class Meter:
    """Times calls on one device, and keeps what it has found."""

    def __init__(self, device, seconds, scale, prints):
        self.device, self.seconds, self.scale, self.prints = device, seconds, scale, prints
        self.is_gpu = device.type == "cuda"
        self.records = []
        self.dtype = torch.bfloat16 if self.is_gpu else torch.float32

    def random(self, *shape, dtype=None):
        return torch.randn(*shape, device=self.device, dtype=dtype or self.dtype)

    def tell(self, record):
        if self.prints:
            print(json.dumps(record), flush=True)

    def say(self, name, times, **size):
        """Records times in ms."""
        record = {"what": "kernel", "name": name, **size, "ms": round(statistics.median(times), 5),
                  "least_ms": round(min(times), 5), "calls": len(times)}
        ordered = sorted(times)
        quarter = len(times) // 4
        spread = (ordered[-1 - quarter] - ordered[quarter]) / record["ms"] if record["ms"] else 0
        self.records.append({**record, "spread": spread})
        self.tell(record)

    def times_of(self, call, calls):
        """Times of that many calls in ms."""
        if not self.is_gpu:
            found = []
            for _ in range(calls):
                before = time.perf_counter()
                call()
                found.append(1e3 * (time.perf_counter() - before))
            return found
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(calls + 1)]
        marks[0].record()
        for mark in marks[1:]:
            call()
            mark.record()
        torch.cuda.synchronize()
        return [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]

    def cool(self, call, calls=20, pause=0.5):
        call()
        if self.is_gpu:
            torch.cuda.synchronize()
            time.sleep(pause)
        return self.times_of(call, calls)

    def sustained(self, call, seconds):
        """The second half of calls that take so long."""
        one = statistics.median(self.times_of(call, 3))
        calls = max(8, min(100_000, int(1e3 * seconds / one)))
        return self.times_of(call, calls)[calls // 2:]

    # ---- What is measured

    def memory_bound(self):
        half = (1 << 30) // self.scale
        a, b = (torch.empty(half, device=self.device, dtype=torch.uint8) for _ in range(2))
        self.say("copy", self.sustained(lambda: b.copy_(a), self.seconds / 4), bytes=2 * half)
        value = self.dtype.itemsize
        for tokens, hidden in ((8192, 8192), (4096, 2048)):
            tokens //= self.scale
            x, y, w = self.random(tokens, hidden), self.random(tokens, 4 * hidden), self.random(hidden)
            wide = self.random(tokens, hidden, dtype=torch.float32)
            n = tokens * hidden
            for name, call, traffic in (
                    ("layer norm", lambda: functional.layer_norm(x, (hidden,), w, w), 2 * value * n),
                    ("RMS norm", lambda: functional.rms_norm(x, (hidden,), w), 2 * value * n),
                    ("gelu", lambda: functional.gelu(y, approximate="tanh"), 8 * value * n),
                    ("addition", lambda: x + x, 2 * value * n),
                    ("cast from float32", lambda: wide.to(torch.bfloat16), 6 * n)):
                self.say(name, self.sustained(call, self.seconds / 8), tokens=tokens, hidden=hidden,
                         bytes=traffic)
        weights = [torch.nn.Parameter(self.random((1 << 28) // self.scale, dtype=torch.float32))]
        weights[0].grad = torch.randn_like(weights[0])
        step = torch.optim.AdamW(weights, lr=1e-5, fused=True).step
        step()
        # Read: weight, gradient, two moments; written: all but the gradient.
        self.say("fused AdamW", self.sustained(step, self.seconds / 4), bytes=28 * weights[0].numel())

    def attention(self):
        shapes = ((1, 8192, 32, 32, 128), (4, 2048, 32, 32, 128), (1, 4096, 32, 8, 128), (8, 1024, 16, 16, 64))
        for name, back_end in (BACK_ENDS if self.is_gpu else {"default": None}).items():
            for batch, tokens, heads, kv_heads, size in shapes:
                tokens //= self.scale
                q, k, v = (self.random(batch, n, tokens, size).requires_grad_()
                           for n in (heads, kv_heads, kv_heads))

                def forward():
                    return functional.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                                   enable_gqa=heads != kv_heads)

                shape = dict(batch=batch, sequence=tokens, heads=heads, kv_heads=kv_heads, head_size=size)
                try:
                    with sdpa_kernel(back_end or list(SDPBackend.__members__.values())):
                        self.say(f"attention by {name}, forward", self.cool(forward), **shape)
                        y = forward()
                        gradient = torch.randn_like(y)
                        self.say(f"attention by {name}, backward",
                                 self.cool(lambda: torch.autograd.grad(y, (q, k, v), gradient,
                                                                       retain_graph=True)), **shape)
                except RuntimeError as error:
                    print(f"device.py: no attention by {name} here: {error}", file=sys.stderr)
                    break

    def products(self):
        def plain(m, n, k):
            x, w = self.random(m, k), self.random(n, k)
            return lambda: functional.linear(x, w)

        def fp8(m, n, k):
            one = torch.ones((), device=self.device)
            x, w = (self.random(a, k).to(torch.float8_e4m3fn) for a in (m, n))
            return lambda: torch._scaled_mm(x, w.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16,
                                            use_fast_accum=True)

        kinds = {"bf16" if self.is_gpu else "fp32": plain}
        if self.is_gpu and torch.cuda.get_device_capability(self.device) >= (8, 9):
            kinds["fp8"] = fp8
        for kind, make in kinds.items():
            for m, n, k in ((2048, 8192, 8192), (4096, 4096, 1024), (4096, 4096, 4096), (2048, 2048, 8192)):
                m, n, k = m // self.scale, n // self.scale, k // self.scale
                self.say(f"{kind} product, cool", self.cool(make(m, n, k)), m=m, n=n, k=k)
            for m, n, k in ((16384, 8192, 8192), (8192, 8192, 32768), (16384, 4096, 1024)):
                m, n, k = m // self.scale, n // self.scale, k // self.scale
                self.say(f"{kind} product, sustained", self.sustained(make(m, n, k), self.seconds),
                         m=m, n=n, k=k)

    def host(self):
        """What a launch costs the processor: calls so small that the GPU waits for them."""
        layer = torch.nn.Linear(64, 64, bias=False, device=self.device, dtype=self.dtype)
        wide = torch.nn.Linear(64, 64, bias=False, device=self.device)
        x = self.random(64, 64).requires_grad_()
        count = 200

        def autocast(y):
            with torch.autocast(self.device.type, torch.bfloat16):
                return wide(y)

        for name, step in (("linear layer", layer), ("addition", lambda y: y + x),
                           ("linear layer under autocast", autocast)):
            forward, backward = [], []
            for _ in range(7):
                torch.cuda.synchronize()
                before, y = time.perf_counter(), x
                for _ in range(count):
                    y = step(y)
                between = time.perf_counter()
                y.backward(torch.ones_like(y))
                forward.append(1e3 * (between - before) / count)
                backward.append(1e3 * (time.perf_counter() - between) / count)
            torch.cuda.synchronize()
            self.say(f"host: {name}, forward", forward[2:])
            self.say(f"host: {name}, backward", backward[2:])


# ---- The state of a GPU

def gpu_state(device, when):
    query = "clocks.sm,clocks.mem,power.draw,power.limit,temperature.gpu,clocks_event_reasons.active"
    found = subprocess.run(["nvidia-smi", f"--id={device.index or 0}", f"--query-gpu={query}",
                            "--format=csv,noheader"], capture_output=True, text=True)
    values = (value.strip() for value in found.stdout.split(","))
    return {"what": "state", "when": when, **dict(zip(query.split(","), values))}


def refuse_throttled(name, state):
    try:
        reasons = int(state.get("clocks_event_reasons.active", "0"), 16)
    except ValueError:
        return
    for bit, reason in THROTTLES.items():
        if reasons & bit:
            raise Refused(f"{name} throttles {state['when']}: {reason}; let it cool, and measure again")


# ---- From times to rates

def fitted_line(points):
    """Least squares of y = a + b x, relative to y: a, and b if it is positive."""
    weights = [(1 / y, x / y) for x, y in points]
    aa, ab, bb = (sum(w[i] * w[j] for w in weights) for i, j in ((0, 0), (0, 1), (1, 1)))
    a1, b1 = (sum(w[i] for w in weights) for i in (0, 1))
    determinant = aa * bb - ab * ab
    a, b = (a1 * bb - b1 * ab) / determinant, (b1 * aa - a1 * ab) / determinant
    return (a, b) if a > 0 and b > 0 else (sum(y for _, y in points) / len(points), 0)


def rate_and_ramp(points):
    """Of (size, FLOPs, ms): the rate, and the size at which half of it is reached."""
    a, b = fitted_line([(1 / size, 1e-3 * ms / flops) for size, flops, ms in points])
    return 1 / a, round(b / a)


def product_points(records, name):
    return [(r["k"], 2 * r["m"] * r["n"] * r["k"], r["ms"]) for r in records if r["name"] == name]


def fact(value, source="measured by device.py"):
    return {"value": value, "source": source}


def rates_of(records):
    """The section `kernels` of a pipesim-device."""
    def bandwidth(name):
        one = next(r for r in records if r["name"] == name)
        return f"{one['bytes'] / one['ms'] / 1e9:.5g}TB/s"

    def tera(rate):
        return f"{rate / 1e12:.5g}TFLOP/s"

    kind = "bf16" if any(r["name"].startswith("bf16") for r in records) else "fp32"
    rate, ramp = rate_and_ramp(product_points(records, f"{kind} product, cool"))
    hot = product_points(records, f"{kind} product, sustained")[:2]
    shares = [flops * (1 + ramp / k) / rate / (1e-3 * ms) for k, flops, ms in hot]
    kernels = {
        "product_rate": fact(tera(rate)), "product_ramp": fact(ramp),
        "sustained": fact(round(min(1.0, statistics.mean(shares)), 4)),
        "stream": fact(bandwidth("copy")), "norm": fact(bandwidth("layer norm")),
        "optimizer": fact(bandwidth("fused AdamW"))}
    if kind == "bf16":
        kernels["product_start"] = {**fact("1us", "assumed"), "unverified": True}
        kernels["start"] = {**fact("2.5us", "assumed: as on an H100"), "unverified": True}
        kernels["epilogue"] = {**fact(0.45, "assumed: as on an H100"), "unverified": True}
    fp8 = product_points(records, "fp8 product, cool")
    if fp8:
        kernels["fp8"] = fact(round(rate_and_ramp(fp8)[0] / rate, 3))
    kernels["attention"] = {}
    for library in (*BACK_ENDS, "default"):
        sides = {}
        for way, share in (("forward", 1), ("backward", 2.5)):
            points = [(r["sequence"], share * 2 * r["batch"] * r["heads"] * r["sequence"] ** 2 * r["head_size"],
                       r["ms"]) for r in records if r["name"] == f"attention by {library}, {way}"]
            if len(points) > 1:
                flops, of_length = rate_and_ramp(points)
                sides[way] = {"rate": fact(tera(flops)), "ramp": fact(of_length)}
        if len(sides) == 2:
            kernels["attention"][library] = sides
    return kernels


def device_file(name, title, memory, multiprocessors, records):
    kernels = rates_of(records)
    kind = "bf16" if "product_start" in kernels else "fp32"
    peak = {kind: fact(kernels["product_rate"]["value"], "measured: no data sheet is known")}
    if "fp8" in kernels:
        rate = float(kernels["product_rate"]["value"].removesuffix("TFLOP/s")) * kernels["fp8"]["value"]
        peak["fp8"] = fact(f"{rate:.5g}TFLOP/s", "measured: no data sheet is known")
    software = {"base": "pytorch"}
    if "cudnn" not in kernels["attention"]:
        software["kernels"] = {"attention": fact(next(iter(kernels["attention"])), "what was measured")}
    return {"format": "pipesim-device", "version": 1, "name": name, "title": title, "peak": peak,
            "memory": fact(f"{memory}B", "what PyTorch says"),
            "memory_bandwidth": fact(kernels["stream"]["value"], "measured: a copy's"),
            "multiprocessors": fact(multiprocessors, "what PyTorch says"),
            "kernels": kernels, "software": software}


def measure(given):
    device = torch.device(given.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise Refused("PyTorch sees no GPU here; give --device cpu")
    seconds, scale = (0.05, 16) if given.small else (given.seconds, 1 if device.type == "cuda" else 8)
    meter = Meter(device, seconds, scale, given.lines)
    torch.manual_seed(1)
    name, memory, multiprocessors, states = given.device, 0, 1, []
    if meter.is_gpu:
        torch.cuda.set_device(device)
        properties = torch.cuda.get_device_properties(device)
        name, memory, multiprocessors = properties.name, properties.total_memory, properties.multi_processor_count
        free, total = torch.cuda.mem_get_info(device)
        if free < 0.95 * total and not given.small:
            raise Refused(f"{name}: {(total - free) >> 20} MiB of it are in use; end what uses it")
    else:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    meter.tell({"what": "device", "who": "PyTorch", "name": name, "torch": torch.__version__,
                "memory_bytes": memory, "multiprocessors": multiprocessors})

    def look(when):
        if meter.is_gpu:
            states.append(gpu_state(device, when))
            meter.tell(states[-1])
            refuse_throttled(name, states[-1])

    look("before")
    for part in (meter.memory_bound, meter.attention, meter.products):
        part()
        look(f"after {part.__name__}")
    if meter.is_gpu:
        meter.host()
    unsteady = max((r for r in meter.records if not r["name"].startswith("host")), key=lambda r: r["spread"])
    if unsteady["spread"] > given.most_spread / 100 and not given.lines:
        raise Refused(f"{name}: times of {unsteady['name']} spread by {100 * unsteady['spread']:.0f} %, over "
                      f"{given.most_spread:g} %: another process uses it, or it throttles; end that, or allow "
                      "more with --most-spread")
    title = f"{name}, measured by PyTorch {torch.__version__}"
    return device_file(given.name or name, title, memory, multiprocessors, meter.records), unsteady


def write_whole(path, text):
    """The file is there whole, or as it was."""
    part = f"{path}.part"
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(part, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", help="cuda:N or cpu; default cuda:0")
    parser.add_argument("-o", "--output", help="the pipesim-device to write")
    parser.add_argument("--name", help="its name in reports; default the device's")
    parser.add_argument("--lines", action="store_true", help="prints every time as JSON, a line each")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try it out")
    parser.add_argument("--seconds", type=float, default=2, help="of each sustained product; default 2")
    parser.add_argument("--most-spread", type=float, default=100 * UNSTEADY, metavar="PERCENT",
                        help="refuses less steady kernels; default 25")
    given = parser.parse_args()
    if not given.output and not given.lines:
        parser.error("give -o FILE.json, or --lines")
    if given.output and not given.output.endswith(".json"):
        parser.error(f"-o {given.output}: pipesim takes files that end in .json")
    if given.output and (os.path.isdir(given.output) or not os.path.isdir(os.path.dirname(given.output) or ".")):
        parser.error(f"-o {given.output}: it is a folder, or its folder does not exist")
    if given.device != "cpu" and not re.fullmatch(r"cuda(:\d+)?", given.device):
        parser.error(f"--device {given.device}: PyTorch measures cpu or cuda:N here")
    if not 0.01 <= given.seconds <= 60 or not given.most_spread >= 0:
        parser.error("--seconds: give 0.01 to 60; --most-spread: percent from 0")
    if given.name is not None and not given.name.strip():
        parser.error("--name: give the device a name")
    try:
        found, unsteady = measure(given)
        if given.output:
            write_whole(given.output, json.dumps(found, indent=2) + "\n")
    except (Refused, RuntimeError, OSError) as error:
        sys.exit(f"device.py: {error}")
    if given.output and not given.lines:
        print(f"{given.output}: products {found['kernels']['product_rate']['value']}, copies "
              f"{found['kernels']['stream']['value']}; least steady: {unsteady['name']}, by "
              f"{100 * unsteady['spread']:.1f} %\npipesim --cluster {given.output} predicts with it.")


if __name__ == "__main__":
    main()
