"""Levels as they are stored, and what they predict. Source: docs/format.md, section 2.3."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ..errors import FormatError, Truncated, UnsupportedVersion
from ..types import NO_GRID, Buffer, ElementType, Grid
from .elements import Numbers

_HEAD: Final = struct.Struct("<IIHBB")
HEAD_BYTES: Final = _HEAD.size
MAX_PRODUCTS: Final = 8

# The level of a row that is the same all over, as zeros are: nothing is predicted for it.
UNIFORM: Final = -128


def unit(element: ElementType) -> int:
    """A level's worth of H: an eighth of an octave."""
    return 1 << (element.octave_bits - 3)


def row_count(grid: Grid, n: int) -> int:
    """Rows that n elements touch. grid: with columns."""
    return -(-(grid.column + n) // grid.columns)


def _nothing() -> Numbers:
    return np.zeros((1, 0), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """base: added everywhere. rows, columns: -128 to 127; first the levels, then the factors of each product.

    Without columns in the grid both are empty.
    """

    base: int
    grid: Grid = NO_GRID
    rows: Numbers = field(default_factory=_nothing)
    columns: Numbers = field(default_factory=_nothing)

    @property
    def products(self) -> int:
        """Products of a row's and a column's factor."""
        return len(self.rows) - 1

    def head(self) -> bytes:
        """What a payload starts with."""
        return Head(self.base, self.grid, self.products).pack()

    def planes(self) -> list[bytes]:
        """Rows and columns as they are coded."""
        return [one.astype(np.int8).tobytes() for one in (self.rows, self.columns)] if self.grid.columns else []

    def predict(self, element: ElementType, index: Numbers) -> Numbers:
        """P of the elements with these numbers in the frame, mod 65536."""
        if self.grid.columns == 0:
            return np.full(len(index), self.base, dtype=np.int64)
        place = self.grid.column + index
        rows = self.rows[:, place // self.grid.columns]
        columns = self.columns[:, place % self.grid.columns]
        sums = self.base + unit(element) * (rows[0] + columns[0])
        for row, column in zip(rows[1:], columns[1:], strict=True):
            sums += row * column >> (12 - element.octave_bits)
        return np.where(rows[0] == UNIFORM, 0, sums) & 0xFFFE


@dataclass(frozen=True, slots=True)
class Head:
    """What a payload says of its levels before their planes."""

    base: int
    grid: Grid
    products: int

    def pack(self) -> bytes:
        """What a payload starts with."""
        return _HEAD.pack(self.grid.columns, self.grid.column, self.base, self.products, 0)

    def plane_sizes(self, n: int) -> list[int]:
        """Bytes of the planes of rows and columns; none without columns. n: elements of the frame."""
        if self.grid.columns == 0:
            return []
        return [(1 + self.products) * size for size in (row_count(self.grid, n), self.grid.columns)]


def read_head(payload: Buffer, n: int) -> Head:
    """For a frame of n elements. Raises: Truncated, UnsupportedVersion, FormatError."""
    if len(payload) < HEAD_BYTES:
        raise Truncated(f"levels at payload byte 0: expected {HEAD_BYTES} bytes, found {len(payload)}")
    columns, column, base, products, reserved = _HEAD.unpack_from(payload)
    if reserved:
        raise UnsupportedVersion(f"levels at payload byte 11: expected a zero byte, found {reserved:#04x}")
    if base % 2:
        raise FormatError(f"levels at payload byte 8: expected an even base, found {base}")
    most = MAX_PRODUCTS if columns else 0
    if products > most:
        raise FormatError(f"levels at payload byte 10: expected at most {most} products, found {products}")
    if column >= max(columns, 1):
        raise FormatError(
            f"levels at payload byte 4: expected the first of {columns} columns, or 0 without any, found {column}"
        )
    head = Head(base, Grid(columns, column), products)
    if sum(head.plane_sizes(n)) > n:
        raise FormatError(
            f"levels at payload byte 0: expected at most {n} bytes of rows and columns, found {head.plane_sizes(n)}"
        )
    return head


def read_levels(head: Head, planes: Sequence[Buffer]) -> Levels:
    """planes: rows and columns, decoded; none without columns."""
    if not planes:
        return Levels(head.base)
    rows, columns = (
        np.frombuffer(plane, dtype=np.int8).astype(np.int64).reshape(1 + head.products, -1) for plane in planes
    )
    return Levels(head.base, head.grid, rows, columns)
