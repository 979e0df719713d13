"""When things happen on a rank, and how its clock relates to rank 0's.

A tick is what a clock takes at an instant: on processors the host's time in ns, on CUDA an event
on the current stream, whose time is known only later.
"""

import os
import socket
import threading
import time

import torch
import torch.distributed as dist

now = time.monotonic_ns
ROUNDS = 64  # of asking for the time; the shortest counts


class HostClock:
    """Times of what the host itself does."""

    device = "cpu"

    def __init__(self):
        self.tick = now

    def start_step(self, tick):
        pass

    def allocated(self):
        return None

    def settle(self):
        """Returns a function from a tick of the step with an index to ns of the host's clock."""
        return lambda tick, step: tick

    def peak_bytes(self):
        """The process's largest resident set, or None where that is not known."""
        try:
            with open("/proc/self/status", encoding="ascii", errors="replace") as status:
                return next(1024 * int(line.split()[1]) for line in status if "VmHWM" in line)
        except (OSError, StopIteration):
            return None


class CudaClock:
    """Times of what a GPU does: events on the current stream of the thread that ticks.

    Two anchors, instants seen by host and GPU alike, give the line that maps one clock to the
    other. Events count from the start of their step, since a difference has only 24 bits.
    """

    def __init__(self, where):
        self.where = where
        self.device = torch.cuda.get_device_name(where)
        self.steps = []
        self.first = self._anchor()

    def tick(self):
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.where))
        return event

    def _anchor(self):
        """An event, and the host's time when it passed: the shortest of eight waits."""
        tries = []
        for _ in range(8):
            torch.cuda.synchronize(self.where)
            before = now()
            event = self.tick()
            event.synchronize()
            after = now()
            tries.append((after - before, (before + after) // 2, event))
        _, instant, event = min(tries, key=lambda one: one[0])
        return event, instant

    def start_step(self, tick):
        self.steps.append(tick)

    def settle(self):
        last, last_ns = self._anchor()
        first, first_ns = self.first
        chain = [first, *self.steps, last]
        since = [0.0]  # ns of the GPU from the first anchor
        for before, after in zip(chain, chain[1:]):
            since.append(since[-1] + 1e6 * before.elapsed_time(after))
        rate = (last_ns - first_ns) / since[-1] if since[-1] > 0 else 1.0
        return lambda tick, step: first_ns + round(
            rate * (since[step + 1] + 1e6 * self.steps[step].elapsed_time(tick)))

    def allocated(self):
        return torch.cuda.memory_allocated(self.where)

    def peak_bytes(self):
        return torch.cuda.max_memory_allocated(self.where)


class Taken:
    """For how long a thread stood ready while others used its processor, in ns, from Linux."""

    def __init__(self):
        self._own = threading.local()
        self._files = []

    def __call__(self):
        file = getattr(self._own, "file", None)
        if file is None:
            path = f"/proc/self/task/{threading.get_native_id()}/schedstat"
            try:
                file = os.open(path, os.O_RDONLY)
                self._files.append(file)
            except OSError:
                file = -1
            self._own.file = file
        return int(os.pread(file, 80, 0).split()[1]) if file >= 0 else 0

    def close(self):
        while self._files:
            os.close(self._files.pop())
        self._own = threading.local()


def home():
    """A text that ranks have in common if they share a clock."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.stat('/proc/self/ns/time').st_ino}"
    except OSError:
        return socket.gethostname()


def reading(group, rank, askers):
    """By how much rank 0's clock is ahead of this rank's, which asks it if it is one of `askers`.

    All ranks of the gloo `group` call it. Returns this rank's time, the difference and its largest
    error, in ns.
    """
    answer = torch.zeros(1, dtype=torch.int64)
    ranks = dist.get_process_group_ranks(group)
    found = (0, 0)
    for asking in askers:
        if rank == 0:
            for _ in range(ROUNDS):
                dist.recv(answer, src=ranks[asking], group=group)
                answer[0] = now()
                dist.send(answer, dst=ranks[asking], group=group)
        elif rank == asking:
            tries = []
            for _ in range(ROUNDS):
                before = now()
                dist.send(answer, dst=ranks[0], group=group)
                dist.recv(answer, src=ranks[0], group=group)
                after = now()
                tries.append((after - before, int(answer[0]) - (before + after) // 2))
            trip, ahead = min(tries)
            found = (ahead, trip // 2 + 1)
    return (now(), *found)


class Line:
    """Rank 0's time from a rank's own: the line through two readings."""

    def __init__(self, first, last):
        self.origin, self.offset, before = first
        then, offset, after = last
        self.drift = (offset - self.offset) / (then - self.origin) if then > self.origin else 0.0
        self.uncertainty = max(before, after)

    def __call__(self, ns):
        return ns + self.offset + round(self.drift * (ns - self.origin))

    def metadata(self):
        """As `clocks` of a trace has it."""
        return {"offset_ns": self.offset, "drift_ppb": round(1e9 * self.drift),
                "uncertainty_ns": self.uncertainty, "shift_ns": 0}
