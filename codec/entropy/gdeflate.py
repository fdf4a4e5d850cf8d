"""GDeflate: Deflate64 over 32 lanes, in pages of 65,536 bytes; read only. Source: docs/format.md, section 3.5.

The bit stream is that of nvCOMP and DirectStorage; published under Apache-2.0 with microsoft/DirectStorage (GDeflate).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ..errors import ChecksumMismatch, FormatError, LimitExceeded, Truncated
from ..types import Buffer
from .blocks import BLOCK_SYMBOLS, block_count

LANES: Final = 32
WORD_BYTES: Final = 4
PAGE_HEAD_BYTES: Final = LANES * WORD_BYTES
# A page of m bytes is stored in no more than m and this.
PAGE_SURPLUS_BYTES: Final = 1024
# Each may cost two tables: hostile pages have thousands.
MAX_PAGE_BLOCKS: Final = 256

_PRECODE_ORDER: Final = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)
# Of the precode's symbols 16 to 18: the fewest times a length comes again, and bits for more.
_REPEATS: Final = {16: (3, 2), 17: (3, 3), 18: (11, 7)}
_END_OF_BLOCK: Final = 256
_FIXED: Final = ([8] * 144 + [9] * 112 + [7] * 24 + [8] * 8, [5] * 32)


def _bases(first: int, bits: Sequence[int]) -> list[tuple[int, int]]:
    """Base and number of extra bits of each symbol; each base is where the range before ends."""
    found = []
    for extra in bits:
        found.append((first, extra))
        first += 1 << extra
    return found


# Symbol 285 begins anew at 3 with 16 bits.
_LENGTHS: Final = [*_bases(3, [0] * 8 + [k for k in range(1, 6) for _ in range(4)]), (3, 16)]
_DISTANCES: Final = _bases(1, [0] * 4 + [k for k in range(1, 15) for _ in range(2)])


def decode(stored: Buffer, n: int) -> bytes:
    """The n bytes of a plane. Raises: FormatError."""
    pages = block_count(n)
    view = memoryview(stored)
    at = WORD_BYTES * pages
    if len(view) < at:
        raise Truncated(f"GDeflate plane: expected {pages} page lengths, found {len(view)} bytes")
    lengths = np.frombuffer(view[:at], dtype="<u4").tolist()
    pieces = []
    for number, length in enumerate(lengths):
        where = f"GDeflate page {number} at plane byte {at}"
        size = min(BLOCK_SYMBOLS, n - number * BLOCK_SYMBOLS)
        most = min(len(view) - at, size + PAGE_SURPLUS_BYTES)
        if not PAGE_HEAD_BYTES <= length <= most or length % WORD_BYTES:
            raise FormatError(f"{where}: expected {PAGE_HEAD_BYTES} to {most} bytes in whole words, found {length}")
        pieces.append(decode_page(view[at : at + length], size, where))
        at += length
    if at != len(view):
        raise FormatError(f"GDeflate plane: expected pages that fill {len(view)} bytes, found {at}")
    return b"".join(pieces)


def decode_page(stored: Buffer, size: int, where: str = "GDeflate page") -> bytes:
    """The bytes of one page of whole words, at least 32. Raises: FormatError."""
    page = _Page(stored, size, where)
    for _ in range(MAX_PAGE_BLOCKS):
        if page.block():
            return page.end()
    raise LimitExceeded(f"{where}: expected at most {MAX_PAGE_BLOCKS} blocks, found more")


class _Lanes:
    """32 bit readers on one run of words. A lane that has fewer than 32 bits takes the next word at once."""

    def __init__(self, stored: Buffer, where: str) -> None:
        self._words: list[int] = np.frombuffer(bytes(stored), dtype="<u4").tolist()
        self._at = LANES
        self._bits: list[int] = self._words[:LANES]
        self._counts = [8 * WORD_BYTES] * LANES
        self._where = where

    def peek(self, lane: int) -> int:
        """At least 32 bits, the next one lowest."""
        return self._bits[lane]

    def take(self, lane: int, count: int) -> int:
        """Remove so many of a lane's bits. Raises: Truncated."""
        value = self._bits[lane] & (1 << count) - 1
        self._bits[lane] >>= count
        self._counts[lane] -= count
        if self._counts[lane] < 8 * WORD_BYTES:
            if self._at == len(self._words):
                raise Truncated(f"{self._where}: expected another word, found the end")
            self._bits[lane] |= self._words[self._at] << self._counts[lane]
            self._counts[lane] += 8 * WORD_BYTES
            self._at += 1
        return value

    def end(self) -> None:
        """Raises: ChecksumMismatch where words are left."""
        if self._at != len(self._words):
            raise ChecksumMismatch(f"{self._where}: expected {self._at} words, found {len(self._words)}")


