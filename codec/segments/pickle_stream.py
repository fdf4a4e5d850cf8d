"""A pickle in the middle of a stream."""

from __future__ import annotations

from typing import Final

from ..limits import MAX_PICKLE_BYTES
from .pickle_ops import PickleFault, PickleReader
from .stream import Step, Stream

_OPS_PER_STEP: Final = 16


def read_pickle(stream: Stream, length: int | None = None) -> Step[object]:
    """Take a pickle to its end; return its symbolic value. length: bytes of the entry that holds it.

    Raises: PickleFault; the stream then stands at the opcode that was wrong, or at the end of the entry.
    """
    reader = PickleReader()
    end = stream.at + (2 * MAX_PICKLE_BYTES if length is None else length)
    while not reader.done:
        if stream.at == end:
            raise PickleFault(f"pickle: expected its end within {length} bytes")
        data = yield from stream.some(end - stream.at)
        try:
            reader.feed(memoryview(data))
        finally:
            if reader.done or reader.failed:
                stream.give_back(reader.rest)
                stream.charge(reader.ops // _OPS_PER_STEP)
    return reader.result
