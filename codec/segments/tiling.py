"""Keeps the promise of a segmenter: segments tile the body and cover what was fed."""

from __future__ import annotations

from typing import Final

from ..types import ElementType, Segment

# No file is longer, and the index has 8 bytes for an offset.
_MAX_BODY_BYTES: Final = 1 << 62


class Tiling:
    """The segments of one feed, in order. fed, covered: bytes from the start of the body.

    reach: end of the last run with a type or a name; unlike covered, it does not depend on what was fed.
    """

    def __init__(self) -> None:
        self.fed = 0
        self.covered = 0
        self.reach = 0
        self._found: list[Segment] = []

    def add(
        self,
        start: int,
        length: int,
        element: ElementType,
        name: str | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        """A run with a type or a name at start; what lies before it is untyped.

        Broken elements at the end are left out. Of a run that begins within another one, only what lies behind is taken,
        in step with its own elements. One that no file could hold stays untyped.
        """
        length -= length % element.width
        if 0 < start + length <= _MAX_BODY_BYTES:
            self.reach = max(self.reach, start + length)
        if start < self.covered:
            late = -(-(self.covered - start) // element.width) * element.width
            start, length, shape = start + late, length - late, None
        if length <= 0 or start + length > _MAX_BODY_BYTES:
            return
        self._cover(start)
        self._found.append(Segment(start, length, element, name, shape))
        self.covered = start + length

    def take(self) -> list[Segment]:
        """End a feed: cover what was fed, and give all segments since the last take."""
        self._cover(self.fed)
        found, self._found = self._found, []
        return found

    def _cover(self, end: int) -> None:
        if end > self.covered:
            self._found.append(Segment(self.covered, end - self.covered))
            self.covered = end
