"""As much of DeepSpeed as a recording touches, with the signatures of 0.19.8."""

__version__ = "0.19.8"
