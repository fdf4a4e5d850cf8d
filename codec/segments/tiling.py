"""Keeps the promise of a segmenter: segments tile the body and cover what was fed."""

from __future__ import annotations

from ..types import ElementType, Segment


class Tiling:
    """The segments of one feed, in order. fed, covered: bytes from the start of the body."""

    def __init__(self) -> None:
        self.fed = 0
        self.covered = 0
        self._found: list[Segment] = []

    def add(
        self,
        start: int,
        length: int,
        element: ElementType,
        name: str | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        """A typed run at start; what lies before it is untyped. Runs that are misplaced or broken off stay untyped."""
        length -= length % element.width
        if start < self.covered or length <= 0:
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
