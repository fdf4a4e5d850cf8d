"""What a body is made of, without reading it whole: the codec's own segmenter, fed with what it looks at.

A typed segment that reaches past the bytes that were fed holds nothing that the segmenter reads, so zeros stand for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from s4weights.codec.limits import SNIFF_BYTES
from s4weights.codec.segments import Segmenter, open_segmenter
from s4weights.codec.sniff import sniff
from s4weights.codec.types import ElementType, Kind, Segment

from .sources import Source

# Of one body, beside its safetensors header: a torch.save file of 10,000 tensors needs a read of 2 KiB at the end of each.
MAX_GAP_READS: Final = 10_000
MAX_OUTLINE_BYTES: Final = 32 << 20
_FIRST_BYTES: Final = 64 << 10
_GAP_BYTES: Final = 2 << 10
_MAX_STEP_BYTES: Final = 1 << 20
_LENGTH_BYTES: Final = 8
_ZEROS: Final = memoryview(bytes(16 << 20))


@dataclass(slots=True)
class Outline:
    """segments: they tile the body from 0 to known_bytes; what lies behind was not looked at."""

    kind: Kind
    segments: list[Segment] = field(default_factory=list)
    known_bytes: int = 0


def outline(source: Source) -> Outline:
    """Read as little as tells what lies where. Raises: OSError."""
    head = source.read(0, min(SNIFF_BYTES, source.size))
    kind = sniff(head, complete=len(head) == source.size) or Kind.UNKNOWN
    if kind in (Kind.UNKNOWN, Kind.CONTAINER):
        return Outline(kind)
    found = _Feeding(open_segmenter(kind), source.size)
    found.feed(memoryview(head))
    if kind is Kind.SAFETENSORS:
        header_bytes = min(_LENGTH_BYTES + int.from_bytes(head[:_LENGTH_BYTES], "little"), source.size)
        _read_up_to(found, source, header_bytes)
        found.skip_to(source.size)
    else:
        _read_gaps(found, source)
    return Outline(kind, _merged(found.segments), found.at)


class _Feeding:
    """A segmenter, and how far it was fed."""

    def __init__(self, segmenter: Segmenter, size: int) -> None:
        self.segments: list[Segment] = []
        self.at = 0
        self._segmenter = segmenter
        self._size = size

    def feed(self, data: memoryview) -> None:
        self.segments += self._segmenter.feed(data)
        self.at += len(data)

    def skip_to(self, end: int) -> None:
        while self.at < end:
            self.feed(_ZEROS[: end - self.at])

    @property
    def reach(self) -> int:
        """First byte that is not inside a typed segment that is known already."""
        return min(self.segments[-1].end, self._size) if self.segments else 0


def _read_up_to(found: _Feeding, source: Source, end: int) -> None:
    while found.at < end:
        found.feed(memoryview(source.read(found.at, min(_MAX_STEP_BYTES, end - found.at))))


def _read_gaps(found: _Feeding, source: Source) -> None:
    """From one tensor's end to the next one's start; longer and longer steps where none starts."""
    limit = source.read_bytes + MAX_OUTLINE_BYTES
    step = _FIRST_BYTES
    for _ in range(MAX_GAP_READS):
        if found.reach > found.at:
            found.skip_to(found.reach)
            step = _GAP_BYTES
        if found.at >= source.size or source.read_bytes >= limit:
            return
        found.feed(memoryview(source.read(found.at, min(step, source.size - found.at))))
        step = min(2 * step, _MAX_STEP_BYTES)


def _merged(segments: list[Segment]) -> list[Segment]:
    """Neighbours without a type become one."""
    return list(_merge(segments))


def _merge(segments: list[Segment]) -> Iterator[Segment]:
    start = end = 0
    for segment in segments:
        if segment.element is ElementType.BYTES:
            start = segment.start if end == start else start
            end = segment.end
            continue
        if end > start:
            yield Segment(start, end - start)
        start = end = segment.end
        yield segment
    if end > start:
        yield Segment(start, end - start)
