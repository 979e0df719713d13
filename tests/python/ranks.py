"""Ranks as processes, for tests of recorders: what each says, and what pipesim says of runs."""

import json
import os
import subprocess
import sys

import pipesim.program

LIMIT_S = 600  # against hangs; nothing here is about speed


def pipesim(folder, *words, program=pipesim.program.path()):
    """What the program prints; it must end well, without a word on standard error."""
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True,
                          timeout=LIMIT_S, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def train(script, folder, ranks, cases, begins="{", **environment):
    """What each rank of `script` says of each case: its lines that begin so."""
    workers = [subprocess.Popen(
        [sys.executable, str(script), json.dumps(cases)], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
        env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
             "OMP_NUM_THREADS": "1", "MEET": str(folder / f"meet{ranks}"), **environment})
        for rank in range(ranks)]
    try:
        ended = [(*worker.communicate(timeout=LIMIT_S), worker.returncode) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    for _, _, status in ended:
        assert status == 0, "\n".join(other for _, other, _ in ended)
    by_rank = [[json.loads(line) for line in output.splitlines() if line.startswith(begins)]
               for output, _, _ in ended]
    return list(zip(*by_rank))
