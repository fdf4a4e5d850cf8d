"""Typed runs of a body, found while it streams past."""

from __future__ import annotations

from ..types import Kind
from .body import read_body
from .elements_run import read_elements
from .interface import Segmenter
from .opaque import OpaqueSegmenter
from .stream import StreamSegmenter

__all__ = ["Segmenter", "open_segmenter"]


def open_segmenter(kind: Kind) -> Segmenter:
    """Return the segmenter of a kind of body."""
    match kind:
        case Kind.CONTAINER:
            return OpaqueSegmenter()
        case Kind.UNKNOWN | Kind.ELEMENTS:
            return StreamSegmenter(read_elements)
        case _:
            return StreamSegmenter(read_body)
