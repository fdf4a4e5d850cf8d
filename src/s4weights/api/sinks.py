"""What torch.save and its like write to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from s4weights.codec.types import Buffer


class Sink(Protocol):
    """A file object that takes all of what it is given; ContainerStream and BodyPipe are two more."""

    def write(self, data: Buffer, /) -> int:
        """Returns the bytes of data."""
        ...

    def flush(self) -> None:
        """Called between writes; nothing has to be visible yet."""
        ...


class PlainSink:
    """A Sink over a function."""

    def __init__(self, send: Callable[[Buffer], object]) -> None:
        self._send = send

    def write(self, data: Buffer) -> int:
        """See Sink."""
        self._send(data)
        return memoryview(data).nbytes

    def flush(self) -> None:
        """See Sink."""


class CountedSink:
    """A Sink before another one."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.written = 0

    def write(self, data: Buffer) -> int:
        """See Sink."""
        self.written += memoryview(data).nbytes
        return self._sink.write(data)

    def flush(self) -> None:
        """See Sink."""
        self._sink.flush()
