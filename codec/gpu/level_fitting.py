"""Levels and products of frames, fitted where they lie. Source: docs/format.md, section 5.2."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from ..types import Level
from .jobs import DeviceLevels, Job
from .kernels.level_fit import level_fit_kernel
from .kernels.levels import column_sums_kernel, level_rows_kernel, row_sums_kernel
from .launcher import Launcher, Row, cdiv, download, padded

_FEWEST_COLUMNS: Final = 16
_MOST_COLUMNS: Final = 65_536
_FEWEST_ROWS: Final = 8
_ROWS_LOOKED_AT: Final = 64
_ELEMENTS_EACH: Final = 8
_MOST_PRODUCTS: Final = {Level.BALANCED: 4, Level.SMALL: 8}
_FOUND: Final = 4


@dataclass(frozen=True, slots=True)
class _Shape:
    """Rows that a frame's elements lie in. whole: rows that are in it from end to end."""

    row_count: int
    whole: int
    first_whole: int

    @property
    def step(self) -> int:
        return max(1, self.whole // _ROWS_LOOKED_AT)

    @property
    def seen(self) -> int:
        return cdiv(self.whole, self.step)


@dataclass(frozen=True, slots=True)
class _Room:
    """One frame's tensors. whole: rows, columns and everything else of it."""

    shape: _Shape
    whole: torch.Tensor
    rows: torch.Tensor
    columns: torch.Tensor


class LevelFits:
    """What was launched for the frames that may have levels; read() says what was found."""

    def __init__(self, launcher: Launcher, jobs: Sequence[Job], level: Level) -> None:
        self._jobs: list[tuple[Job, _Room]] = []
        self._found = launcher.zeros(_FOUND * len(jobs))
        if level is Level.FAST:
            return
        tables: dict[int, list[Row]] = defaultdict(list)
        for job in jobs:
            shape = _shape_of(job)
            if shape is not None:
                found_at = self._found.data_ptr() + 4 * _FOUND * len(self._jobs)
                room, row = _room_of(launcher, job, shape, _MOST_PRODUCTS[level], found_at)
                tables[job.frame.element.width].append(row)
                self._jobs.append((job, room))
        for width, rows in tables.items():
            _launch(launcher, width, rows)

    def read(self) -> list[tuple[Job, DeviceLevels]]:
        """Levels at the base for layout 2; waits for them."""
        found: np.ndarray[tuple[int, int], np.dtype[np.int32]] = download(self._found, np.int32).reshape(-1, _FOUND)
        fitted = []
        for (job, room), (there, products, middle, _) in zip(self._jobs, found.tolist(), strict=False):
            if there:
                grid = job.frame.grid
                base = (middle - (1 << job.frame.element.octave_bits) // 2) & 0xFFFE
                sizes = room.shape.row_count, grid.columns, grid.column
                fitted.append((job, DeviceLevels(room.rows, room.columns, *sizes, products, base)))
        return fitted


def _shape_of(job: Job) -> _Shape | None:
    """None where there is nothing to look for."""
    grid, n = job.frame.grid, job.n
    columns = grid.columns
    if not job.frame.element.is_float or not _FEWEST_COLUMNS <= columns <= _MOST_COLUMNS:
        return None
    first_whole = columns - grid.column if grid.column else 0
    whole = (n - first_whole) // columns
    row_count = cdiv(grid.column + n, columns)
    if whole < _FEWEST_ROWS or (row_count + columns) * _ELEMENTS_EACH > n:
        return None
    return _Shape(row_count, whole, first_whole)


def _room_of(launcher: Launcher, job: Job, shape: _Shape, products: int, found_at: int) -> tuple[_Room, Row]:
    grid = job.frame.grid
    columns, seen = grid.columns, shape.seen
    rows_bytes, columns_bytes = (1 + products) * shape.row_count, (1 + products) * columns
    # sums, varied, column_sums, offsets, rest, energies, projections, rows, columns, gram
    sizes = [8 * seen, 4 * seen, 8 * columns, 4 * columns, 2 * seen * columns, 8 * seen, 4 * columns]
    sizes += [rows_bytes, columns_bytes, 8 * 64]
    starts = np.cumsum([0, *(padded(size) for size in sizes)]).tolist()
    whole = launcher.room(starts[-1])
    at = [whole.data_ptr() + start for start in starts]
    kept = _Room(shape, whole, whole[starts[7] :][:rows_bytes], whole[starts[8] :][:columns_bytes])
    row = (job.data.data_ptr(), job.n, columns, grid.column, job.frame.element.octave_bits, shape.row_count)
    return kept, (*row, shape.first_whole, shape.step, seen, *at[:10], products, found_at)


def _launch(launcher: Launcher, width: int, rows: list[Row]) -> None:
    tiles = launcher.tiles
    how: dict[str, Any] = {"WIDTH": width, "ROWS": tiles.rows, "COLUMNS": tiles.columns}
    launcher.launch(row_sums_kernel, rows, (cdiv(row[8], tiles.rows) for row in rows), **how)
    launcher.launch(column_sums_kernel, rows, (cdiv(row[2], tiles.columns) for row in rows), **how)
    fit: dict[str, Any] = {"WIDTH": width, "ROWS": tiles.fit_rows, "COLUMNS": tiles.fit_columns}
    launcher.launch(level_fit_kernel, rows, warps=tiles.fit_warps, **fit)
    launcher.launch(level_rows_kernel, rows, (cdiv(row[5], tiles.rows) for row in rows), **how)
