"""Locked files and fork: a lock lives as long as any process has a copy of its descriptor, so children close theirs."""

from __future__ import annotations

import contextlib
import os
from typing import Final

_held: Final[set[int]] = set()


def close_in_children(fd: int) -> None:
    """Until `close_here`."""
    _held.add(fd)


def close_here(fd: int) -> None:
    """Close what `close_in_children` was told of."""
    _held.discard(fd)
    os.close(fd)


def _after_fork() -> None:
    while _held:
        with contextlib.suppress(OSError):
            os.close(_held.pop())


os.register_at_fork(after_in_child=_after_fork)
