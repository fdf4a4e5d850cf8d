"""safetensors: a JSON header that says where every tensor lies. A proxy is no validator: odd files stay odd.

Source: https://github.com/huggingface/safetensors (format section of its README).
"""

from __future__ import annotations

import json
from typing import Any, Final

from ..limits import MAX_SAFETENSORS_HEADER_BYTES
from ..types import ElementType, Segment
from .tiling import Tiling

_ELEMENTS: Final = {element.name: element for element in ElementType if element is not ElementType.BYTES}
_LENGTH_BYTES: Final = 8
# Offsets past this are not those of a file; it also bounds what arithmetic on them may cost.
_MAX_OFFSET: Final = 1 << 62


class SafetensorsSegmenter:
    """Collects the header, then announces tensors as their bytes come near."""

    def __init__(self) -> None:
        self._tiling = Tiling()
        self._head = bytearray()
        self._header_end: int | None = None
        self._tensors: list[tuple[int, int, ElementType, str, tuple[int, ...] | None]] | None = None
        self._next = 0

    def feed(self, data: memoryview) -> list[Segment]:
        """See Segmenter."""
        self._tiling.fed += len(data)
        if self._tensors is None:
            self._collect(data)
        if self._tensors:
            self._announce(self._tensors)
        return self._tiling.take()

    def _collect(self, data: memoryview) -> None:
        wanted = (_LENGTH_BYTES if self._header_end is None else self._header_end) - len(self._head)
        self._head += data[:wanted]
        if self._header_end is None and len(self._head) == _LENGTH_BYTES:
            self._header_end = _LENGTH_BYTES + int.from_bytes(self._head, "little")
            if self._header_end > _LENGTH_BYTES + MAX_SAFETENSORS_HEADER_BYTES:
                self._give_up()
            else:
                self._collect(data[wanted:])
        elif len(self._head) == self._header_end:
            self._tensors = _read_header(bytes(self._head[_LENGTH_BYTES:]), self._header_end)
            self._head.clear()

    def _announce(self, tensors: list[tuple[int, int, ElementType, str, tuple[int, ...] | None]]) -> None:
        # Only as far as bytes have come: a header may name a million tensors.
        while self._next < len(tensors) and self._tiling.covered <= self._tiling.fed:
            start = tensors[self._next][0]
            if start > self._tiling.fed:
                break
            self._tiling.add(*tensors[self._next])
            self._next += 1

    def _give_up(self) -> None:
        self._tensors = []
        self._head.clear()


def _read_header(text: bytes, base: int) -> list[tuple[int, int, ElementType, str, tuple[int, ...] | None]]:
    """Tensors of a known type in order of their place; none where the header is not what it should be."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if not isinstance(header, dict):
        return []
    tensors = []
    for name, about in header.items():
        place = _place(about)
        if place is not None and name != "__metadata__":
            first, last, element = place
            tensors.append((base + first, last - first, element, name, _shape(about.get("shape"))))
    tensors.sort(key=lambda tensor: (tensor[0], tensor[1]))
    return tensors


def _place(about: Any) -> tuple[int, int, ElementType] | None:
    if not isinstance(about, dict):
        return None
    element, offsets = about.get("dtype"), about.get("data_offsets")
    if not isinstance(element, str) or element not in _ELEMENTS or not isinstance(offsets, list) or len(offsets) != 2:
        return None
    first, last = offsets
    if type(first) is not int or type(last) is not int or not 0 <= first < last <= _MAX_OFFSET:
        return None
    return first, last, _ELEMENTS[element]


def _shape(shape: Any) -> tuple[int, ...] | None:
    if (
        isinstance(shape, list)
        and len(shape) <= 64
        and all(type(size) is int and 0 <= size <= _MAX_OFFSET for size in shape)
    ):
        return tuple(shape)
    return None
