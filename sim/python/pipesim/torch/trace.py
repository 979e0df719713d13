"""What ranks recorded, as one Chrome trace of pipesim.

Every rank hands in a dict: `rank`; `stages`, the indices of its stages; `computes`, tuples of
(kind, stage, microbatch or None, step, start, end, taken, allocated or None); `messages`, tuples
of (kind, stage, microbatch, step, posted, wait start, wait end, bytes); `states`, bytes by
purpose; `clock`, None or an entry of `clocks`. Times are ns of rank 0's clock; steps count from 0.
"""

import gzip
import heapq
import json
import os
import tempfile

from ..errors import PipesimError

AT_ONCE_NS = 30_000  # a wait that ends this soon found its message there
COMPUTE, SEND, RECEIVE = range(3)


def merged_messages(messages):
    """One message for all tensors of a stage's input or output."""
    merged = {}
    for kind, stage, batch, step, posted, start, end, size in messages:
        one = merged.setdefault((kind, stage, batch, step), [posted, start, end, 0])
        one[0] = min(one[0], posted)
        one[1] = start if one[1] is None else one[1] if start is None else min(one[1], start)
        one[2] = end if one[2] is None else one[2] if end is None else max(one[2], end)
        one[3] += size
    return merged


def merged_computes(computes):
    """In order, the time of the loss added to its forward, and one OPTIMIZER in a step."""
    merged = {}
    for kind, stage, batch, step, start, end, taken, allocated in computes:
        key = ("F" if kind == "LOSS" else kind, stage, batch, step)
        one = merged.get(key)
        if one is None:
            merged[key] = [start, end, taken, allocated]
        else:
            one[1:] = [end, one[2] + taken, allocated]
    return sorted(merged.items(), key=lambda item: item[1][0])


def peer_of(key):
    """The SEND of a RECV."""
    kind, stage, batch, step = key
    return ("SEND_" + kind[-1], stage - 1 if kind == "RECV_F" else stage + 1, batch, step)


class Rank:
    """What happened on one rank: `slices` of (row's kind, name key, start, end, args)."""

    def __init__(self, own, sends):
        self.number, self.stages = own["rank"], sorted(own["stages"])
        self.messages = merged_messages(own["messages"])
        self.computes = merged_computes(own["computes"])
        self.slices = []
        self._place_messages(sends)
        self._place_computes(sends)
        self.slices.sort(key=lambda one: (one[1][3], one[2]))

    def _args(self, key, **more):
        kind, stage, batch, step = key
        args = {"kind": kind, "stage": stage, "rank": self.number,
                "chunk": self.stages.index(stage), "iteration": step}
        if batch is not None:
            args["microbatch"] = batch
        return {**args, **more}

    def _place_messages(self, sends):
        for key, (posted, _, end, size) in self.messages.items():
            end = posted if end is None else end
            start, row = posted, SEND
            if key[0].startswith("RECV"):
                start, row = min(end, max(posted, sends.get(peer_of(key), posted))), RECEIVE
            self.slices.append((row, key, start, end, self._args(key, bytes=size, queued_ns=0)))

    def _place_computes(self, sends):
        waits = sorted(one[1] for one in self.messages.values() if one[1] is not None)
        before, next_wait = None, 0
        for key, (start, end, taken, _) in self.computes:
            kind, stage, batch, step = key
            while before is not None and next_wait < len(waits) and waits[next_wait] < before:
                next_wait += 1
            reached = waits[next_wait] if next_wait < len(waits) else start
            queued = 0
            receive = ("RECV_F" if kind == "F" else "RECV_B", stage, batch, step)
            if kind in "FBI" and receive in self.messages:
                queued = self._stood(receive, sends, before, min(reached, start), start)
            args = self._args(key, queued_ns=queued)
            if taken:
                args["taken_ns"] = min(taken, end - start)
            self.slices.append((COMPUTE, key, start, end, args))
            before = end

    def _stood(self, receive, sends, before, reached, start):
        """How long the rank stood at an action, waiting for a message.

        Not at all if that was sent before: if the rank posted its RECV only when it needed it,
        fetching the message is the rank's own work, and if it was there nothing had to be done.
        """
        posted, wait_start, wait_end, _ = self.messages[receive]
        if wait_start is None:
            return 0
        both = max(posted, sends.get(peer_of(receive), posted))
        at_need = before is not None and posted >= before
        there = both == posted if at_need else wait_end - wait_start <= AT_ONCE_NS
        return 0 if there else start - reached

    def row_of_program(self):
        """The actions of the first step, as a CSV row: a RECV where it was waited for."""
        order = []
        for row, key, start, _, _ in self.slices:
            if key[3] == 0 and key[0] != "OPTIMIZER":
                wait = self.messages[key][1] if row == RECEIVE else None
                order.append((start if wait is None else wait, row != RECEIVE, name_of(key)))
        return ",".join(name for _, _, name in sorted(order))


def name_of(key):
    kind, stage, batch, _ = key
    return f"{stage}{kind}" + ("" if batch is None else str(batch))


def microseconds(ns):
    return f"{'-' if ns < 0 else ''}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


def event(phase, name, pid, tid, ts, args, more=""):
    return (f'{{"ph":"{phase}","name":{json.dumps(name)}{more},"pid":{pid},"tid":{tid},'
            f'"ts":{microseconds(ts)},"args":{json.dumps(args, separators=(",", ":"))}}}')


