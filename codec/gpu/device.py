"""What the pipeline needs of a device: memory on both sides, streams in which work is done in order, events between them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import torch

from .interface import FrameCodec


class Event(Protocol):
    """A point in a stream."""

    def is_done(self) -> bool:
        """Whether everything before it is done."""
        ...

    def wait(self) -> None:
        """Return when it is. Raises: what a device raises for work that failed."""
        ...


class Stream(Protocol):
    """Work in order, beside other streams and the host."""

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Begin to copy between host and device; both must stay as they are until an event behind it is done."""
        ...

    def record(self) -> Event:
        """An event behind all that was begun."""
        ...

    def after(self, event: Event) -> None:
        """What is begun from now on begins when event is done."""
        ...

    def current(self) -> AbstractContextManager[object]:
        """Within it, what torch and triton begin in this thread goes to this stream."""
        ...


class Device(Protocol):
    """One accelerator. Used by one thread at a time, but for `stream`s of one's own."""

    @property
    def name(self) -> str:
        """As torch names it: cuda:0."""
        ...

    @property
    def place(self) -> torch.device:
        """Where its tensors are."""
        ...

    @property
    def codec(self) -> FrameCodec:
        """See FrameCodec."""
        ...

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor lies on this device."""
        ...

    def is_at(self, place: torch.device) -> bool:
        """Whether torch would put a tensor here that is to go to `place`."""
        ...

    def pinned(self, size: int) -> torch.Tensor:
        """Page-locked bytes of the host's, which copies at full speed come from and go to. uint8, 1-D."""
        ...

    def empty(self, size: int) -> torch.Tensor:
        """Bytes on the device. uint8, 1-D."""
        ...

    def free_bytes(self) -> int:
        """What `empty` may still give."""
        ...

    def stream(self) -> Stream:
        """A new stream."""
        ...

    def arrived(self) -> Event:
        """An event behind all that this thread has begun on the device so far, in whatever stream is current."""
        ...
