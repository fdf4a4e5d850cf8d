"""Huffman's code: lengths under a limit, canonical codes, and its table. Source: docs/format.md, sections 3.3 and 5.4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import FormatError, Truncated
from ..types import Buffer
from .sample import Sample, best_window

MAX_LENGTH: Final = 11
_NARROW: Final = 32
# With a narrow table at most one symbol in this many is an exception.
_NARROW_SHARE: Final = 512
_HEAD_BYTES: Final = 2

Places: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """lengths: bits of the codes of the symbols first, first + 1, ... mod 256; 0: none. At least two, and complete."""

    first: int
    lengths: Places

    @property
    def symbols(self) -> npt.NDArray[np.uint8]:
        """The symbol at each place of the table."""
        return ((self.first + np.arange(len(self.lengths))) % 256).astype(np.uint8)

    @property
    def order(self) -> Places:
        """Places that have a code, in order of their codes."""
        coded = np.flatnonzero(self.lengths)
        return coded[np.argsort(self.lengths[coded], kind="stable")]

    def by_symbol(self) -> tuple[Places, Places]:
        """Of each of 256 symbols: length and code. Those without one have the first shortest code."""
        order = self.order
        # A code of length l is the first l of 11 bits, and takes up 2^(11 - l) of the 2048 patterns.
        spans = 1 << (MAX_LENGTH - self.lengths[order])
        codes = (np.cumsum(spans) - spans) // spans
        lengths = np.full(256, self.lengths[order[0]], dtype=np.int64)
        code_of = np.full(256, codes[0], dtype=np.int64)
        lengths[self.symbols[order]] = self.lengths[order]
        code_of[self.symbols[order]] = codes
        return lengths, code_of

    def is_coded(self) -> npt.NDArray[np.bool_]:
        """By symbol."""
        found = np.zeros(256, dtype=np.bool_)
        found[self.symbols[self.lengths > 0]] = True
        return found

    def by_pattern(self) -> tuple[npt.NDArray[np.uint8], Places]:
        """Symbol and length of the code that each pattern of 11 bits begins with."""
        order = self.order
        places = np.repeat(order, 1 << (MAX_LENGTH - self.lengths[order]))
        return self.symbols[places], self.lengths[places]

    def to_bytes(self) -> bytes:
        """As it is stored."""
        halves = np.pad(self.lengths, (0, len(self.lengths) % 2)).astype(np.uint8).reshape(-1, 2)
        return bytes([self.first, len(self.lengths) - 1]) + (halves[:, 0] | halves[:, 1] << 4).tobytes()


def fit(sample: Sample) -> Code | None:
    """The best code for a histogram; None where fewer than two symbols would have one."""
    start, mass = best_window(sample.counts, _NARROW)
    narrow = (sample.total - mass) * _NARROW_SHARE <= sample.total
    first, count = (start, _NARROW) if narrow else _span(sample)
    counts = np.roll(sample.counts, -first)[:count]
    coded = np.flatnonzero(counts)
    if len(coded) < 2:
        return None
    lengths = np.zeros(count, dtype=np.int64)
    lengths[coded] = package_merge([int(one) for one in counts[coded]])
    return Code(first, lengths)


def _span(sample: Sample) -> tuple[int, int]:
    """Start and width of the fewest successive values, mod 256, that hold all that were counted."""
    found = np.flatnonzero(sample.counts)
    widths = (np.roll(found, 1) - found) % 256 + 1
    at = int(widths.argmin())
    return int(found[at]), int(widths[at])


def package_merge(weights: Sequence[int]) -> list[int]:
    """Lengths of at most 11 bits with the least sum of weight * length, for at least two weights.

    Source: Larmore and Hirschberg, A fast algorithm for optimal length-limited Huffman codes, JACM 37 (1990).
    """
    # An element: weight, and the leaf's number, or -1 for a package.
    leaves = sorted((weight, number) for number, weight in enumerate(weights))
    lists = [leaves]
    for _ in range(MAX_LENGTH - 1):
        below = lists[-1]
        packages = [(below[i][0] + below[i + 1][0], -1) for i in range(0, len(below) - 1, 2)]
        # sorted() is stable: a leaf stays before a package of the same weight.
        lists.append(sorted(leaves + packages, key=lambda element: element[0]))
    lengths = [0] * len(weights)
    taken = 2 * (len(weights) - 1)
    for elements in reversed(lists):
        numbers = [number for _, number in elements[:taken]]
        for number in numbers:
            if number >= 0:
                lengths[number] += 1
        taken = 2 * numbers.count(-1)
    return lengths


def read_code(stored: Buffer) -> tuple[Code, int]:
    """The code that a plane begins with, and its bytes. Raises: Truncated, FormatError."""
    if len(stored) < _HEAD_BYTES:
        raise Truncated(f"Huffman plane at plane byte 0: expected first and count, found {len(stored)} bytes")
    count = stored[1] + 1
    end = _HEAD_BYTES + -(-count // 2)
    if len(stored) < end:
        raise Truncated(f"Huffman plane at plane byte 2: expected {count} lengths to {end}, found {len(stored)} bytes")
    halves = np.frombuffer(bytes(stored[_HEAD_BYTES:end]), dtype=np.uint8)
    lengths = np.stack([halves & 15, halves >> 4], axis=1).reshape(-1)[:count].astype(np.int64)
    if int(lengths.max()) > MAX_LENGTH:
        raise FormatError(
            f"Huffman plane at plane byte 2: expected lengths of at most {MAX_LENGTH}, found {int(lengths.max())}"
        )
    used = lengths[lengths > 0]
    covered = int((1 << (MAX_LENGTH - used)).sum())
    if len(used) < 2 or covered != 1 << MAX_LENGTH:
        raise FormatError(
            f"Huffman plane at plane byte 2: expected at least two codes that fill {1 << MAX_LENGTH} patterns, "
            f"found {len(used)} that fill {covered}"
        )
    return Code(stored[0], lengths), end
