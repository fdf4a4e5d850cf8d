"""A CUDA device, through torch."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Final

import torch

from .interface import FrameCodec

# Without types in torch.
_Event: Final[Any] = torch.cuda.Event
_Stream: Final[Any] = torch.cuda.Stream


class CudaEvent:
    """See Event."""

    def __init__(self, event: Any) -> None:
        self.event = event

    def is_done(self) -> bool:
        """See Event."""
        return bool(self.event.query())

    def wait(self) -> None:
        """See Event. The host's thread sleeps meanwhile."""
        self.event.synchronize()


class CudaStream:
    """See Stream."""

    def __init__(self, device: torch.device) -> None:
        self._stream = _Stream(device)

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """See Stream."""
        with torch.cuda.stream(self._stream):
            target.copy_(source, non_blocking=True)

    def record(self) -> CudaEvent:
        """See Stream."""
        event = _Event(blocking=True)
        event.record(self._stream)
        return CudaEvent(event)

    def after(self, event: Any) -> None:
        """See Stream."""
        self._stream.wait_event(event.event)

    def current(self) -> AbstractContextManager[object]:
        """See Stream."""
        return torch.cuda.stream(self._stream)


class CudaDevice:
    """See Device. Memory is torch's own: what is free in its cache is used first."""

    def __init__(self, device: torch.device, codec: FrameCodec) -> None:
        self.place = device
        self.codec = codec
        self.name = str(device)

    def holds(self, tensor: torch.Tensor) -> bool:
        """See Device."""
        return tensor.device == self.place

    def is_at(self, place: torch.device) -> bool:
        """See Device. Without a number: the current one, of the thread that asks."""
        number = torch.cuda.current_device() if place.index is None else place.index
        return place.type == self.place.type and number == self.place.index

    def pinned(self, size: int) -> torch.Tensor:
        """See Device."""
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def empty(self, size: int) -> torch.Tensor:
        """See Device."""
        return torch.empty(size, dtype=torch.uint8, device=self.place)

    def free_bytes(self) -> int:
        """See Device. The driver's, and what torch's allocator keeps unused."""
        free, _ = torch.cuda.mem_get_info(self.place)
        kept = torch.cuda.memory_reserved(self.place) - torch.cuda.memory_allocated(self.place)
        return int(free) + int(kept)

    def stream(self) -> CudaStream:
        """See Device."""
        return CudaStream(self.place)

    def arrived(self) -> CudaEvent:
        """See Device."""
        event = _Event(blocking=True)
        event.record(torch.cuda.current_stream(self.place))
        return CudaEvent(event)
