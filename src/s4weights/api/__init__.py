"""The PyTorch API; docs/pytorch.md shows it."""

from .async_saving import async_save_checkpoint
from .checkpoints import list_checkpoints, load_checkpoint, prune_checkpoints, save_checkpoint
from .loading import load
from .saving import save

__all__ = [
    "async_save_checkpoint",
    "list_checkpoints",
    "load",
    "load_checkpoint",
    "prune_checkpoints",
    "save",
    "save_checkpoint",
]
