"""A body through sniff and its segmenter, and no further."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from s4weights.codec.segments import open_segmenter
from s4weights.codec.sniff import sniff
from s4weights.codec.types import ElementType, Kind, Segment

Found = tuple[str, int, tuple[int, ...] | None]


def cut(body: bytes, sizes: Iterable[int] = (), *, kind: Kind | None = None) -> list[Segment]:
    """The segments of a body; runs without a type are merged. sizes: how it is fed, the last one repeated.

    Holds the segmenter to its promise: after each piece all that was fed is covered, without holes.
    """
    kind = kind or sniff(body, complete=True)
    assert kind is not None
    segmenter = open_segmenter(kind)
    view, fed, covered = memoryview(body), 0, 0
    found: list[Segment] = []
    waiting, size = iter(sizes), len(body)
    while fed < len(body):
        size = next(waiting, size)
        segments = segmenter.feed(view[fed : fed + size])
        fed = min(fed + size, len(body))
        for segment in segments:
            assert segment.start == covered
            assert segment.length > 0
            covered = segment.end
        found += segments
        assert covered >= fed
    return _merged(found)


def _merged(segments: list[Segment]) -> list[Segment]:
    merged: list[Segment] = []
    for segment in segments:
        last = merged[-1] if merged else None
        if last and not is_found(last) and not is_found(segment):
            merged[-1] = Segment(last.start, last.length + segment.length)
        else:
            merged.append(segment)
    assert all(before.end == after.start for before, after in pairwise(merged))
    return merged


def is_found(segment: Segment) -> bool:
    """Whether it has a type or a name."""
    return segment.element is not ElementType.BYTES or segment.name is not None


def named(segments: Iterable[Segment]) -> dict[str | None, Found]:
    """Name -> type, bytes, shape of what was found."""
    return {one.name: (one.element.name, one.length, one.shape) for one in segments if is_found(one)}


def typed_bytes(segments: Iterable[Segment]) -> int:
    return sum(one.length for one in segments if one.element is not ElementType.BYTES)
