"""Which range of a base lies where a frame lies in its own body."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, TypeAlias

from ..types import BaseKind, BaseRange, ElementType, Frame, Reference, Segment
from .tensors import BaseTable, Tensor

# Type of the frame, type in the base.
_OTHER_TYPES: Final = {
    ElementType.BF16: (ElementType.F32, BaseKind.WIDER),
    ElementType.F32: (ElementType.BF16, BaseKind.NARROWER),
}
Match: TypeAlias = tuple[Tensor, BaseKind]


class Matches:
    """What the segments of the last frame were matched with, since the next one may lie in one of them too."""

    def __init__(self) -> None:
        self._by_start: dict[int, Match | None] = {}

    def place(self, frame: Frame, match: Callable[[Segment], Match | None]) -> tuple[int, BaseKind] | None:
        """Where the frame would start in the base, where all of its segments agree. match: for a segment not seen before."""
        known = self._by_start
        self._by_start = {one.start: known[one.start] if one.start in known else match(one) for one in frame.segments}
        places = {_place_of(frame, one, self._by_start[one.start]) for one in frame.segments}
        return places.pop() if len(places) == 1 else None


class Alignment:
    """Of one body, frame by frame in order, with one base.

    A tensor is found by name, type and length; by name, where one is the other rounded; else it is the k-th of its type and
    length here and there. What has no such tensor lies at the same offset, where both bodies are as long (size: None where
    nobody knows).
    """

    def __init__(self, table: BaseTable, size: int | None) -> None:
        self._table = table
        self._is_as_long = size is None or size == table.size
        self._named: dict[tuple[str, ElementType, int], Tensor] = {}
        self._in_order: dict[tuple[ElementType, int], list[Tensor]] = {}
        self._seen: Counter[tuple[ElementType, int]] = Counter()
        self._matches = Matches()
        for tensor in table.tensors:
            if tensor.name is not None:
                self._named.setdefault((tensor.name, tensor.element, tensor.length), tensor)
            self._in_order.setdefault((tensor.element, tensor.length), []).append(tensor)

    def find(self, frame: Frame) -> BaseRange | None:
        """The range that all of the frame's segments agree on."""
        place = self._matches.place(frame, self._match)
        if place is None:
            return None
        start, kind = place
        length = kind.base_bytes(len(frame.data))
        fits = 0 <= start <= self._table.size - length and (kind is BaseKind.SAME or frame.element in _OTHER_TYPES)
        return BaseRange(Reference(self._table.number, start), kind, length) if fits else None

    def _match(self, segment: Segment) -> Match | None:
        shape = (segment.element, segment.length)
        number = self._seen[shape]
        self._seen[shape] += 1
        if segment.name is not None:
            if (tensor := self._named.get((segment.name, *shape))) is not None:
                return tensor, BaseKind.SAME
            if segment.element in _OTHER_TYPES:
                element, kind = _OTHER_TYPES[segment.element]
                tensor = self._named.get((segment.name, element, kind.base_bytes(segment.length)))
                if tensor is not None:
                    return tensor, kind
        in_order = self._in_order.get(shape, [])
        if number < len(in_order):
            return in_order[number], BaseKind.SAME
        return self._at_same_offset(segment)

    def _at_same_offset(self, segment: Segment) -> Match | None:
        tensor = self._table.at(segment.start) if self._is_as_long else None
        if tensor is None or tensor.element is not segment.element or tensor.start + tensor.length < segment.end:
            return None
        return Tensor(segment.start, segment.length, segment.element, None), BaseKind.SAME


def _place_of(frame: Frame, segment: Segment, match: Match | None) -> tuple[int, BaseKind] | None:
    """Where the frame would start in the base, as one of its segments says."""
    if match is None:
        return None
    tensor, kind = match
    return tensor.start + kind.base_bytes(frame.start - segment.start), kind
