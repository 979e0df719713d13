"""Bytes that a block keeps for its backward, beside closed forms."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from predictions import model_flags
from program import Pipesim
from rows import Model, Training, read_json


@dataclass(frozen=True)
class BytesRow:
    """Of table 2 of Korthikanti et al.: a formula is tested, not an allocator."""

    name: str
    formula: str
    shape: str
    closed_form: int
    computed: int


# Sequence length, batch, hidden size, heads, tensor-parallel ranks where the form has them.
BLOCK_SHAPES = (
    (2048, 4, 6144, 64, 8),
    (2048, 1, 12288, 96, 8),
    (1024, 3, 2048, 16, 2),
    (4096, 2, 5120, 40, 4),
)


def closed_form(training: Training, hidden: int, heads: int) -> int:
    s, t = training.sequence_length, training.tensor_parallel
    sbh = s * training.micro_batch_size * hidden
    if training.recompute == "full":
        return 2 * sbh
    rest = 34 / t if training.sequence_parallel else 10 + 24 / t
    scores = 5 * heads * s / (hidden * t)
    return round(sbh * (rest if training.recompute == "selective" else rest + scores))


def activation_bytes(pipesim: Pipesim, folder: Path) -> list[BytesRow]:
    rows = []
    commands = []
    for form in read_json(folder / "korthikanti_2022.json")["activation_bytes"]:
        for sequence, batch, hidden, heads, split in BLOCK_SHAPES:
            model = Model(
                name="one block",
                architecture="gpt",
                blocks=1,
                hidden_size=hidden,
                heads=heads,
                kv_heads=heads,
                mlp_size=4 * hidden,
                vocabulary_size=51200,
                max_sequence_length=sequence,
                tied_head=False,
                dropout=0.1,
            )
            training = Training(
                micro_batch_size=batch,
                sequence_length=sequence,
                tensor_parallel=split if form["tensor_parallel"] else 1,
                sequence_parallel=form["sequence_parallel"],
                recompute=form["recompute"],
            )
            # The embedding, the block and the head have a rank each.
            command = ["--schedule", "1f1b", "--stages", "3", "--layout", "1,1,1"]
            command += ["--microbatches", "1"]
            commands.append(command + model_flags(pipesim, model, "dgx-a100", training))
            shape = f"s {sequence}, b {batch}, h {hidden}, a {heads}, t {training.tensor_parallel}"
            rows.append(
                (form["name"], form["formula"], shape, closed_form(training, hidden, heads))
            )
    results = pipesim.predict(commands)
    return [
        BytesRow(*row, computed=result["ranks"][1]["peak_activation_bytes"])
        for row, result in zip(rows, results)
    ]
