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
    looked_at = _rows_looked_at(sizes == columns, varied)
    if len(looked_at) < _FEWEST_ROWS:
        return None
    # A whole row's elements follow one another.
    table = top[starts[looked_at][:, np.newaxis] + np.arange(columns)]
    octave = 1 << element.octave_bits
    means = table.sum(axis=1) // columns
    total = int(means.sum())
    differences = (table.sum(axis=0) - total) // len(table)
    if _mean_square(differences) + _mean_square(means - total // len(table)) < (octave // 2) ** 2:
        return None
    column_levels = _as_levels(differences, unit(element))
    # (1 + products) * (rows + columns) bytes of them.
    room = n // (_ELEMENTS_EACH * (len(starts) + columns)) - 1
    left = products.rest(table - means[:, np.newaxis] - differences, octave)
    column_factors = products.find_column_factors(left, min(most_products, room))

    place = (grid.column + np.arange(n)) % columns
    row_of = (grid.column + np.arange(n)) // columns
    means = np.add.reduceat(top - unit(element) * column_levels[place], starts) // sizes
    middle = int(means[varied].sum()) // int(varied.sum())
    row_levels = np.where(varied, _as_levels(means - middle, unit(element)), UNIFORM)
    rows = [row_levels]
    rest = products.rest(top - middle - unit(element) * (row_levels[row_of] + column_levels[place]), octave)
    for factors in column_factors:
        here = factors[place]
        found = products.factor(np.add.reduceat(rest * here, starts), np.add.reduceat(here * here, starts))
        rows.append(np.where(varied, found, 0))
        rest = rest - (found[row_of] * here >> 4)
    base = (middle - octave // 2) & 0xFFFE
    return Levels(base, grid, np.stack(rows), np.stack([column_levels, *column_factors]))


def _rows_looked_at(is_whole: npt.NDArray[np.bool_], is_varied: npt.NDArray[np.bool_]) -> Numbers:
    whole = np.flatnonzero(is_whole)
    if len(whole) < _FEWEST_ROWS:
        return whole
    looked_at = whole[:: max(1, len(whole) // _ROWS_LOOKED_AT)]
    return looked_at[is_varied[looked_at]]


def _as_levels(differences: Numbers, width: int) -> Numbers:
    return np.clip((differences + width // 2) // width, -_GREATEST, _GREATEST)


def _mean_square(numbers: Numbers) -> int:
    return int((numbers * numbers).sum()) // len(numbers)
