#!/usr/bin/env python3
"""Asks transformers what exported weights say.

Trains a small GPT, a Llama and one with biases as Qwen2 has them for some
iterations, exports each by `pipeexec checkpoint export`, loads that by
transformers, and compares the loss of a text with the one that pipeexec finds
for the same weights, imported again.

    python3 -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python examples/pytorch/check_export.py build/release/pipeexec

Needs PyTorch and transformers (4.37 or newer, no GPU); nothing else in this
project does.
"""

import json
import os
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM

TOKENS = 96
TEXT = (b"Pipelines have to be filled before they are full, and emptied before they "
        b"are empty; in between, everyone works.")[:TOKENS + 1]

COMMON = {"format": "pipesim-model", "version": 1, "blocks": 4, "hidden_size": 64, "heads": 4,
          "vocabulary_size": 256, "max_sequence_length": 128}
MODELS = [
    {"name": "a GPT", "architecture": "gpt", "tied_head": True},
    {"name": "a GPT, untied", "architecture": "gpt", "tied_head": False},
    {"name": "a Llama", "architecture": "llama", "mlp_size": 176, "kv_heads": 2},
    {"name": "a Llama, tied", "architecture": "llama", "mlp_size": 176, "tied_head": True},
    {"name": "a Qwen2", "architecture": "llama", "mlp_size": 176, "kv_heads": 1,
     "qkv_bias": True},
]


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def losses(pipeexec, model, folder):
    """pipeexec's and transformers', of the text."""
    where = lambda name: os.path.join(folder, name)
    with open(where("model.json"), "w") as file:
        json.dump(COMMON | model, file)
    with open(where("text"), "wb") as file:
        file.write(TEXT)
    os.mkdir(where("out"))
    training = [pipeexec, "--schedule", "1f1b", "--stages", "2", "--microbatches", "2",
                "--model", where("model.json")]
    run(*training, "--iterations", "60", "--learning-rate", "0.003", "--checkpoint", where("ck"),
        "--quiet")
    weights = where("out/model.safetensors")
    run(pipeexec, "checkpoint", "export", where("ck"), weights,
        "--config", where("out/config.json"))
    run(pipeexec, "checkpoint", "import", weights, "--model", where("model.json"),
        "--checkpoint", where("in"))
    # A text of one token more than a sequence has: all sequences are it.
    own = json.loads(run(*training, "--resume", where("in"), "--data", where("text"),
                         "--sequence-length", str(TOKENS), "--warmup", "0", "--iterations", "1",
                         "--learning-rate", "0", "--json"))["losses"][0]
    network = AutoModelForCausalLM.from_pretrained(where("out"), torch_dtype=torch.float32).eval()
    tokens = torch.tensor([list(TEXT)])
    with torch.no_grad():
        logits = network(tokens[:, :-1]).logits[0]
        theirs = torch.nn.functional.cross_entropy(logits, tokens[0, 1:]).item()
    return type(network).__name__, own, theirs


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    worst = 0.0
    for model in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            kind, own, theirs = losses(sys.argv[1], model, folder)
        worst = max(worst, abs(own - theirs) / theirs)
        print(f"{model['name']:<14} as {kind:<17} pipeexec {own:.7f}  transformers {theirs:.7f}")
    print(f"the largest relative difference: {worst:.1e}")
    if worst > 1e-5:
        sys.exit("more than 1e-5")


if __name__ == "__main__":
    main()
