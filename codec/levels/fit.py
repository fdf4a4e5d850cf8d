"""Levels and products for a frame's elements: what a writer takes. Source: docs/format.md, section 5.2."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ..types import Buffer, ElementType, Grid
from . import products
from .elements import Numbers, top_words
from .model import UNIFORM, Levels, row_count, unit

_FEWEST_COLUMNS: Final = 16
_MOST_COLUMNS: Final = 65_536
_FEWEST_ROWS: Final = 8
# Rows that columns are taken from, or fewer than twice as many.
_ROWS_LOOKED_AT: Final = 64
# Elements for each level or factor.
_ELEMENTS_EACH: Final = 8
_GREATEST: Final = 127


def fit(data: Buffer, element: ElementType, grid: Grid, most_products: int) -> Levels | None:
    """Rows and columns worth a trial, at the base for layout 2; None where there are none. element: a float."""
    top = top_words(data, element)
    n, columns = len(top), grid.columns
    if not _FEWEST_COLUMNS <= columns <= _MOST_COLUMNS or (row_count(grid, n) + columns) * _ELEMENTS_EACH > n:
        return None
    starts = np.maximum(np.arange(row_count(grid, n)) * columns - grid.column, 0)
    sizes = np.diff(starts, append=n)
    varied = np.maximum.reduceat(top, starts) != np.minimum.reduceat(top, starts)
    looked_at = _rows_looked_at(sizes == columns)
    some, all_looked_at = looked_at[::4][varied[looked_at[::4]]], looked_at[varied[looked_at]]
    octave = 1 << element.octave_bits
    if len(some) >= _FEWEST_ROWS and not _Means(top, starts[some], columns).promise(octave):
        return None
    if len(all_looked_at) < _FEWEST_ROWS:
        return None
    seen = _Means(top, starts[all_looked_at], columns)
    if not seen.promise(octave):
        return None
    table, means, differences = seen.table, seen.means, seen.differences
    column_levels = _as_levels(differences, unit(element))
    # (1 + products) * (rows + columns) bytes of them.
    room = n // (_ELEMENTS_EACH * (len(starts) + columns)) - 1
    left = products.rest(table - means[:, np.newaxis] - differences, octave)
    column_factors = products.find_column_factors(left, min(most_products, room))

    place = (grid.column + np.arange(n)) % columns
    row_of = (grid.column + np.arange(n)) // columns
    means = np.add.reduceat(top - unit(element) * column_levels[place], starts) // sizes
    middle = seen.middle
    row_levels = np.where(varied, _as_levels(means - middle, unit(element)), UNIFORM)
    rows = [row_levels]
    rest = products.rest(top - middle - unit(element) * (row_levels[row_of] + column_levels[place]), octave)
    here = [factors[place] for factors in column_factors]
    for factors in here:
        dots = 16 * np.add.reduceat(rest * factors, starts)
        for earlier, taken in zip(here, rows[1:], strict=False):
            dots -= taken * np.add.reduceat(factors * earlier, starts)
        found = products.factor(dots, np.add.reduceat(factors * factors, starts))
        rows.append(np.where(varied, found, 0))
    base = (middle - octave // 2) & 0xFFFE
    return Levels(base, grid, np.stack(rows), np.stack([column_levels, *column_factors]))


class _Means:
    """Of whole rows: their means, and what each column's mean differs from them."""

    def __init__(self, top: Numbers, starts: Numbers, columns: int) -> None:
        # A whole row's elements follow one another.
        self.table = top[starts[:, np.newaxis] + np.arange(columns)]
        self.means = self.table.sum(axis=1) // columns
        total = int(self.means.sum())
        self.middle = total // len(starts)
        self.differences = (self.table.sum(axis=0) - total) // len(starts)

    def promise(self, octave: int) -> bool:
        """Whether rows and columns differ enough to be worth a trial."""
        spread = _mean_square(self.means - self.middle) + _mean_square(self.differences)
        return spread >= (octave // 2) ** 2


def _rows_looked_at(is_whole: npt.NDArray[np.bool_]) -> Numbers:
    whole = np.flatnonzero(is_whole)
    # Fewer than the fewest are none.
    return whole[:: max(1, len(whole) // _ROWS_LOOKED_AT)] if len(whole) >= _FEWEST_ROWS else whole[:0]


def _as_levels(differences: Numbers, width: int) -> Numbers:
    return np.clip((differences + width // 2) // width, -_GREATEST, _GREATEST)


def _mean_square(numbers: Numbers) -> int:
    return int((numbers * numbers).sum()) // len(numbers)
