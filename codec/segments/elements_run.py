"""Bytes without a structure that we know: what they hold is seen in a sample of them now and then."""

from __future__ import annotations

from typing import Final

from ..content import NONE, SAMPLE_BYTES, find_elements
from ..types import ElementType
from .stream import Step, Stream

# From one sample to the next: more and more while they say the same. A sample takes a millisecond at most, most a tenth.
_FIRST_BLOCK_BYTES: Final = 64 << 10
_LAST_BLOCK_BYTES: Final = 1 << 20


def read_elements(stream: Stream) -> Step[None]:
    """Take the rest of the body. A sample decides what follows it, up to the end of the next one."""
    found, block = NONE, _FIRST_BLOCK_BYTES
    while True:
        offset = stream.at
        sample = yield from stream.read(SAMPLE_BYTES)
        before, found = found, find_elements(sample, offset, found)
        block = min(2 * block, _LAST_BLOCK_BYTES) if found == before else _FIRST_BLOCK_BYTES
        if found.element is not ElementType.BYTES:
            # Whole elements, so that the next block goes on where this one ends.
            stream.add(found.first(stream.at), block, found.element)
        yield from stream.skip(block - SAMPLE_BYTES)
