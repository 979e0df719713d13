"""Records a run of torch.distributed.pipelining as a trace that pipesim reads.

    with pipesim.torch.record(schedule, "run.json"):
        for x, y in batches:
            schedule.step(x, target=y)
            optimizer.step()
            optimizer.zero_grad()

All ranks of the pipeline run this; rank 0 writes one file at the end. Then

    pipesim report run.json                        what limits the run
    pipesim calibrate run.json -o costs.json       costs, to predict other schedules with
    pipesim compare predicted.json run.json        where a prediction is off, and why
    pipesim whatif run.json --scale B@stage1=0.8   how long with something changed

It needs torch alone, whose exchange of objects between ranks needs numpy.

A recording of one chunk per rank gives costs for schedules of one chunk, one of
ScheduleLoopedBFS with two chunks those for schedules of two.

Times are the host's on processors, and on CUDA those of events on the current stream; the latter
has not been run on a GPU yet. The time of a loss belongs to the last stage's forward. On
processors the trace says for how long of an action another process had the rank's processor.

torch.profiler may run at the same time, inside or outside, and sees what runs within an action.
Open its file and the trace in two tabs of ui.perfetto.dev: each counts from its own first event,
and the first forward that was recorded is 0F0.
"""

import torch

from .hooks import Hooks, needed
from .recording import Recording

NAMES = {"ScheduleGPipe": "gpipe", "Schedule1F1B": "1f1b", "ScheduleLoopedBFS": "bfs",
         "ScheduleInterleaved1F1B": "interleaved-pytorch",
         "ScheduleInterleavedZeroBubble": "interleaved-zb", "ScheduleZBVZeroBubble": "zb-v",
         "ScheduleDualPipeV": "dualpipe-v"}


class record(Recording):
    """Records the steps of a schedule within `with`, on all ranks of its pipeline.

    schedule: of torch.distributed.pipelining, any class, also one that runs a CSV file.
    path: FILE.json or FILE.json.gz; rank 0 writes it at the end, whole or not at all.
    optimizer: one or a list, whose steps are recorded; None: all that step meanwhile.
    warmup: how many steps run before the first recorded one; steps: how many are, at most.

    Raises PipesimError at entry, on all ranks, if something can't be recorded: a torch that lacks
    what this needs, ranks with different schedules, a path that can't be written. From then on
    nothing disturbs the training: what goes wrong in here is one warning, and no file. An
    exception of the training passes, and leaves no file. Entry and exit are collective: ranks wait
    for each other. Of several pipelines, as with replicas, each records by itself: give each its
    own path.
    """

    Hooks = Hooks
    name, trainer = "pipesim.torch.record", f"torch {torch.__version__}"

    def __init__(self, schedule, path, optimizer=None, *, warmup=1, steps=20):
        super().__init__(path, optimizer, warmup=warmup, steps=steps)
        self.given = schedule

    def _look(self):
        self.stages = [stage for stage in getattr(self.given, "_stages", None) or
                       [getattr(self.given, "_stage", None)] if stage is not None]
        first = self.stages[0] if self.stages else None
        return (self.given, self.stages, getattr(first, "group", None),
                torch.device(getattr(first, "device", "cpu")))

    def _needed(self):
        return needed(self.schedule, self.stages)

    def _problem(self):
        if not self.stages:
            return (f"record: {type(self.schedule).__name__} is no schedule of "
                    "torch.distributed.pipelining")
        return super()._problem()

    def _alike(self):
        order = getattr(self.schedule, "pipeline_order", None) or {}
        return {"class": type(self.schedule).__name__,
                "microbatches": getattr(self.schedule, "_n_microbatches", None),
                "order of actions": [[str(action) for action in order[rank] if action is not None]
                                     for rank in sorted(order)]}

    def _schedule_name(self):
        return NAMES.get(type(self.schedule).__name__, "")
