"""pipesim beside PyTorch: runs of torch.distributed.pipelining as traces, and models in stages."""

from .profile import Profile, profile
from .record import record

__all__ = ["Profile", "profile", "record"]
