"""Trains the same models on one rank by pipeexec and by PyTorch's modules, and compares losses.

compare_losses.py PIPEEXEC [STEPS]; see losses.sh. Fails where losses differ by more than 1e-5.
`compare_losses.py --version` prints PyTorch's.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import torch

from model import Model, Text, adamw, loss_of

HERE = pathlib.Path(__file__).parent
TEXT = HERE.parent.parent / "exec" / "data" / "primer.txt"
GPT, LLAMA = "replicas_model.json", "losses_llama.json"
# A model's file, what to change in it, and the learning rate: as high as leaves losses steady.
# At 0.001 a step of the gpt differs by 9e-5 where PyTorch's own weights start a bit off.
CASES = [
    ("gpt", GPT, {}, 0.0003),
    ("llama, two heads of keys", LLAMA, {}, 0.001),
    ("llama, one", LLAMA, {"kv_heads": 1}, 0.001),
    ("llama, as many as heads", LLAMA, {"kv_heads": 6}, 0.001),
    ("llama, biases, base 500,000", LLAMA, {"qkv_bias": True, "rotary_base": 500000}, 0.001),
]
MICROBATCHES, BATCH, SEQUENCE = 2, 3, 100


def by_pipeexec(pipeexec, model, rate, steps):
    command = [pipeexec, "--schedule", "gpipe", "--stages", 1, "--model", model, "--data", TEXT]
    command += ["--microbatches", MICROBATCHES, "--micro-batch-size", BATCH]
    command += ["--sequence-length", SEQUENCE, "--iterations", steps, "--warmup", 0]
    command += ["--learning-rate", rate, "--json"]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["losses"]


def by_pytorch(path, rate, steps):
    model, text = Model(path), Text(TEXT)
    optimizer = adamw(model, rate)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for microbatch in range(MICROBATCHES):
            tokens, targets = text.microbatch(step, microbatch * BATCH, BATCH, SEQUENCE)
            loss = loss_of(model(tokens), targets) / MICROBATCHES
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(total)
    return losses


def main():
    if sys.argv[1:] == ["--version"]:
        print(torch.__version__)
        return
    pipeexec = sys.argv[1]
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    torch.set_num_threads(1)
    failed = False
    print(f"{'model':30} {'first loss':>10} {'last':>8}  differ by")
    for title, file, changes, rate in CASES:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.json"
            path.write_text(json.dumps(json.loads((HERE / file).read_text()) | changes))
            ours = by_pipeexec(pipeexec, path, rate, steps)
            theirs = by_pytorch(path, rate, steps)
        worst = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
        print(f"{title:30} {ours[0]:10.4f} {ours[-1]:8.4f}  {worst:.1e}", flush=True)
        failed = failed or not worst <= 1e-5
    if failed:
        sys.exit("losses differ by more than 1e-5")


main()
