"""numpy's .npy: a line of text that says type, order and shape, then the elements. Nothing is evaluated.

Source: numpy/lib/_format_impl.py, format versions 1.0 to 3.0.
"""

from __future__ import annotations

import math
import re
from typing import Final

from ..limits import MAX_NPY_HEADER_BYTES
from ..types import ElementType
from .elements import big_endian
from .stream import Step, Stream

MAGIC: Final = b"\x93NUMPY"
_MAX_DIMENSIONS: Final = 64

_DESCR: Final = re.compile(rb"""['"]descr['"]\s*:\s*['"]([<>|=]?)([a-zA-Z])(\d{1,9})(?:\[[^\]'"]{0,20}\])?['"]""")
_ORDER: Final = re.compile(rb"""['"]fortran_order['"]\s*:\s*(True|False)\b""")
_SHAPE: Final = re.compile(rb"""['"]shape['"]\s*:\s*\(([\d\sL,]{0,2000})\)""")
_SIZE: Final = re.compile(rb"\d{1,19}")

# Kind and item size -> type, and how many of it make an item.
_ELEMENTS: Final = {
    (b"f", 2): (ElementType.F16, 1),
    (b"f", 4): (ElementType.F32, 1),
    (b"f", 8): (ElementType.F64, 1),
    (b"c", 8): (ElementType.F32, 2),
    (b"c", 16): (ElementType.F64, 2),
    (b"b", 1): (ElementType.BOOL, 1),
    (b"i", 1): (ElementType.I8, 1),
    (b"i", 2): (ElementType.I16, 1),
    (b"i", 4): (ElementType.I32, 1),
    (b"i", 8): (ElementType.I64, 1),
    (b"u", 1): (ElementType.U8, 1),
    (b"u", 2): (ElementType.U16, 1),
    (b"u", 4): (ElementType.U32, 1),
    (b"u", 8): (ElementType.U64, 1),
    (b"M", 8): (ElementType.I64, 1),
    (b"m", 8): (ElementType.I64, 1),
}
# Of text the number counts characters, of all other kinds bytes.
_CHARACTER_BYTES: Final = 4


def read_npy(stream: Stream) -> Step[bool]:
    """Take one array of a file; True where its end is known."""
    return (yield from read_array(stream, None, None))


def read_array(stream: Stream, name: str | None, limit: int | None) -> Step[bool]:
    """Take an array that has at most limit bytes, header included; True where its end is known."""
    start = stream.at
    # Magic, version and the length of the header: of 2 bytes in version 1, of 4 later.
    head = yield from stream.read(8 if limit is None else min(8, limit))
    if not head.startswith(MAGIC) or len(head) < 8 or not 1 <= head[6] <= 3:
        return False
    size = yield from stream.read(2 if head[6] == 1 else 4)
    header_bytes = int.from_bytes(size, "little")
    if header_bytes > MAX_NPY_HEADER_BYTES:
        return False
    text = yield from stream.read(header_bytes)
    descr, order, shape_text = _DESCR.search(text), _ORDER.search(text), _SHAPE.search(text)
    if descr is None or order is None or shape_text is None or descr[2] == b"O":
        return False
    shape = tuple(int(number) for number in _SIZE.findall(shape_text[1]))
    if len(shape) > _MAX_DIMENSIONS:
        return False
    item_bytes = int(descr[3]) * (_CHARACTER_BYTES if descr[2] == b"U" else 1)
    length = math.prod(shape) * item_bytes
    if limit is not None and length > limit - (stream.at - start):
        return False
    element, count = _ELEMENTS.get((descr[2], item_bytes), (ElementType.BYTES, 1))
    if order[1] == b"True":
        shape = shape[::-1]
    if element is not ElementType.BYTES:
        if descr[1] == b">":
            element = big_endian(element)
        stream.add(stream.at, length, element, name, shape if count == 1 else (*shape, count))
    yield from stream.skip(length)
    return True
