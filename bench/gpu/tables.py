"""Tables of what a run of run.sh has measured, on standard output; all of it as JSON.

    tables.py FOLDER RESULTS.json      FOLDER holds figures.jsonl, status and logs
"""

import json
import pathlib
import statistics
import sys

GOAL = 0.95


def read(folder):
    figures = [json.loads(line) for line in (folder / "figures.jsonl").read_text().splitlines()]
    parts = []
    for line in (folder / "status").read_text().splitlines():
        part, name, status, seconds, why = line.split("\t")
        parts.append({"part": part, "name": name, "status": status, "seconds": int(seconds), "why": why})
    machine = folder / "logs" / "machine.log"
    return {"format": "pipesim-gpu-results", "version": 1,
            "machine": machine.read_text() if machine.exists() else "",
            "runs": parts, "figures": figures}


def medians(figures, what, keys, values):
    """By keys, then by who: medians over turns."""
    found = {}
    for line in figures:
        if line.get("what") == what:
            key = tuple(line[k] for k in keys)
            found.setdefault(key, {}).setdefault(line["who"], []).append(line)
    return {key: {who: {v: statistics.median(line[v] for line in lines) for v in values if v in lines[0]}
                  for who, lines in whos.items()}
            for key, whos in found.items()}


def share(ours, theirs):
    """How fast ours is beside theirs, from times."""
    ratio = theirs / ours
    return f"{100 * ratio:6.1f} %{'' if ratio >= GOAL else ' *'}"


def blocks(figures):
    keys = ("precision", "hidden", "batch", "sequence")
    table = medians(figures, "block", keys, ("F_ms", "I_ms", "W_ms", "B_ms", "ms"))
    if not table:
        return
    print("\nblock, forward and backward; medians; speed beside PyTorch's, goal 95 %")
    print(f"{'':6}{'hidden':>7}{'batch':>6}{'tokens':>7}  {'':24}{'F ms':>9}{'I+W ms':>9}{'all ms':>9}"
          f"{'tokens/s':>12}  ours beside it")
    for (precision, hidden, batch, sequence), whos in table.items():
        for who, times in sorted(whos.items(), key=lambda item: item[0] != "pipesim"):
            back = times.get("B_ms") or times["I_ms"] + times["W_ms"]
            line = (f"{precision:6}{hidden:>7}{batch:>6}{sequence:>7}  {who:24}{times['F_ms']:9.3f}{back:9.3f}"
                    f"{times['ms']:9.3f}{1e3 * batch * sequence / times['ms']:12.0f}")
            if who != "pipesim" and "pipesim" in whos:
                line += "  " + share(whos["pipesim"]["ms"], times["ms"])
            print(line)


def attention(figures):
    keys = ("precision", "batch", "sequence", "heads", "head_size")
    table = medians(figures, "attention", keys, ("F_ms", "B_ms"))
    if not table:
        return
    print("\ncausal attention, TFLOP/s of two products forward and four backward, half of each")
    print(f"{'':6}{'batch':>6}{'tokens':>7}{'heads':>6}{'size':>6}  {'':10}{'forward':>9}{'backward':>9}"
          f"  ours beside it")
    for (precision, batch, sequence, heads, size), whos in table.items():
        half = 2 * batch * heads * size * sequence * (sequence + 1) / 2  # flop of half a product
        for who, times in sorted(whos.items(), key=lambda item: item[0] != "pipesim"):
            line = (f"{precision:6}{batch:>6}{sequence:>7}{heads:>6}{size:>6}  {who:10}"
                    f"{2e-9 * half / times['F_ms']:9.1f}{4e-9 * half / times['B_ms']:9.1f}")
            if who != "pipesim" and "pipesim" in whos:
                ours = whos["pipesim"]
                line += f"  {share(ours['F_ms'], times['F_ms'])}  {share(ours['B_ms'], times['B_ms'])}"
            print(line)


def products(figures):
    keys = ("precision", "m", "n", "k", "use")
    table = medians(figures, "product", keys, ("ms",))
    if not table:
        return
    bare = sorted({who for whos in table.values() for who in whos} - {"pipesim"})
    print("\nmatrix products, TFLOP/s; ours beside the fastest bare one, goal 95 %")
    print(f"{'':6}{'':8}{'m':>7}{'n':>7}{'k':>7}{'pipesim':>10}" + "".join(f"{who:>16}" for who in bare))
    for (precision, m, n, k, use), whos in table.items():
        rate = {who: 2e-9 * m * n * k / times["ms"] for who, times in whos.items()}
        line = f"{precision:6}{use:8}{m:>7}{n:>7}{k:>7}{rate['pipesim']:10.1f}"
        line += "".join(f"{rate[who]:16.1f}" if who in rate else f"{'':16}" for who in bare)
        others = [times["ms"] for who, times in whos.items() if who != "pipesim"]
        print(line + ("  " + share(whos["pipesim"]["ms"], min(others)) if others else ""))


def operators(figures):
    found = [line for line in figures if line.get("what") == "operator"]
    if not found:
        return
    print("\noperators, GB/s of what must move, beside a copy within the device of the same run")
    for precision in dict.fromkeys(line["precision"] for line in found):
        rates = {line["name"]: 1e-6 * line["bytes"] / line["ms"] for line in found
                 if line["precision"] == precision}
        copy = rates.get("copy within the device")
        for name, rate in rates.items():
            beside = f"{100 * rate / copy:7.1f} %" if copy else ""
            print(f"{precision:6}{name:34}{rate:9.0f}{beside}")


def main():
    folder = pathlib.Path(sys.argv[1])
    results = read(folder)
    for table in (blocks, products, attention, operators):
        table(results["figures"])
    if any(line.get("what") in ("block", "product", "attention") for line in results["figures"]):
        print("\n* below 95 %")
    pathlib.Path(sys.argv[2]).write_text(json.dumps(results, indent=1) + "\n")


main()
