"""Chakra execution traces: what ASTRA-sim simulates, written from pipesim's traces and read back.

    chakra.write("timeline.json", "out/1f1b")  # out/1f1b.0.et, out/1f1b.1.et, ..., a rank each
    program = chakra.read("out/1f1b")          # of each rank its actions, in order
    chakra.schedule(program), chakra.costs(program)  # for pipesim --schedule and --costs

Files and types are those of schema/protobuf/et_def.proto in mlcommons/chakra (commit 21585d8, MIT
licence), and what its feeder and ASTRA-sim (commit 518bd51) read:

- F, I, B, W and all else that a rank does alone are COMP_NODEs. ASTRA-sim takes their time, as in
  the trace, from `duration_micros`, whole microseconds; attribute `ns` is exact.
- SEND and RECV are COMM_SEND_NODE and COMM_RECV_NODE. `comm_size` is at least 1, since ASTRA-sim
  refuses messages of 0 bytes; `bytes` is exact.
- GRAD_NORM and REDUCE_TIED are COMM_COLL_NODEs: all-reduces of group `pg_name`, whose ranks are in
  PREFIX.groups.json (--comm-group-configuration), of the size in the trace's costs, or else 1.
- What runs beside compute, such as an exchange with replicas, is a COMP_NODE with `is_cpu_op`.
- `data_deps` are the previous action of the rank, the message that an action awaits, and what runs
  beside and is needed, unless the two overlap. Without `num_ops`, roofline-enabled must be 0.
"""

import gzip
import json
import os
import pathlib
import re
import statistics
import tempfile
import zlib
from typing import NamedTuple, Optional

from pipesim import et_file
from pipesim.errors import PipesimError
from pipesim.et_file import ALL_REDUCE, COLL, COMP, RECV, SEND
from pipesim.prediction import Prediction

ACTION = re.compile(r"(\d+)([A-Z_]*[A-Z])(\d*)")


class Action(NamedTuple):
    """One action. `name` is its cell in a schedule; an OVERLAP_F_B has its forward's stage."""
    name: str
    stage: int
    kind: str
    microbatch: Optional[int]
    ns: int     # its duration
    bytes: int  # of a SEND or RECV, else 0


def write(trace, prefix, iteration=None):
    """Writes one iteration, by default the first, of a trace of `pipesim --trace` or `pipeexec
    --trace`: a file's name, its parsed JSON, or a Prediction. Returns the names of the files. Ranks
    are the run's, replicas adjacent. Raises PipesimError if the trace is none or lacks something.
    """
    prefix = os.fsdecode(prefix)
    if isinstance(trace, Prediction):
        with tempfile.TemporaryDirectory(prefix="pipesim-") as folder:
            trace.write_trace(made := os.path.join(folder, "trace.json"))
            with open(made, encoding="utf-8") as file:
                return write(json.load(file), prefix, iteration)
    path = "trace" if isinstance(trace, dict) else str(trace)
    try:
        if not isinstance(trace, dict):
            data = pathlib.Path(path).read_bytes()
            trace = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        meta = trace["metadata"]["pipesim"]
        events = [e for e in trace["traceEvents"]
                  if e["ph"] == "X" and e["cat"] not in ("layer", "tensor")]
        if iteration is None:
            iteration = min((e["args"]["iteration"] for e in events), default=0)
        events = [e for e in events if e["args"]["iteration"] == iteration]
        if not events:
            raise PipesimError(f"no iteration {iteration}")
        nodes = _nodes(sorted(events, key=lambda e: e["ts"]), meta["microbatches"])
        groups = _join_groups(nodes, meta.get("costs", {}))
    except (EOFError, KeyError, OSError, TypeError, ValueError, zlib.error) as error:
        what = error if isinstance(error, PipesimError) else f"no pipesim trace: {error!r}"
        raise PipesimError(f"{path}: {what}") from None
    names = [f"{prefix}.{rank}.et" for rank in range(len(nodes))]
    for name, own in zip(names, nodes):
        et_file.write(name, len(nodes), [
            (event["name"], kind, needs, round(event["ts"]), round(event["dur"]),
             {**attributes, "ns": round(event["dur"] * 1000)})
            for event, kind, needs, attributes in own])
    if groups:
        names.append(f"{prefix}.groups.json")
        pathlib.Path(names[-1]).write_text(json.dumps(groups))
    return names


