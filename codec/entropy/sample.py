"""What a writer knows of a plane before it codes it: a histogram. Source: docs/format.md, sections 5.3 and 5.5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..types import Buffer
from .blocks import block_count

Counts: TypeAlias = npt.NDArray[np.int64]


def histogram(plane: Buffer) -> Counts:
    """How often each of the 256 byte values occurs."""
    return np.bincount(np.frombuffer(plane, dtype=np.uint8), minlength=256).astype(np.int64)


def best_window(counts: Counts, width: int) -> tuple[int, int]:
    """Start and mass of the `width` successive values, mod 256, that hold most; the smallest start of equals."""
    sums = np.cumsum(np.concatenate([[0], counts, counts[:width]]))
    masses = sums[width : width + 256] - sums[:256]
    start = int(masses.argmax())
    return start, int(masses[start])


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """counts: of some of a plane's n bytes, or of all of them; at least one."""

    counts: Counts
    n: int

    @property
    def total(self) -> int:
        """Bytes counted."""
        return int(self.counts.sum())

    @property
    def symbols(self) -> int:
        """Different values counted."""
        return int(np.count_nonzero(self.counts))

    @property
    def blocks(self) -> int:
        """Blocks of the whole plane."""
        return block_count(self.n)

    def scale(self, amount: int) -> int:
        """From the sample to the plane."""
        return amount * self.n // self.total

    @property
    def surplus_bytes(self) -> int:
        """By how much a sample seems more regular than its plane: K, half a symbol's worth of bits for each symbol."""
        if self.total == self.n:
            return 0
        return (self.symbols - 1) * self.n * 92 // (1024 * self.total)
