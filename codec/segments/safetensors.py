"""safetensors: a JSON header that says where every tensor lies. A proxy is no validator: odd files stay odd.

Source: https://github.com/huggingface/safetensors (format section of its README).
"""

from __future__ import annotations

import json
from typing import Any, Final

from ..limits import MAX_SAFETENSORS_HEADER_BYTES, MAX_SAFETENSORS_VALUES
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
            head, self._head = self._head, bytearray()
            self._tensors = _read_header(head, self._header_end)

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


def _read_header(head: bytearray, base: int) -> list[tuple[int, int, ElementType, str, tuple[int, ...] | None]]:
    """Tensors of a known type in order of their place; none where the header is not what it should be."""
    if sum(map(head.count, b"[{,")) > MAX_SAFETENSORS_VALUES:
        return []
    try:
        with memoryview(head) as view:
            text = str(view[_LENGTH_BYTES:], "utf-8")
        head.clear()
        header = json.loads(text, object_pairs_hook=_compact)
    except (ValueError, RecursionError):
        return []
    del text
    if not isinstance(header, dict):
        return []
    tensors = []
    for name, place in header.items():
        if isinstance(place, tuple) and name != "__metadata__":
            first, last, element, shape = place
            tensors.append((base + first, last - first, element, name, shape))
    tensors.sort(key=lambda tensor: (tensor[0], tensor[1]))
    return tensors


def _compact(pairs: list[tuple[str, Any]]) -> object:
    """A JSON object; a tensor becomes its place at once, so that a million of them need less memory."""
    about = dict(pairs)
    offsets = about.get("data_offsets")
    return _place(about, offsets) if isinstance(offsets, list) else about


def _place(about: dict[str, Any], offsets: list[Any]) -> tuple[int, int, ElementType, tuple[int, ...] | None] | None:
    element = about.get("dtype")
    if not isinstance(element, str) or element not in _ELEMENTS or len(offsets) != 2:
        return None
    first, last = offsets
    if type(first) is not int or type(last) is not int or not 0 <= first < last <= _MAX_OFFSET:
        return None
    return first, last, _ELEMENTS[element], _shape(about.get("shape"))


def _shape(shape: Any) -> tuple[int, ...] | None:
    if (
        isinstance(shape, list)
        and len(shape) <= 64
        and all(type(size) is int and 0 <= size <= _MAX_OFFSET for size in shape)
    ):
        return tuple(shape)
    return None
