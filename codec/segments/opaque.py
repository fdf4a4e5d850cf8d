"""A body that is a container already."""

from __future__ import annotations

from ..types import Segment


class OpaqueSegmenter:
    """All bytes are untyped."""

    def __init__(self) -> None:
        self._fed = 0

    def feed(self, data: memoryview) -> list[Segment]:
        """See Segmenter."""
        segment = Segment(self._fed, len(data))
        self._fed += len(data)
        return [segment] if segment.length else []