def _nodes(events, microbatches):
    """Of each rank its nodes, [event, type, numbers of nodes it needs, attributes]: a RECV before
    the action that awaits it, a SEND after the one that made it."""
    pipelines = 1 + max(e["args"].get("replica", 0) for e in events)
    messages, alone = {}, {}  # both ends of each message; of each rank all else
    for event in events:
        args = event["args"]
        replica = args.get("replica", 0)
        rank = args["rank"] * pipelines + replica
        if event["cat"] == "p2p":
            side, letter = args["kind"].split("_")
            key = letter, _sender(side, letter, args["stage"]), args["microbatch"], replica
            messages.setdefault(key, {})[side] = event, rank
        else:
            alone.setdefault(rank, []).append(event)
    nodes = [[] for _ in range(1 + max(alone))]
    for rank, own in enumerate(nodes):
        last, beside, unshard = [], [], {}  # numbers of nodes

        def add(event, kind, needs, **attributes):
            own.append([event, kind, set(needs), {"is_cpu_op": 0, **attributes}])
            return [len(own) - 1]

        def ended(event, numbers):
            return [n for n in numbers  # times are whole nanoseconds, in microseconds
                    if own[n][0]["ts"] + own[n][0]["dur"] < event["ts"] + 0.0005]

        def transfers(side, parts, needs):
            found = []
            for stage, kind, microbatch in parts:
                letter = "F" if kind == "F" else "B"
                sender = _sender(side, letter, stage)
                both = messages.get((letter, sender, microbatch, rank % pipelines))
                if kind not in "FIB" or not both:
                    continue
                if len(both) < 2:
                    raise PipesimError(f"{next(iter(both.values()))[0]['name']} has no other end")
                size = both["SEND"][0]["args"]["bytes"]
                found += add(both[side][0], SEND if side == "SEND" else RECV, needs,
                             comm_src=both["SEND"][1], comm_dst=both["RECV"][1],
                             comm_tag=2 * (sender * microbatches + microbatch) + (letter == "B"),
                             comm_size=max(1, size), bytes=size)
            return found

        for event in alone.get(rank, ()):
            parts, kind = _parts(event["name"]), event["args"]["kind"]
            if "occurrence" in event["args"] and kind != "RESHARD":
                after = ended(event, last) or [n for each in last for n in own[each][2]]
                beside += add(event, COMP, after + beside[-1:], is_cpu_op=1)
                if kind == "UNSHARD":
                    unshard[event["args"]["stage"]] = beside[-1]
                continue
            closes = kind in ("REDUCE_TIED", "GRAD_NORM", "OPTIMIZER", "SAVE")
            awaited = beside if closes else [unshard[s] for s, _, _ in parts if s in unshard]
            needs = last + ended(event, awaited) + transfers("RECV", parts, last)
            last = add(event, COLL if kind in ("REDUCE_TIED", "GRAD_NORM") else COMP, needs)
            transfers("SEND", parts, last)
    if sum(map(len, nodes)) != len(events):
        raise PipesimError(f"iteration {events[0]['args']['iteration']}: transfers of no action")
    return nodes


def _sender(side, letter, stage):
    return stage if side == "SEND" else stage + (-1 if letter == "F" else 1)


