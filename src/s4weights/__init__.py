"""s4weights: PyTorch checkpoints in S3, in far fewer bytes, and every byte back."""

from .version import __version__

__all__ = ["__version__"]
