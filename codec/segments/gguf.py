"""GGUF: metadata, a table of tensors, then their data. Quantised blocks are bytes with a name.

Source: docs/gguf.md of the ggml project, versions 2 and 3; block sizes as in its `gguf` package.
"""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

from ..limits import MAX_GGUF_HEADER_BYTES, MAX_GGUF_PAIRS, MAX_GGUF_TENSORS
from ..types import ElementType
from .elements import big_endian
from .stream import GiveUp, Step, Stream

MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_DEFAULT_ALIGNMENT: Final = 32
_MAX_ALIGNMENT: Final = 1 << 20
_MAX_DIMENSIONS: Final = 8
_MAX_NAME_BYTES: Final = 64 << 10
_MAX_DEPTH: Final = 4

_U32: Final = 4
_STRING: Final = 8
_ARRAY: Final = 9
# Type of a metadata value -> bytes.
_VALUE_BYTES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

_ELEMENTS: Final = {
    0: ElementType.F32,
    1: ElementType.F16,
    24: ElementType.I8,
    25: ElementType.I16,
    26: ElementType.I32,
    27: ElementType.I64,
    28: ElementType.F64,
    30: ElementType.BF16,
}
# Quantised type -> elements and bytes of a block.
BLOCKS: Final = {
    2: (32, 18),
    3: (32, 20),
    6: (32, 22),
    7: (32, 24),
    8: (32, 34),
    9: (32, 40),
    10: (256, 84),
    11: (256, 110),
    12: (256, 144),
    13: (256, 176),
    14: (256, 210),
    15: (256, 292),
    16: (256, 66),
    17: (256, 74),
    18: (256, 98),
    19: (256, 50),
    20: (32, 18),
    21: (256, 110),
    22: (256, 82),
    23: (256, 136),
    29: (256, 56),
    34: (256, 54),
    35: (256, 66),
    39: (32, 17),
    40: (64, 36),
    41: (128, 18),
}


class _Tensor(NamedTuple):
    """offset: from the beginning of the data section."""

    offset: int
    length: int
    element: ElementType
    name: str
    shape: tuple[int, ...] | None


def read_gguf(stream: Stream) -> Step[bool]:
    """Take a file; what follows its last tensor is bytes."""
    head = yield from stream.read(8)
    order: Literal["little", "big"] = "big" if head[4:6] == b"\0\0" else "little"
    if not head.startswith(MAGIC) or int.from_bytes(head[4:], order) not in _VERSIONS:
        return False
    reader = _Reader(stream, order)
    tensors = yield from reader.read_header()
    base = -(-stream.at // reader.alignment) * reader.alignment
    for offset, length, element, name, shape in sorted(tensors, key=lambda tensor: tensor.offset):
        yield from stream.skip_to(base + offset)
        stream.add(base + offset, length, element, name, shape)
    return False


class _Reader:
    def __init__(self, stream: Stream, order: Literal["little", "big"]) -> None:
        self.alignment = _DEFAULT_ALIGNMENT
        self._stream = stream
        self._order = order
        self._end = stream.at + MAX_GGUF_HEADER_BYTES

    def read_header(self) -> Step[list[_Tensor]]:
        count = yield from self._number(8, MAX_GGUF_TENSORS)
        pairs = yield from self._number(8, MAX_GGUF_PAIRS)
        for _ in range(pairs):
            yield from self._read_pair()
        tensors = []
        for _ in range(count):
            tensor = yield from self._read_tensor()
            if tensor is not None:
                tensors.append(tensor)
        return tensors

    def _number(self, size: int, at_most: int) -> Step[int]:
        data = yield from self._stream.read(size)
        number = int.from_bytes(data, self._order)
        if number > at_most or self._stream.at > self._end:
            raise GiveUp
        return number

    def _text(self) -> Step[bytes]:
        size = yield from self._number(8, _MAX_NAME_BYTES)
        return (yield from self._stream.read(size))

    def _read_pair(self) -> Step[None]:
        key = yield from self._text()
        kind = yield from self._number(4, len(_VALUE_BYTES) + 2)
        if key == b"general.alignment" and kind == _U32:
            self.alignment = yield from self._number(4, _MAX_ALIGNMENT)
            if self.alignment == 0:
                raise GiveUp
        else:
            yield from self._skip_value(kind, 1, 0)

    def _skip_value(self, kind: int, count: int, depth: int) -> Step[None]:
        """count values of a kind, one behind another."""
        if kind == _STRING:
            yield from self._skip_texts(count)
        elif kind == _ARRAY:
            if depth == _MAX_DEPTH:
                raise GiveUp
            for _ in range(count):
                inner = yield from self._number(4, len(_VALUE_BYTES) + 2)
                size = yield from self._number(8, MAX_GGUF_HEADER_BYTES)
                yield from self._skip_value(inner, size, depth + 1)
        elif kind in _VALUE_BYTES:
            yield from self._skip(_VALUE_BYTES[kind] * count)
        else:
            raise GiveUp

    def _skip_texts(self, count: int) -> Step[None]:
        """Texts, most of them within what has come: a vocabulary has some 100,000."""
        while count:
            data, at = self._stream.data, 0
            while count and at + 8 <= len(data):
                end = at + 8 + int.from_bytes(data[at : at + 8], self._order)
                if end > len(data):
                    break
                at, count = end, count - 1
            yield from self._skip(at)
            if count:
                size = yield from self._number(8, MAX_GGUF_HEADER_BYTES)
                yield from self._skip(size)
                count -= 1

    def _skip(self, size: int) -> Step[None]:
        if self._stream.at + size > self._end:
            raise GiveUp
        yield from self._stream.skip(size)

    def _read_tensor(self) -> Step[_Tensor | None]:
        """A row of the table; None for a type without a known size."""
        name = yield from self._text()
        dimensions = yield from self._number(4, _MAX_DIMENSIONS)
        shape: list[int] = []
        for _ in range(dimensions):
            size = yield from self._number(8, 1 << 48)
            shape.insert(0, size)  # the file has the fastest one first
        kind = yield from self._number(4, 0xFFFFFFFF)
        offset = yield from self._number(8, 1 << 62)
        count = math.prod(shape)
        text = name.decode("utf-8", "replace")[:200]
        if kind in _ELEMENTS:
            element = _ELEMENTS[kind]
            length = count * element.width
            if self._order == "big":
                element = big_endian(element)
            return _Tensor(offset, length, element, text, tuple(shape))
        if kind in BLOCKS:
            elements, block_bytes = BLOCKS[kind]
            return _Tensor(offset, count // elements * block_bytes, ElementType.BYTES, text, None)
        return None
