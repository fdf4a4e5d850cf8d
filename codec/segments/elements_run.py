"""Bytes without a structure that we know: what they hold is seen in a sample of them now and then."""

from __future__ import annotations

from typing import Final

from ..content import NONE, SAMPLE_BYTES, find_elements
from ..types import ElementType
from .stream import Step, Stream

# From one sample to the next: twice as much each time that they say the same. A sample takes a millisecond at most, mostly
# a tenth of that.
_FIRST_BLOCK_BYTES: Final = 16 << 10
_LAST_BLOCK_BYTES: Final = 1 << 20


def read_elements(stream: Stream) -> Step[None]:
    """Take the rest of the body. Two samples that say the same decide what follows them, up to the end of the next one."""
    found, block = NONE, _FIRST_BLOCK_BYTES
    while True:
        offset = stream.at
        sample = yield from stream.read(SAMPLE_BYTES)
        before, found = found, find_elements(sample, offset, found)
        if found != before:
            block = _FIRST_BLOCK_BYTES
        elif found.element is not ElementType.BYTES:
            # Whole elements, so that the next block goes on where this one ends.
            stream.add(found.first(stream.at), block, found.element)
        yield from stream.skip(block - SAMPLE_BYTES)
        block = min(2 * block, _LAST_BLOCK_BYTES)
