"""The JSON header of a safetensors file, read as it streams past: no tree is built, a tensor is a few numbers and its text.

Members as the library writes them are matched as a whole; any other one is looked at by itself once its end is found. Odd
headers are read as far as they make sense.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from ..limits import MAX_PARSER_STEPS, MAX_SAFETENSORS_MEMBER_BYTES, MAX_SAFETENSORS_VALUES
from ..types import ElementType
from .stream import GiveUp

# Offsets past this are not those of a file; it also bounds what arithmetic on them may cost.
_MAX_OFFSET: Final = 1 << 62
_MAX_DIMENSIONS: Final = 64
# A key and a text.
_QUOTES_PER_VALUE: Final = 4
_METADATA: Final = b"__metadata__"

# dtype -> type, and bits of what the shape counts.
_DTYPES: Final = {
    **{element.name: (element, 8 * element.width) for element in ElementType if element is not ElementType.BYTES},
    "C64": (ElementType.F32, 64),
    "F8_E4M3FNUZ": (ElementType.U8, 8),
    "F8_E5M2FNUZ": (ElementType.U8, 8),
    "F6_E2M3": (ElementType.U8, 6),
    "F6_E3M2": (ElementType.U8, 6),
    "F4": (ElementType.U8, 4),
}
_NUMBERS: Final = {name: number for number, name in enumerate(_DTYPES)}
_KINDS: Final = list(_DTYPES.values())
_RAW_NUMBERS: Final = {name.encode(): number for name, number in _NUMBERS.items()}

_S: Final = rb"[ \t\r\n]*+"
_INT: Final = rb"(0|[1-9][0-9]{0,18}+)"
_KNOWN: Final = re.compile(
    _S.join(
        (
            rb'"([^"\\\x00-\x1f]*+)"',
            rb":",
            rb"\{",
            rb'"dtype"',
            rb":",
            rb'"([A-Z0-9_]{1,16}+)"',
            rb",",
            rb'"shape"',
            rb":",
            rb"(\[[0-9, \t\r\n]*+\])",
            rb",",
            rb'"data_offsets"',
            rb":",
            rb"\[",
            _INT,
            rb",",
            _INT,
            rb"\]",
            rb"\}",
            rb"([,}])" + _S,
        )
    )
)
_MEMBER: Final = re.compile(_S + rb'"((?:[^"\\]++|\\.)*+)"' + _S + rb":" + _S + rb"(\{.*)", re.DOTALL)
_PLAIN: Final = re.compile(rb'[^"{}\[\],]*+')
_IN_TEXT: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)


class HeaderScanner:
    """Feed the header; then `tensors` gives those of a known type in the order of their place.

    done: the object has ended; what follows does not count.
    """

    def __init__(self) -> None:
        self.done = False
        self._text = bytearray()
        self._begun = False
        self._seen = 0  # of _text: bytes of a member whose end was not found
        self._depth = 0
        self._in_text = False
        self._kept = True
        self._values = 0
        self._quotes = 0
        self._others = 0
        self._table = _Table()

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Raises: GiveUp past the bound on values, or where it is no object."""
        if self.done:
            return
        # They also bound the steps of what follows.
        self._values += sum(map(data.count, (b"[", b"{", b",")))
        self._quotes += data.count(b'"')
        if self._values > MAX_SAFETENSORS_VALUES or self._quotes > _QUOTES_PER_VALUE * MAX_SAFETENSORS_VALUES:
            raise GiveUp
        self._text += data
        at = self._begin()
        while self._begun and not self.done:
            if self._seen == 0 and self._kept and self._depth == 0:
                at = self._known(at)
            end = None if self.done else self._other(at)
            if end is None:
                break
            at = end
        del self._text[:at]

    def tensors(self) -> Iterator[tuple[int, int, ElementType, str, tuple[int, ...] | None]]:
        """Start, length, type, name, shape; starts from the end of the header."""
        return self._table.rows()

    def _begin(self) -> int:
        """Step over the object's bracket, once."""
        if self._begun:
            return 0
        text = self._text.lstrip(b" \t\r\n")
        if not text:
            return 0
        if text[0] != ord("{"):
            raise GiveUp
        self._begun = True
        return len(self._text) - len(text) + 1

    def _known(self, at: int) -> int:
        """Members as the library writes them, as many as are there; return where the next one begins."""
        add, number_of, match_at, text = self._table.add, _RAW_NUMBERS.get, _KNOWN.match, self._text
        while match := match_at(text, at):
            name, dtype, shape, first, last, behind = match.groups()
            at = match.end()
            number = number_of(dtype)
            if number is not None and name != _METADATA:
                add(int(first), int(last), number, name, shape)
            if behind == b"}":
                self.done = True
                break
        return at

    def _other(self, at: int) -> int | None:
        """Any member: find its end, then look at it; None where the end has not come."""
        place, found = self._find_end(at + self._seen)
        if not found:
            self._seen = place - at
            if self._seen > MAX_SAFETENSORS_MEMBER_BYTES:
                del self._text[at:place]
                self._seen, self._kept = 0, False
            return None
        self._others += 1
        if self._others > MAX_PARSER_STEPS:
            raise GiveUp
        if self._kept and place - at <= MAX_SAFETENSORS_MEMBER_BYTES:
            self._table.add_member(bytes(self._text[at:place]))
        self.done = self._text[place] == ord("}")
        self._seen, self._kept = 0, True
        return place + 1

    def _find_end(self, at: int) -> tuple[int, bool]:
        """Where the comma or bracket is that ends a member; or how far the search came."""
        text = self._text
        while True:
            match = (_IN_TEXT if self._in_text else _PLAIN).match(text, at)
            at = match.end() if match is not None else at
            # Within a text only a backslash whose partner has not come stops before the quote.
            if at == len(text) or (self._in_text and text[at] != ord('"')):
                return at, False
            code = text[at]
            if code == ord('"'):
                self._in_text = not self._in_text
            elif code in b"{[":
                self._depth += 1
            elif self._depth == 0:
                return at, True
            elif code in b"}]":
                self._depth -= 1
            at += 1


