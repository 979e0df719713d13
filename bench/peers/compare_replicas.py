"""Runs pipeexec and PyTorch in turns, and compares losses and tokens per second.

compare_replicas.py PIPEEXEC ITERATIONS TURNS; see replicas.sh.
"""

import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
TEXT = HERE.parent.parent / "exec" / "data" / "primer.txt"
CASES = [
    ("DDP", "ddp", "--schedule gpipe --stages 1 --data-parallel 2 --bucket-bytes 25MB"),
    ("FSDP2", "fsdp", "--schedule gpipe --stages 1 --data-parallel 2 --zero 3"),
    ("pipeline", "pipeline", "--schedule gpipe --stages 2"),
]
SHAPES = [("replicas_model.json", 4, 4, 64), ("replicas_model_wide.json", 4, 4, 128)]


def by_pipeexec(pipeexec, flags, model, microbatches, batch, sequence, iterations):
    environment = dict(
        os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"
    )
    command = ["mpirun", "-n", "2", "--oversubscribe", pipeexec, *flags.split()]
    command += ["--model", str(HERE / model), "--data", str(TEXT), "--json"]
    command += ["--microbatches", microbatches, "--micro-batch-size", batch]
    command += ["--sequence-length", sequence, "--iterations", iterations, "--warmup", 2]
    command += ["--learning-rate", "0.0001"]
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, check=True, env=environment
    )
    result = json.loads(done.stdout)
    return result["warmup_losses"] + result["losses"], result["tokens_per_second"]


def by_pytorch(how, model, microbatches, batch, sequence, iterations):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [how, HERE / model, TEXT, microbatches, batch, sequence, iterations]
    ranks = []
    for rank in range(2):
        environment = dict(
            os.environ,
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE="2",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
            OMP_NUM_THREADS="1",
        )
        command = [sys.executable, HERE / "replicas.py", *arguments]
        ranks.append(
            subprocess.Popen(
                [str(word) for word in command],
                stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        )
    said = ranks[0].communicate()[0]
    for rank in ranks:
        rank.wait()
    result = json.loads(said)
    return result["losses"], result["tokens_per_second"]


def main():
    pipeexec, iterations, turns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    print(f"{'model':26} {'':9} {'pipeexec':>10} {'PyTorch':>10} {'ratio':>6}  losses differ by")
    for model, microbatches, batch, sequence in SHAPES:
        name = json.loads((HERE / model).read_text())["name"]
        shape = (model, microbatches, batch, sequence, iterations)
        for title, how, flags in CASES:
            rates, peers, ratios = [], [], []
            worst = 0.0
            for _ in range(turns):
                losses, rate = by_pipeexec(pipeexec, flags, *shape)
                theirs, peer = by_pytorch(how, *shape)
                rates.append(rate)
                peers.append(peer)
                ratios.append(rate / peer)
                worst = max(worst, max(abs(a - b) for a, b in zip(losses, theirs, strict=True)))
            print(
                f"{name:26} {title:9} {statistics.median(rates):10.0f}"
                f" {statistics.median(peers):10.0f} {statistics.median(ratios):6.2f}  {worst:.1e}",
                flush=True,
            )
            if not worst <= 1e-5:
                sys.exit(f"{title}: losses differ by {worst:.1e}, which is more than 1e-5")
    print("tokens per second, medians over turns; the ratio is that of a turn")


main()
