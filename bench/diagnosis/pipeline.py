"""What a pipeline takes, worked out action by action: the truth that diagnoses are held to.

Written by itself, from the definitions in traces/METRICS.md, and not from pipesim's code: an
action starts when its rank has done what stands before it and its input has arrived; a message
leaves with its result and takes its link's latency and bytes / bandwidth.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

ACTION = re.compile(r"(\d+)([FIWB])(\d+)")

Action = tuple[int, str, int]  # stage, kind, microbatch


@dataclass
class Closing:
    """What ends an iteration of two replicas whose ranks have a stage each: its gradients are
    exchanged, half of them each way, summed up and sent back, and then it is stepped. Buckets
    come from the last backward, evenly; without, they are reduced at once."""

    gradient_bytes: int
    bucket_bytes: int | None
    latency_ns: int  # of a step
    bytes_per_second: int
    step_ns: int

    def end_ns(self, end: int, last: Action, pipeline: Pipeline) -> int:
        took = pipeline.durations[last[0], last[1]] * pipeline.scales.get(last, 1)
        bucket = self.bucket_bytes or self.gradient_bytes
        link = 0.0
        made = 0
        while made < self.gradient_bytes:
            size = min(bucket, self.gradient_bytes - made)
            made += size
            ready = end - took * (1 - made / self.gradient_bytes) if self.bucket_bytes else end
            link = max(link, ready) + size / self.bytes_per_second * 10**9
        return round(max(end, link + 2 * self.latency_ns)) + self.step_ns


@dataclass
class Pipeline:
    """A program and its times, all in nanoseconds."""

    program: list[list[Action]]
    rank_of_stage: list[int]
    durations: dict[tuple[int, str], int]  # by stage and kind
    links: dict[tuple[int, int], int]  # what a message takes, from stage to stage
    scales: dict[Action, float] = field(default_factory=dict)
    launches: dict[int, int] = field(default_factory=dict)  # by rank
    pauses: dict[Action, int] = field(default_factory=dict)

    closing: Closing | None = None

    def iteration_ns(self, iterations: int = 4) -> int:
        """What each further iteration takes: ranks go on without waiting for all."""
        free = [0] * len(self.program)
        ends_ns = []
        for _ in range(iterations):
            self._run(free)
            if self.closing:
                free = [self.closing.end_ns(end, row[-1], self)
                        for end, row in zip(free, self.program, strict=True)]
            ends_ns.append(max(free))
        return ends_ns[-1] - ends_ns[-2]

    def _run(self, free: list[int]) -> None:
        """One iteration, by ranks that are free at those times, and then at others."""
        ends: dict[Action, int] = {}
        places = [0] * len(self.program)
        left = sum(len(row) for row in self.program)
        while left > 0:
            before = left
            for rank, row in enumerate(self.program):
                while places[rank] < len(row):
                    action = row[places[rank]]
                    arrival = self._arrival_ns(action, rank, ends)
                    if arrival is None:
                        break
                    start = max(free[rank], arrival)
                    start += self.launches.get(rank, 0) + self.pauses.get(action, 0)
                    took = self.durations[action[0], action[1]]
                    free[rank] = ends[action] = start + round(took * self.scales.get(action, 1))
                    places[rank] += 1
                    left -= 1
            if left == before:
                raise ValueError("the program waits for itself")

    def _arrival_ns(self, action: Action, rank: int, ends: dict[Action, int]) -> int | None:
        """When its input is there, 0 if it needs none, None if that is not known yet."""
        stage, kind, microbatch = action
        producers: list[Action]
        if kind == "F":
            producers = [(stage - 1, "F", microbatch)]
        elif kind in "IB":
            producers = [(stage + 1, "B", microbatch), (stage + 1, "I", microbatch)]
        else:
            return 0
        if not 0 <= producers[0][0] < len(self.rank_of_stage):
            return 0
        for producer in producers:
            if producer in ends:
                is_near = self.rank_of_stage[producer[0]] == rank
                return ends[producer] + (0 if is_near else self.links[producer[0], stage])
        return None


def parse_program(rows: list[str]) -> list[list[Action]]:
    """The compute actions of a program's CSV rows."""
    return [
        [(int(s), k, int(m)) for s, k, m in (match.groups() for match in ACTION.finditer(row))]
        for row in (re.sub(r"\d+(SEND|RECV)_[FB]\d+", "", row) for row in rows)
    ]
