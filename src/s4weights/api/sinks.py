"""What torch.save and its like write to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


class FaultSink:
    """A Sink before another one; fault: the first thing that the other one raised, after which it is given nothing more."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.fault: BaseException | None = None

    def write(self, data: Buffer) -> int:
        """See Sink."""
        if self.fault is not None:
            raise self.fault
        try:
            return self._sink.write(data)
        except BaseException as error:
            self.fault = error
            raise

    def flush(self) -> None:
        """See Sink."""
        self._sink.flush()


@contextmanager
def own_faults(sink: Sink) -> Iterator[FaultSink]:
    """For torch.save, whose C++ ends an archive that a write broke off with an error of its own: a sink's own comes out."""
    kept = FaultSink(sink)
    try:
        yield kept
    except BaseException as error:
        if kept.fault is None or kept.fault is error:
            raise
        raise kept.fault from None
