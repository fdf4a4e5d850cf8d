"""The PyTorch API; docs/pytorch.md shows it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .async_saving import async_save_checkpoint
from .checkpoints import list_checkpoints, load_checkpoint, prune_checkpoints, save_checkpoint
from .loading import load
from .saving import save
from .torch_floor import check_distributed, check_torch

if TYPE_CHECKING:
    from .dcp import DCPReader, DCPWriter

__all__ = [
    "DCPReader",
    "DCPWriter",
    "async_save_checkpoint",
    "list_checkpoints",
    "load",
    "load_checkpoint",
    "prune_checkpoints",
    "save",
    "save_checkpoint",
]


check_torch()


def __getattr__(name: str) -> Any:
    # torch.distributed takes a second to import, and is not in every build of torch.
    if name in ("DCPReader", "DCPWriter"):
        check_distributed()
        return getattr(import_module(".dcp", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
