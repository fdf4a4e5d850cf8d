"""Which range of a base lies where a frame lies in its own body."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ..types import BaseKind, BaseRange, ElementType, Frame, Reference, Segment
from .tensors import BaseTable, Tensor

# Type of the frame, type in the base.
_OTHER_TYPES: Final = {
    ElementType.BF16: (ElementType.F32, BaseKind.WIDER),
    ElementType.F32: (ElementType.BF16, BaseKind.NARROWER),
}
_Match = tuple[Tensor, BaseKind]


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
        # By start, of the segments that the last frame lay in.
        self._matches: dict[int, _Match | None] = {}
        for tensor in table.tensors:
            if tensor.name is not None:
                self._named.setdefault((tensor.name, tensor.element, tensor.length), tensor)
            self._in_order.setdefault((tensor.element, tensor.length), []).append(tensor)

    def find(self, frame: Frame) -> BaseRange | None:
        """The range that all of the frame's segments agree on."""
        self._matches = {
            segment.start: self._matches[segment.start] if segment.start in self._matches else self._match(segment)
            for segment in frame.segments
        }
        places = {place_of(frame, segment, self._matches[segment.start]) for segment in frame.segments}
        if len(places) != 1 or (place := places.pop()) is None:
            return None
        start, kind = place
        length = kind.base_bytes(len(frame.data))
        fits = 0 <= start <= self._table.size - length and (kind is BaseKind.SAME or frame.element in _OTHER_TYPES)
        return BaseRange(Reference(self._table.number, start), kind, length) if fits else None

    def _match(self, segment: Segment) -> _Match | None:
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

    def _at_same_offset(self, segment: Segment) -> _Match | None:
        tensor = self._table.at(segment.start) if self._is_as_long else None
        if tensor is None or tensor.element is not segment.element or tensor.start + tensor.length < segment.end:
            return None
        return Tensor(segment.start, segment.length, segment.element, None), BaseKind.SAME


def place_of(frame: Frame, segment: Segment, match: _Match | None) -> tuple[int, BaseKind] | None:
    """Where the frame would start in the base, as one of its segments says."""
    if match is None:
        return None
    tensor, kind = match
    return tensor.start + kind.base_bytes(frame.start - segment.start), kind
