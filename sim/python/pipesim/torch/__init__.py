"""pipesim beside PyTorch: runs of torch.distributed.pipelining as traces."""

from .record import record

__all__ = ["record"]