def _join_groups(nodes, costs):
    """Completes collectives: one of a single rank is a COMP_NODE. Returns groups by name. All have
    one: ASTRA-sim confuses collectives of its unnamed group with those of others."""
    met, groups = {}, {}
    for rank, node in ((r, n) for r, own in enumerate(nodes) for n in own if n[1] == COLL):
        args = node[0]["args"]
        replica = args.get("replica", 0) if args["kind"] == "REDUCE_TIED" else 0
        met.setdefault((args["kind"], replica), []).append((rank, node))
    for (kind, _), members in met.items():
        n, of = len(members), "tied_gradients" if kind == "REDUCE_TIED" else "gradient_norm"
        if n == 1:
            members[0][1][1] = COMP
            continue
        # Costs say what crosses each link: in a ring 2 (n - 1) / n of what is summed.
        size = max(1, costs.get(of, {}).get("bytes", 0) * n // (2 * n - 2))
        groups[str(len(groups) + 1)] = [rank for rank, _ in members]
        for _, node in members:
            node[3].update(comm_type=ALL_REDUCE, comm_size=size, pg_name=str(len(groups)))
    return groups


def read(prefix):
    """Of each rank the list of its Actions, in order, from files that `write` made. Raises
    PipesimError with the file, and the byte or action, where something is wrong or missing."""
    program, count, ends = [], None, {}
    while len(program) != count:
        path = f"{prefix}.{len(program)}.et"
        if not pathlib.Path(path).is_file():
            raise PipesimError(f"{path}: missing" + (f", of {count} ranks" if count else ""))
        (header, *nodes), own = et_file.read(path), []
        if header.get("nodes") != len(nodes):
            raise PipesimError(f"{path}: {len(nodes)} actions instead of {header.get('nodes')}")
        count = count or header.get("ranks")
        if count != header.get("ranks") or not count:
            raise PipesimError(f"{path}: of {header.get('ranks')} ranks instead of {count}")
        for node in nodes:
            parts = _parts(node["name"])
            if not parts or "ns" not in node:
                raise PipesimError(f"{path}: no action of pipesim: {node['name']!r}")
            stage, kind, microbatch = parts[0]
            own.append(Action(node["name"], stage, kind if len(parts) == 1 else "OVERLAP_F_B",
                              microbatch, node["ns"], node.get("bytes", 0)))
            if "comm_tag" in node:
                key = tuple(node.get(k) for k in ("comm_src", "comm_dst", "comm_tag", "comm_size"))
                ends.setdefault(key, []).append(f"{path}: {node['name']}")
        program.append(own)
    for names in ends.values():
        if len(names) != 2:
            raise PipesimError(f"{names[0]} has no other end")
    return program


def schedule(program):
    """The program as a CSV schedule, to which pipesim adds transfers."""
    kinds = ("F", "I", "B", "W", "UNSHARD", "RESHARD", "REDUCE_GRAD", "OVERLAP_F_B")
    return "".join(",".join(a.name for a in own if a.kind in kinds) + "\n" for own in program)


def costs(program):
    """Mean times and message sizes as a pipesim-costs object, whose transfers are free."""
    found = {}
    for a in (a for own in program for a in own):
        found.setdefault((a.stage, a.kind), []).append(a.bytes if a.kind == "SEND_F" else a.ns)
    mean = {key: round(statistics.mean(values)) for key, values in found.items()}
    stages = [{"forward_ns": mean.get((s, "F"), 0),
               "backward_input_ns": mean.get((s, "I"), mean.get((s, "B"), 0)),
               "backward_weight_ns": mean.get((s, "W"), 0),
               "output_bytes": mean.get((s, "SEND_F"), 0)} for s in range(1 + max(mean)[0])]
    steps = [sum(a.ns for a in own if a.kind == "OPTIMIZER") for own in program]
    return {"format": "pipesim-costs", "version": 1, "stages": stages, "optimizer_ns": steps}


def _parts(name):
    return [(int(s), kind, int(m) if m else None) for s, kind, m in ACTION.findall(name)]