class _Code:
    """A canonical Huffman code by its lengths; 0: a symbol without one."""

    def __init__(self, lengths: Sequence[int], where: str) -> None:
        self._where = where
        self._used = sorted(set(lengths) - {0})
        # By its bits, the first one lowest, with a 1 above the last.
        self._symbols: dict[int, int] = {}
        code = before = 0
        for length in self._used:
            code <<= length - before
            before = length
            for symbol, one in enumerate(lengths):
                if one == length:
                    if code >> length:
                        raise FormatError(f"{where}: expected code lengths that fit, found more codes than patterns")
                    self._symbols[int(f"{code:0{length}b}"[::-1], 2) | 1 << length] = symbol
                    code += 1

    def decode(self, lanes: _Lanes, lane: int) -> int:
        """The next symbol. Raises: FormatError where no code is like the bits."""
        bits = lanes.peek(lane)
        for length in self._used:
            symbol = self._symbols.get(bits & (1 << length) - 1 | 1 << length)
            if symbol is not None:
                lanes.take(lane, length)
                return symbol
        raise FormatError(f"{self._where}: expected a code, found bits that are none")


class _Page:
    def __init__(self, stored: Buffer, size: int, where: str) -> None:
        self._lanes = _Lanes(stored, where)
        self._out = bytearray()
        self._size = size
        self._where = where

    def block(self) -> bool:
        """Decode one block; whether it was the last one."""
        is_last = bool(self._lanes.take(0, 1))
        kind = self._lanes.take(0, 2)
        if kind == 0:
            self._stored()
        elif kind == 1:
            self._coded(*_FIXED)
        elif kind == 2:
            self._coded(*self._code_lengths())
        else:
            raise FormatError(f"{self._where}: expected a block of kind 0, 1 or 2, found {kind}")
        return is_last

    def end(self) -> bytes:
        """All bytes, once the last block is decoded. Raises: FormatError."""
        if len(self._out) != self._size:
            raise FormatError(f"{self._where}: expected {self._size} bytes, found {len(self._out)}")
        self._lanes.end()
        return bytes(self._out)

    def _stored(self) -> None:
        size = self._lanes.take(0, 16)
        self._expect_room(size)
        self._out += bytes(self._lanes.take(i % LANES, 8) for i in range(size))

    def _code_lengths(self) -> tuple[list[int], list[int]]:
        literals, distances, own = (self._lanes.take(0, bits) for bits in (5, 5, 4))
        literals += 257
        count = literals + distances + 1
        lengths_of = [0] * len(_PRECODE_ORDER)
        for lane, symbol in enumerate(_PRECODE_ORDER[: own + 4]):
            lengths_of[symbol] = self._lanes.take(lane, 3)
        code = _Code(lengths_of, self._where)
        lengths: list[int] = []
        lane = 0
        while len(lengths) < count:
            symbol = code.decode(self._lanes, lane)
            if symbol in _REPEATS:
                if symbol == 16 and not lengths:
                    raise FormatError(f"{self._where}: expected a code length, found a repetition of none")
                fewest, bits = _REPEATS[symbol]
                lengths += [lengths[-1] if symbol == 16 else 0] * (fewest + self._lanes.take(lane, bits))
            else:
                lengths.append(symbol)
            lane = (lane + 1) % LANES
        if len(lengths) > count:
            raise FormatError(f"{self._where}: expected {count} code lengths, found {len(lengths)}")
        return lengths[:literals], lengths[literals:]

    def _coded(self, literals: Sequence[int], distances: Sequence[int]) -> None:
        """Every lane has a symbol a round, in order; that of a match takes its distance in the next round."""
        literal_code = _Code(literals, self._where)
        distance_code = _Code(distances, self._where)
        matches: list[tuple[int, int] | None] = [None] * LANES
        is_open = True
        while is_open or any(matches):
            for lane in range(LANES):
                match = matches[lane]
                if match is not None:
                    matches[lane] = None
                    self._copy(*match, self._value(_DISTANCES, distance_code.decode(self._lanes, lane), lane))
                elif is_open:
                    symbol = literal_code.decode(self._lanes, lane)
                    if symbol < _END_OF_BLOCK:
                        self._expect_room(1)
                        self._out.append(symbol)
                    elif symbol == _END_OF_BLOCK:
                        is_open = False
                    else:
                        length = self._value(_LENGTHS, symbol - _END_OF_BLOCK - 1, lane)
                        self._expect_room(length)
                        matches[lane] = len(self._out), length
                        self._out += bytes(length)

    def _value(self, table: Sequence[tuple[int, int]], symbol: int, lane: int) -> int:
        if symbol >= len(table):
            raise FormatError(f"{self._where}: expected a symbol below {len(table)}, found {symbol}")
        base, bits = table[symbol]
        return base + self._lanes.take(lane, bits)

    def _copy(self, at: int, length: int, distance: int) -> None:
        if distance > at:
            raise FormatError(f"{self._where}: expected a distance of at most {at}, found {distance}")
        if distance >= length:
            self._out[at : at + length] = self._out[at - distance : at - distance + length]
        else:
            unit = bytes(self._out[at - distance : at])
            self._out[at : at + length] = (unit * (length // distance + 1))[:length]

    def _expect_room(self, size: int) -> None:
        if size > self._size - len(self._out):
            raise FormatError(f"{self._where}: expected {self._size} bytes, found more")
