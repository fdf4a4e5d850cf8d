"""Typed runs of a body, found while it streams past."""

from __future__ import annotations

from ..types import Kind
from .interface import Segmenter
from .opaque import OpaqueSegmenter
from .safetensors import SafetensorsSegmenter
from .torch_zip import TorchZipSegmenter

__all__ = ["Segmenter", "open_segmenter"]


def open_segmenter(kind: Kind) -> Segmenter:
    """Return the segmenter of a kind of body."""
    if kind is Kind.SAFETENSORS:
        return SafetensorsSegmenter()
    if kind is Kind.TORCH_ZIP:
        return TorchZipSegmenter()
    return OpaqueSegmenter()
