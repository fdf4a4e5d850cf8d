"""Which pairs of tensors are the same, and which frames begin with bytes that come again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch

from .kernels.compare import MAX_PLACE, compare_kernel, repeats_kernel
from .launcher import ALIGNED_BYTES, Launcher, Row, cdiv, download

# Source: docs/format.md, section 5.6.
_REPEATED_BYTES: Final = 64
_REPEATED_WITHIN_BYTES: Final = 1 << 15


class Comparisons:
    """add() pairs, launch(), and read() in the order that they were added."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._pairs: list[tuple[torch.Tensor, torch.Tensor, bool]] = []
        self._differs: torch.Tensor | None = None

    def add(self, left: torch.Tensor, right: torch.Tensor, *, narrowed: bool = False) -> None:
        """narrowed: left is bf16, right as many fp32, aligned both. Else of one length."""
        self._pairs.append((left, right, narrowed))

    def launch(self) -> None:
        """Nothing is waited for."""
        differs = self._launcher.zeros(len(self._pairs))
        tables: dict[tuple[bool, bool], list[Row]] = {}
        for number, (left, right, narrowed) in enumerate(self._pairs):
            is_aligned = left.data_ptr() % ALIGNED_BYTES == right.data_ptr() % ALIGNED_BYTES == 0
            count = left.numel() // 2 if narrowed else left.numel()
            row = (left.data_ptr(), right.data_ptr(), count, differs.data_ptr() + 4 * number)
            if count:
                tables.setdefault((narrowed, is_aligned), []).append(row)
        tile = self._launcher.tiles.compared
        for (narrowed, is_aligned), rows in tables.items():
            counts = (cdiv(row[2], tile) for row in rows)
            self._launcher.launch(compare_kernel, rows, counts, NARROWED=narrowed, ALIGNED=is_aligned, TILE=tile)
        self._differs = differs

    def read(self) -> list[bool]:
        """Whether each pair is the same; waits."""
        assert self._differs is not None
        return [differs == 0 for differs in download(self._differs, np.int32).tolist()]


class Repeats:
    """Launched when made; read() waits."""

    def __init__(self, launcher: Launcher, frames: Sequence[torch.Tensor]) -> None:
        self._found = launcher.zeros(len(frames)).fill_(MAX_PLACE)
        rows = []
        for number, data in enumerate(frames):
            places = min(data.numel(), _REPEATED_WITHIN_BYTES) - _REPEATED_BYTES + 1
            if places > 1:
                rows.append((data.data_ptr(), places, self._found.data_ptr() + 4 * number))
        tile = launcher.tiles.places
        launcher.launch(repeats_kernel, rows, (cdiv(row[1], tile) for row in rows), TILE=tile)

    def read(self) -> list[bool]:
        """Whether the first bytes come again, and not at once."""
        return [_REPEATED_BYTES <= place < MAX_PLACE for place in download(self._found, np.int32).tolist()]
