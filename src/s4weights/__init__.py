"""s4weights: PyTorch checkpoints in S3, in far fewer bytes, and every byte back."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .api import (
        DCPReader,
        DCPWriter,
        async_save_checkpoint,
        list_checkpoints,
        load,
        load_checkpoint,
        prune_checkpoints,
        save,
        save_checkpoint,
    )

__all__ = [
    "DCPReader",
    "DCPWriter",
    "__version__",
    "async_save_checkpoint",
    "list_checkpoints",
    "load",
    "load_checkpoint",
    "prune_checkpoints",
    "save",
    "save_checkpoint",
]


def __getattr__(name: str) -> Any:
    # torch is imported where it is first needed.
    if name in __all__:
        return getattr(import_module("s4weights.api"), name)
    raise AttributeError(f"module 's4weights' has no attribute {name!r}")
