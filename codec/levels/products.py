"""Products of a row's and a column's factor, that take up what levels leave. Source: docs/format.md, section 5.2."""

from __future__ import annotations

from typing import Final

import numpy as np

from .elements import Numbers

_GREATEST_FACTOR: Final = 127
_GREATEST_REST: Final = 2047
# A product is kept where it takes one part in so many of the squares away.
_LEAST_SHARE: Final = 12


def rest(differences: Numbers, octave: int) -> Numbers:
    """Differences of H in 256ths of an octave."""
    return np.clip(differences * 256 // octave, -_GREATEST_REST, _GREATEST_REST)


def find_column_factors(left: Numbers, most: int) -> list[Numbers]:
    """B of every product worth keeping, at most `most`. left: E, by row and column."""
    found: list[Numbers] = []
    squares = _squares(left)
    while len(found) < most:
        columns = _normal(left[int((left * left).sum(axis=1).argmax())])
        for _ in range(2):
            if columns is None:
                break
            columns = _normal(_factors_of_rows(left, columns) @ left)
        if columns is None:
            break
        left = left - (_factors_of_rows(left, columns)[:, np.newaxis] * columns >> 4)
        before, squares = squares, _squares(left)
        if (before - squares) * _LEAST_SHARE < before:
            break
        found.append(columns)
    return found


def factor(dots: Numbers, squares: Numbers) -> Numbers:
    """A, from 16 times the sums of x * B, and those of B * B."""
    exact = (dots + squares // 2) // np.maximum(squares, 1)
    return np.where(squares == 0, 0, np.clip(exact, -_GREATEST_FACTOR, _GREATEST_FACTOR))


def _factors_of_rows(left: Numbers, columns: Numbers) -> Numbers:
    return factor(16 * (left @ columns), np.full(len(left), columns @ columns))


def _normal(values: Numbers) -> Numbers | None:
    """Scaled so that the greatest is 127; None where all are 0."""
    most = int(np.abs(values).max())
    return None if most == 0 else (254 * values + most) // (2 * most)


def _squares(left: Numbers) -> int:
    return int((left * left).sum())
