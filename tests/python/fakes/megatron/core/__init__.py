"""As much of megatron.core as a recording touches, with the signatures of 0.16.1."""

__version__ = "0.16.1"
