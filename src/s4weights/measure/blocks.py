"""The same bytes for everyone: frames joined to blocks, and a heap that keeps what it was given."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from typing import Final

from s4weights.codec.types import Frame

# Below the largest size that glibc can be told to keep in its heap (32 MiB).
BLOCK_BYTES: Final = 16 << 20
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def join_blocks(frames: Sequence[Frame], block_bytes: int = BLOCK_BYTES) -> list[bytes]:
    """Blocks of at most block_bytes; a frame is never cut."""
    blocks: list[bytes] = []
    waiting: list[bytes] = []
    size = 0
    for frame in frames:
        if waiting and size + len(frame.data) > block_bytes:
            blocks.append(b"".join(waiting))
            waiting, size = [], 0
        waiting.append(bytes(frame.data))
        size += len(frame.data)
    return [*blocks, b"".join(waiting)] if waiting else blocks


def reuse_buffers() -> None:
    """Let freed memory stay in the process, so that no library pays for fresh pages in every call (glibc only)."""
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        libc.mallopt(_M_TRIM_THRESHOLD, 1 << 30)
