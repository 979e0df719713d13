"""What recordings of trainers share: hooks around a trainer's own functions, which count."""

import torch

from ..errors import PipesimError
from . import hooks
from .recording import Recording, bytes_of


def tensors_in(value):
    values = value if isinstance(value, (list, tuple)) else [value]
    return [one for one in values if isinstance(one, torch.Tensor)]


class Stage:
    """A stage, with the names that the recorder knows."""

    def __init__(self, index, module=None):
        self.stage_index, self.submod = index, module or torch.nn.Module()


class Pipeline:
    """A rank's part of a pipeline. `schedule` is pipesim's name, or "" if it has none."""

    def __init__(self, group, device, stages, microbatches=None, schedule=""):
        self.group, self.device, self.schedule = group, torch.device(device), schedule
        self._stages, self._n_microbatches = stages, microbatches
        self._has_backward = True


class Hooks(hooks.Hooks):
    """Notes what a rank of a trainer does; `pipeline` is this rank's part.

    Microbatches are counted: the n-th of a kind in a step and stage is that of microbatch n - 1.
    """

    def __init__(self, *pipeline):
        super().__init__(*pipeline)
        self.counts = {}  # of this step, by (kind, stage)

    def quietly(self, do, *args, **named):
        """What `do` returns. If it fails, that ends the recording, and not the training."""
        try:
            return do(*args, **named)
        except Exception as error:
            self.fail(error)

    def start_step(self, trains=True):
        self.schedule._has_backward = trains
        self.counts = {}
        self._start_step()

    def end_step(self):
        """Every stage has had all its microbatches."""
        for stage in self.stages if self.on else []:
            for kind in "FB":
                seen = self.counts.get((kind, stage.stage_index), 0)
                if seen != self.schedule._n_microbatches:
                    raise PipesimError(f"stage {stage.stage_index} had {seen} {kind} that could be "
                                       f"seen, of {self.schedule._n_microbatches} microbatches")

    def next_of(self, kind, stage):
        """The microbatch whose turn it is."""
        count = self.counts.get((kind, stage), 0)
        self.counts[kind, stage] = count + 1
        return count

    def _running(self, begin):
        """Around a step: `begin` is given its arguments, and starts it."""
        def wrap(old):
            def running(*args, **named):
                self.quietly(begin, *args, **named)
                result = old(*args, **named)
                self.quietly(self.end_step)
                return result
            return running
        return wrap

    def _computing(self, kind, place_of, after=None):
        """Around an action: its arguments give `place_of` it, and `after` is given its result."""
        def wrap(old):
            def computing(*args, **named):
                place = self.on and self.quietly(place_of, *args, **named)
                start = self.begin()
                result = old(*args, **named)
                if place:
                    self.end(start, lambda: (kind, *place))
                    if after is not None:
                        self.quietly(after, result, kind, place)
                return result
            return computing
        return wrap

    def put_optimizers(self, own):
        """Around the steps of the trainer's `own` optimizers, or, if None, of all of PyTorch's."""
        for one in own or []:
            self._put(one, "step", self._stepping_optimizer)
        for name, hook in zip(hooks.GLOBAL_HOOKS, (self._before_optimizer, self._after_optimizer)):
            if own is None:
                self._undo.append(getattr(hooks.optimizers, name)(hook).remove)

    def _stepping_optimizer(self, old):
        def stepping(*args, **named):
            start = self.begin()
            result = old(*args, **named)
            self.end(start, lambda: ("OPTIMIZER", self.stages[0].stage_index, None))
            return result
        return stepping


class TensorHooks(Hooks):
    """Knows the message of a tensor: an action made what is sent, and takes what was received.

    Tensors are known by their ids, which holds as long as the trainer has them: from a forward to
    its backward, from what makes one to its SEND, from a RECV to what takes it.
    """

    def start_step(self, trains=True):
        self.outputs, self.made, self.received = {}, {}, {}
        super().start_step(trains)

    def makes(self, result, kind, place):
        """What an F or a B returned: its first part, a tensor or a list, is to be sent."""
        tensors = tensors_in(result[0] if isinstance(result, tuple) else result)
        self.made.update((id(one), (f"SEND_{kind}", *place)) for one in tensors)
        if kind == "F":
            self.outputs[id(tensors[0])] = place

    def made_by(self, output):
        """The stage and microbatch of the forward that made `output`, for its backward."""
        place = self.outputs.pop(id(next(iter(tensors_in(output)), None)), None)
        if place is None:
            raise PipesimError("a backward was given what no forward made")
        return place

    def takes(self, value, place):
        """What of `value` was received is a message for the action at `place`."""
        for tensor in tensors_in(value):
            message = self.received.pop(id(tensor), None)
            if message is not None:
                message[1:3] = place
                self.messages.append(message)

    def sends(self, tensor, times):
        """The message, if it is one. `times`: posted, start and end of the wait, or None."""
        of = self.made.pop(id(tensor), None)
        if of is not None:
            posted, _, end = times
            self.messages.append([*of, self.step, posted, None, end, bytes_of(tensor)])
            return self.messages[-1]

    def receives(self, kind, tensor, times):
        if tensor is not None:
            message = [kind, None, None, self.step, *times, bytes_of(tensor)]
            self.received[id(tensor)] = message
            return message

    def stand_in(self, work, *messages):
        """For a request of the trainer: notes when it was waited for, which ends `messages`."""
        found = [one for one in messages if one is not None]
        return hooks.Waited(work, self, found) if found else work


class TrainerRecording(Recording):
    """Records a trainer's pipeline."""

    Hooks = Hooks

    def _pipeline(self):
        """This rank's Pipeline. Raises AttributeError if the trainer has no such thing."""
        raise NotImplementedError

    def _look(self):
        found = self._pipeline()
        return found, found._stages, found.group, found.device

    def _schedule_name(self):
        return self.schedule.schedule
