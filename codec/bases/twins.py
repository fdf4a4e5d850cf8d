"""Tensors of one body that are equal, or of which one is the other rounded from fp32 to bf16, found as they stream by."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..limits import MAX_TWINS
from ..prediction import narrow
from ..types import BaseKind, BaseRange, ElementType, Frame, Reference, Segment
from .align import Match, Matches
from .tensors import Tensor

# Elements that are looked at, spread over so many of the first ones, which always lie in one frame: a tensor starts in the
# first 64 KiB of a frame or with it (frames.py).
_LOOKED_AT: Final = 32
_SPREAD_OVER: Final = 192 << 10

# bf16 and fp32 have the same: what is left after rounding.
_Key = tuple[ElementType, int, bytes]


class Twins:
    """Only a tensor that has no twin before it is one for others, so that none of its frames needs this body."""

    def __init__(self, limit: int = MAX_TWINS) -> None:
        self._limit = limit
        self._roots: dict[_Key, Tensor] = {}
        self._matches = Matches()

    def find(self, frame: Frame) -> BaseRange | None:
        """An earlier range of the body, whole tensors of which look like the frame's."""
        if frame.element is ElementType.BYTES:
            self._matches = Matches()
            return None
        place = self._matches.place(frame, lambda segment: self._look(frame, segment))
        if place is None:
            return None
        start, kind = place
        length = kind.base_bytes(len(frame.data))
        # A twin may lie in the same frame.
        return BaseRange(Reference(0, start), kind, length) if 0 <= start <= frame.start - length else None

    def _look(self, frame: Frame, segment: Segment) -> Match | None:
        key = _fingerprint(frame, segment)
        if key is None:
            return None
        root = self._roots.get(key)
        if root is not None:
            return root, _kind(segment.element, root.element)
        if len(self._roots) < self._limit:
            self._roots[key] = Tensor(segment.start, segment.length, segment.element, segment.name)
        return None


def _kind(element: ElementType, base: ElementType) -> BaseKind:
    if element is base:
        return BaseKind.SAME
    return BaseKind.WIDER if element is ElementType.BF16 else BaseKind.NARROWER


def _fingerprint(frame: Frame, segment: Segment) -> _Key | None:
    """None for a tensor that started earlier, that is too short, or that looks constant."""
    width, first = segment.element.width, segment.start - frame.start
    count = segment.length // width
    seen = min(count, _SPREAD_OVER)
    if first < 0 or count < _LOOKED_AT or first + seen * width > len(frame.data):
        return None
    words = np.frombuffer(frame.data, dtype=f"<u{width}", count=seen, offset=first)
    words = words[np.arange(_LOOKED_AT) * (seen - 1) // (_LOOKED_AT - 1)]
    if (words == words[0]).all():
        return None
    if segment.element is ElementType.F32:
        return ElementType.BF16, count, narrow(words.tobytes())
    return segment.element, count, words.tobytes()