def rows_of(slices):
    """The row of each slice: the first that is free again. Returns these, and their number."""
    rows, busy = [], []
    for _, _, start, end, _ in slices:
        if busy and busy[0][0] <= start:
            _, row = heapq.heappop(busy)
        else:
            row = len(busy)
        heapq.heappush(busy, (max(end, start + 1), row))
        rows.append(row)
    return rows, len(busy)


def events_of(rank, own, zero, flows):
    """The trace events of a rank, as text. `flows` gives each SEND the number of its message."""
    pid = tid = rank.number + 1
    by_row = {row: sorted((one for one in rank.slices if one[0] == row), key=lambda one: one[2])
              for row in (COMPUTE, SEND, RECEIVE)}
    yield event("M", "process_name", pid, tid, 0, {"name": f"rank {rank.number}"})
    yield event("M", "process_sort_index", pid, tid, 0, {"sort_index": rank.number})
    for row, name in ((COMPUTE, "compute"), (SEND, "send"), (RECEIVE, "receive")):
        rows, count = rows_of(by_row[row]) if row else ([0] * len(by_row[row]), 1)
        for i in range(max(1, count)):
            yield event("M", "thread_name", pid, tid + i, 0, {"name": name})
            yield event("M", "thread_sort_index", pid, tid + i, 0, {"sort_index": tid + i})
        for (_, key, start, end, args), place in zip(by_row[row], rows):
            category = "p2p" if row else "compute"
            yield event("X", name_of(key), pid, tid + place, start - zero, args,
                        f',"cat":"{category}","dur":{microseconds(end - start)}')
            if row == SEND and key in flows:
                yield event("s", "message", pid, tid + place, start - zero, {},
                            f',"cat":"p2p","id":{flows[key]}')
            if row == RECEIVE and peer_of(key) in flows:
                yield event("f", "message", pid, tid + place, max(start, end - 1) - zero, {},
                            f',"cat":"p2p","id":{flows[peer_of(key)]},"bp":"e"')
        tid += max(1, count)
    states = own["states"]
    for key, (_, end, _, allocated) in rank.computes:
        if allocated is not None:
            rest = max(0, allocated - sum(states.values()))
            yield event("C", "memory", pid, pid, end - zero, {**states, "activations": rest})


def text_of(everyone, about):
    """The trace of a run: what each rank handed in, and facts for the metadata."""
    sends = {}
    for own in everyone:
        for (kind, *key), one in merged_messages(own["messages"]).items():
            if kind.startswith("SEND"):
                sends[(kind, *key)] = one[0]
    ranks = [Rank(own, sends) for own in everyone]
    zero = min(start for rank in ranks for _, _, start, _, _ in rank.slices)
    flows = {key: i for i, key in enumerate(sends)}

    last = {}  # the end of each step
    for rank in ranks:
        for key, (_, end, _, _) in rank.computes:
            last[key[3]] = max(end, last.get(key[3], end))
    steps = len(last)
    ends = [last[step] for step in range(steps)]
    first = min(start for rank in ranks for _, key, start, _, _ in rank.slices if key[3] == 0)
    lengths = [end - start for start, end in zip([first, *ends], ends)]

    place = {stage: rank.number for rank in ranks for stage in rank.stages}
    metadata = {
        "format": "pipesim-trace", "version": 1, "source": "measured",
        "schedule": about["schedule"], "stages": len(ranks),
        "virtual_stages": max(len(rank.stages) for rank in ranks),
        "microbatches": about["microbatches"],
        "rank_of_stage": [place[stage] for stage in sorted(place)], "iterations": steps,
        "warmup_iterations": about["warmup"], "continuous": True,
        "makespan_ns": sorted(lengths)[(steps - 1) // 2], "iteration_ns": lengths,
        "device": about["device"], "transport": about["transport"],
        "machine": {"kind": "measured", "processors": os.cpu_count()},
        "recorded_by": about["by"],
        "peak_memory_bytes": [own["peak_bytes"] for own in everyone],
        "program": [rank.row_of_program() for rank in ranks]}
    if any(own["clock"] for own in everyone):
        metadata["clocks"] = [own["clock"] for own in everyone]
        metadata["adjusted_transfers"] = 0
    events = (text for rank, own in zip(ranks, everyone)
              for text in events_of(rank, own, zero, flows))
    head = json.dumps({"pipesim": metadata}, separators=(",", ":"))
    return (f'{{"displayTimeUnit":"ms","metadata":{head},"traceEvents":[\n' + ",\n".join(events) +
            "\n]}\n")


def check_place(path):
    """Raises PipesimError if a trace cannot be put at `path`."""
    folder = os.path.dirname(path) or "."
    if not path.endswith((".json", ".json.gz")):
        raise PipesimError(f"{path}: give a trace a name that ends in .json or .json.gz")
    if os.path.isdir(path) or not os.path.isdir(folder):
        raise PipesimError(f"{path}: it is a folder, or its folder does not exist")
    if not os.access(folder, os.W_OK):
        raise PipesimError(f"{path}: its folder can't be written to")


def write_whole(path, text):
    """The file is there whole, or as it was."""
    data = text.encode()
    if path.endswith(".gz"):
        data = gzip.compress(data, compresslevel=6)
    handle, part = tempfile.mkstemp(prefix=".pipesim-", suffix=".part",
                                    dir=os.path.dirname(path) or ".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(part, 0o666 & ~mask)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