class _Table:
    """Tensors in columns: a million of them as objects would be half a gigabyte."""

    def __init__(self) -> None:
        self._first = array("q")
        self._last = array("q")
        self._number = bytearray()
        self._text = bytearray()
        self._ends = array("q")

    def add(self, first: int, last: int, number: int, name: bytes, shape: bytes) -> None:
        """name: as in the header, escapes and all. shape: JSON."""
        if not first < last <= _MAX_OFFSET:
            return
        self._first.append(first)
        self._last.append(last)
        self._number.append(number)
        self._text += b'%b"%b' % (name, shape)
        self._ends.append(len(self._text))

    def add_member(self, text: bytes) -> None:
        """Any member of the header: a tensor if it says a known type and its place. Raises: GiveUp where it has no name."""
        match = _MEMBER.match(text)
        if match is None:
            if not text.lstrip().startswith(b'"'):
                raise GiveUp
            return
        if match[1] == _METADATA:
            return
        try:
            about = json.loads(match[2])
        except (ValueError, RecursionError):
            return
        offsets, number = about.get("data_offsets"), _number_of(about.get("dtype"))
        if number is None or not isinstance(offsets, list) or len(offsets) != 2:
            return
        if all(type(offset) is int and 0 <= offset <= _MAX_OFFSET for offset in offsets):
            self.add(offsets[0], offsets[1], number, match[1], json.dumps(about.get("shape")).encode())

    def rows(self) -> Iterator[tuple[int, int, ElementType, str, tuple[int, ...] | None]]:
        first, last = np.frombuffer(self._first, "i8"), np.frombuffer(self._last, "i8")
        for row in np.lexsort((last, first)):
            at = int(row)
            begin = self._ends[at - 1] if at else 0
            name, _, shape = bytes(self._text[begin : self._ends[at]]).rpartition(b'"')
            element, bits = _KINDS[self._number[at]]
            start = self._first[at]
            yield start, self._last[at] - start, element, _name(name), _shape(shape, element, bits)


def _number_of(dtype: Any) -> int | None:
    return _NUMBERS.get(dtype) if isinstance(dtype, str) else None


def _name(raw: bytes) -> str:
    if b"\\" in raw:
        try:
            return str(json.loads(b'"' + raw + b'"'))
        except ValueError:
            pass
    return raw.decode("utf-8", "replace")


def _shape(text: bytes, element: ElementType, bits: int) -> tuple[int, ...] | None:
    """The shape in elements as they lie: pairs of floats, bytes of packed numbers."""
    try:
        shape = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(shape, list) or len(shape) > _MAX_DIMENSIONS:
        return None
    if not all(type(size) is int and 0 <= size <= _MAX_OFFSET for size in shape):
        return None
    ours = 8 * element.width
    if bits > ours:
        return (*shape, bits // ours)
    if bits < ours:
        return (*shape[:-1], shape[-1] * bits // ours) if shape and shape[-1] * bits % ours == 0 else None
    return tuple(shape)
