"""Typed runs of a body, found while it streams past."""

from __future__ import annotations

from ..types import Kind
from .body import read_body
from .interface import Segmenter
from .opaque import OpaqueSegmenter
from .stream import StreamSegmenter

__all__ = ["Segmenter", "open_segmenter"]


def open_segmenter(kind: Kind) -> Segmenter:
    """Return the segmenter of a kind of body."""
    if kind in (Kind.UNKNOWN, Kind.CONTAINER):
        return OpaqueSegmenter()
    return StreamSegmenter(read_body)
