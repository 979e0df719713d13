class PipeInstruction:
    def __init__(self, **kwargs):
        self.kwargs = kwargs


NAMES = ("OptimizerStep", "ReduceGrads", "ReduceTiedGrads", "LoadMicroBatch", "ForwardPass",
         "BackwardPass", "SendActivation", "RecvActivation", "SendGrad", "RecvGrad")
globals().update({name: type(name, (PipeInstruction,), {}) for name in NAMES})
