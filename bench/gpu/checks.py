"""Judges what runs of pipeexec printed. Each check prints figures, one JSON object a
line, then a sentence, and ends with 1 where something that must be is not.

    checks.py same PRECISION RESULT RESULT             the same losses, to the bit
    checks.py losses PRECISION TOLERANCE RESULT CPU    losses near the CPU's
    checks.py recorder FOLDER                          recorder-on-*.log against -off-
    checks.py gaps TRACE.json[.gz]                     between actions of one rank
    checks.py fidelity ROWS                            of bench/fidelity/run.sh
    checks.py stopped SEED COMMAND...                  SIGTERM strikes it; it saves, and ends with 143

Goals that are of speed (recorder, gaps, fidelity) are told and fail nothing.
"""

import gzip
import json
import pathlib
import random
import statistics
import subprocess
import sys
import time


def read(path):
    opened = gzip.open(path, "rt") if str(path).endswith(".gz") else open(path)
    with opened as file:
        return json.load(file)


def losses_of(path):
    result = read(path)
    losses = result["warmup_losses"] + result["losses"]
    assert losses, f"{path} holds no losses"
    return losses


def same(precision, first, second):
    equal = losses_of(first) == losses_of(second)
    print(json.dumps({"what": "same twice", "precision": precision, "ok": equal}))
    print("the same losses" if equal else "other losses")
    return equal


def losses(precision, tolerance, result, cpu):
    ours, theirs = losses_of(result), losses_of(cpu)
    assert len(ours) == len(theirs), "of other numbers of iterations"
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
    ok = worst <= float(tolerance)  # false where it is no number
    figures = {"what": "losses", "precision": precision, "largest_relative_difference": worst,
               "tolerance": float(tolerance), "ok": ok, "losses": ours, "cpu_losses": theirs}
    print(json.dumps(figures))
    print(f"largest difference {100 * worst:.4f} % of the CPU's float32 loss, at most {100 * float(tolerance)} %")
    return ok


def recorder(folder):
    times = {}
    for state in ("off", "on"):
        paths = sorted(pathlib.Path(folder).glob(f"recorder-{state}-*.log"))
        times[state] = [time for path in paths for time in read(path)["iteration_times_ns"]]
        assert times[state], f"{folder} holds no runs with the recorder {state}"
    off, on = (statistics.median(times[state]) for state in ("off", "on"))
    runs = {state: [] for state in times}
    for state in runs:
        for path in sorted(pathlib.Path(folder).glob(f"recorder-{state}-*.log")):
            runs[state].append(read(path)["iteration_ns"])
    print(json.dumps({"what": "recorder", "off_ns": off, "on_ns": on, "on_over_off": on / off,
                      "off_runs_ns": runs["off"], "on_runs_ns": runs["on"]}))
    spread = max(runs["off"]) / min(runs["off"]) - 1
    print(f"iteration {off / 1e6:.3f} ms without, {on / 1e6:.3f} ms with the recorder: "
          f"{100 * (on / off - 1):+.2f} %; goal at most +0.5 %; medians of runs without are "
          f"{100 * spread:.2f} % apart")
    return True


def gaps(path):
    actions = {}
    for event in read(path)["traceEvents"]:
        if event.get("cat") != "compute" or event["args"]["kind"] not in ("F", "I", "W", "B"):
            continue
        where = (event["args"]["rank"], event["args"]["iteration"])
        # Microseconds with three decimals: whole nanoseconds.
        start, duration = round(1e3 * float(event["ts"])), round(1e3 * float(event["dur"]))
        actions.setdefault(where, []).append((start, start + duration))
    found, lengths = [], []
    for spans in actions.values():
        spans.sort()
        found += [b[0] - a[1] for a, b in zip(spans, spans[1:])]
        lengths += [end - start for start, end in spans]
    assert found, f"{path} holds no two actions of an iteration"
    found.sort()
    p90 = found[int(0.9 * (len(found) - 1))]
    figures = {"what": "gaps", "count": len(found), "median_ns": statistics.median(found),
               "p90_ns": p90, "worst_ns": found[-1],
               "median_action_ns": statistics.median(lengths)}
    print(json.dumps(figures))
    print(f"of {len(found)} gaps between actions the median is {figures['median_ns'] / 1e3:.2f} us, "
          f"p90 {p90 / 1e3:.2f} us, the worst {found[-1] / 1e3:.2f} us; goal at most 10 us; "
          f"actions take {figures['median_action_ns'] / 1e3:.0f} us in the median")
    return True


def fidelity(path):
    errors = {}
    for line in open(path):
        turn, case, calibrated, schedule, microbatches, predicted, measured = line.split()[:7]
        error = int(predicted) / int(measured) - 1
        print(json.dumps({"what": "fidelity", "case": case, "turn": int(turn), "calibrated": calibrated,
                          "schedule": schedule, "microbatches": int(microbatches),
                          "predicted_ns": int(predicted), "measured_ns": int(measured), "error": error}))
        if schedule != calibrated:
            errors.setdefault(case, []).append(abs(error))
    assert errors, f"{path} holds no predictions"
    for case, sizes in sorted(errors.items()):
        goal = "; goal at most 2 %" if case == "gpu1" else ""
        print(f"{case}: median error {100 * statistics.median(sizes):.2f} %, "
              f"largest {100 * max(sizes):.2f} %{goal}")
    return True


def stopped(seed, *command):
    folder = pathlib.Path(command[command.index("--checkpoint") + 1])
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        # It trains once it has saved; the moment within an iteration is drawn.
        while not list(folder.glob("*")) and run.poll() is None:
            time.sleep(0.01)
        time.sleep(random.Random(int(seed)).uniform(0.2, 1.2))
        run.terminate()
        words = run.communicate(timeout=30)[1]
    print(words.strip())
    print(json.dumps({"what": "stopped", "seed": int(seed), "status": run.returncode}))
    assert run.returncode == 143 and "is saved" in words, f"it ended with {run.returncode}"
    return True


def main():
    checks = {check.__name__: check for check in (same, losses, recorder, gaps, fidelity, stopped)}
    try:
        sys.exit(0 if checks[sys.argv[1]](*sys.argv[2:]) else 1)
    except (AssertionError, OSError, ValueError) as error:  # json's, too
        sys.exit(f"checks.py {' '.join(sys.argv[1:])}: {error}; did the runs it is about fail?")


main()
