"""What a segmenter promises."""

from __future__ import annotations

from typing import Protocol

from ..types import Segment


class Segmenter(Protocol):
    """Cuts one body into segments. Never raises on bad input: what it cannot parse is untyped.

    A segment's shape is that of the memory, slowest dimension first: a tensor that was saved transposed, or an array in
    Fortran order, has its dimensions in the order of their strides. A complex number adds a dimension of 2.
    """

    def feed(self, data: memoryview) -> list[Segment]:
        """Take the next bytes; return the segments that became known.

        All segments together tile the body from 0, in order. After each call they cover every byte fed so far; a typed
        one may reach further.
        """
        ...
