"""The PyTorch API; docs/pytorch.md shows it."""

from .loading import load
from .saving import save

__all__ = ["load", "save"]
