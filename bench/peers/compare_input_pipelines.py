"""Runs pipeexec's input pipelines and PyTorch's in turns, and compares losses and samples a second.

compare_input_pipelines.py PIPEEXEC BATCHES TURNS; see input_pipeline.sh.
"""

import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile

import numpy

from recommendation import LEARNING_RATE, draw_samples, read_model, write_batches

HERE = pathlib.Path(__file__).parent
MODEL = HERE / "input_pipeline_model.json"
RANKS = 2
BATCH_SIZES = [256, 2048]
WITHIN = 1e-5


def by_pipeexec(pipeexec, how, folder, batch_size):
    environment = dict(
        os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"
    )
    command = ["mpirun", "-n", RANKS, "--oversubscribe", pipeexec, "--input-pipeline", how]
    command += ["--model", MODEL, "--data", folder / "samples.txt", "--batch-size", batch_size]
    command += ["--learning-rate", LEARNING_RATE, "--json"]
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        check=True,
        env=environment,
    )
    result = json.loads(done.stdout)
    return result["losses"], result["samples_per_second"]


def by_pytorch(how, folder, batch_size):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, HERE / "input_pipeline.py", how, MODEL, folder / "samples.npz"]
    ranks = []
    for rank in range(RANKS):
        environment = dict(
            os.environ,
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE=str(RANKS),
            LOCAL_WORLD_SIZE=str(RANKS),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
            OMP_NUM_THREADS="1",
        )
        ranks.append(
            subprocess.Popen(
                [str(word) for word in [*command, batch_size]],
                stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        )
    said = ranks[0].communicate()[0]
    for rank in ranks:
        rank.wait()
    if not said:
        sys.exit(f"{how}: PyTorch's ranks failed; try bench/peers/input_pipeline.py by torchrun")
    result = json.loads(said)
    return result["losses"], result["samples_per_second"]


def main():
    pipeexec, batches, turns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    versions = [sys.executable, HERE / "input_pipeline.py", "--versions"]
    has_torchrec = b"torchrec" in subprocess.run(versions, capture_output=True, check=True).stdout
    model = read_model(MODEL)
    runs = {
        "pipeexec, base": lambda *at: by_pipeexec(pipeexec, "base", *at),
        "pipeexec, sparse-dist": lambda *at: by_pipeexec(pipeexec, "sparse-dist", *at),
        "PyTorch, by hand": lambda *at: by_pytorch("plain", *at),
    }
    if has_torchrec:
        runs["torchrec, base"] = lambda *at: by_pytorch("base", *at)
        runs["torchrec, sparse-dist"] = lambda *at: by_pytorch("sparse-dist", *at)
    print(f"{'samples a batch':>15}  {'':22} {'samples/s':>10} {'least':>10} {'most':>10}  ratio"
          "  losses differ by")
    for batch_size in BATCH_SIZES:
        rates = {title: [] for title in runs}
        worst = dict.fromkeys(runs, 0.0)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            arrays = draw_samples(model, batches * RANKS * batch_size)
            write_batches(model, arrays, folder / "samples.txt")
            numpy.savez(folder / "samples.npz", **arrays)
            for _ in range(turns):
                reference = None
                for title, run in runs.items():
                    losses, rate = run(folder, batch_size)
                    reference = reference or losses
                    rates[title].append(rate)
                    apart = max(abs(a - b) for a, b in zip(reference, losses, strict=True))
                    worst[title] = max(worst[title], apart)
        base = statistics.median(rates["pipeexec, base"])
        for title, own in rates.items():
            rate = statistics.median(own)
            print(f"{batch_size:15}  {title:22} {rate:10.0f} {min(own):10.0f} {max(own):10.0f}"
                  f" {rate / base:6.2f}  {worst[title]:.1e}", flush=True)
            if not worst[title] <= WITHIN:
                sys.exit(f"{title}: losses differ by {worst[title]:.1e}, more than {WITHIN:.0e}")
    print("samples a second of all ranks, steady, medians over turns; the ratio is to the first row")


main()
