"""What torch.save and its like write to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import xxhash

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
    """A Sink before another one. digest: XXH3-128 of what was written, as a container has it of its body."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.written = 0
        self._hash = xxhash.xxh3_128()

    @property
    def digest(self) -> bytes:
        """16 bytes."""
        return self._hash.digest()

    def write(self, data: Buffer) -> int:
        """See Sink."""
        view = memoryview(data).cast("B")
        self._hash.update(view)
        self.written += len(view)
        return self._sink.write(data)

    def flush(self) -> None:
        """See Sink."""
        self._sink.flush()
