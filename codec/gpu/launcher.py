"""Launches: tables of descriptors to the device, kernels over them, results back. Source of the sizes: docs/adr/0014."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
import triton

# What a kernel reads with its widest loads begins at a multiple of this.
ALIGNED_BYTES: Final = 16

Row = Sequence[int]


@dataclass(frozen=True, slots=True)
class Tiles:
    """How much of a descriptor's work one program takes; results are the same whatever it is. warps: of a program."""

    elements: int  # split, join
    histogram: int  # symbols
    compared: int  # bytes
    places: int  # where bytes may come again
    symbols: int  # of few bits; a multiple of 64
    exceptions: int
    words: int  # copied
    chunks: int  # of rANS
    slots: int  # of a table of rANS
    rows: int  # of levels ...
    columns: int
    fit_rows: int  # ... and where one program takes a frame
    fit_columns: int
    fit_warps: int = 8
    warps: int = 4


# A warp a chunk of rANS; 8 to 32 bytes a thread of what is streamed: registers then do not limit how many programs an SM holds.
ON_GPU: Final = Tiles(
    elements=1024,
    histogram=2048,
    compared=2048,
    places=1024,
    symbols=2048,
    exceptions=1024,
    words=1024,
    chunks=4,
    slots=32,
    rows=8,
    columns=128,
    fit_rows=8,
    fit_columns=256,
)
# The interpreter's cost is by operation up to some thousand elements.
INTERPRETED: Final = Tiles(
    elements=1 << 13,
    histogram=1 << 14,
    compared=1 << 14,
    places=1 << 14,
    symbols=1 << 14,
    exceptions=1 << 14,
    words=1 << 11,
    chunks=64,
    slots=1024,
    rows=64,
    columns=256,
    fit_rows=64,
    fit_columns=256,
)


def is_interpreted() -> bool:
    """Whether kernels run in Triton's interpreter, on tensors of the CPU: TRITON_INTERPRET=1 when they were imported."""
    return bool(triton.knobs.runtime.interpret)


class Launcher:
    """Of one device. launches: by kernel, since the start."""

    def __init__(self, device: torch.device, tiles: Tiles | None = None) -> None:
        """tiles: other than those for the device."""
        self.device = device
        self.tiles = tiles or (INTERPRETED if is_interpreted() else ON_GPU)
        self.launches: Counter[str] = Counter()

    def upload(self, array: npt.NDArray[Any]) -> torch.Tensor:
        """A copy on the device, of the bytes."""
        octets = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        return torch.from_numpy(octets.copy()).to(self.device)

    def room(self, size: int) -> torch.Tensor:
        """Uninitialised bytes on the device, aligned."""
        return torch.empty(size, dtype=torch.uint8, device=self.device)

    def zeros(self, count: int) -> torch.Tensor:
        """Numbers of 32 bits."""
        return torch.zeros(count, dtype=torch.int32, device=self.device)

    def launch(
        self,
        kernel: Any,
        rows: Sequence[Row],
        tiles: Iterable[int] | None = None,
        *,
        warps: int | None = None,
        **how: Any,
    ) -> None:
        """A program for each row of the table, and for each of so many tiles of it: the greatest of `tiles`.

        how: the kernel's other arguments. Of no rows nothing is launched.
        """
        if not rows:
            return
        table = self._table(rows)
        grid = (len(rows),) if tiles is None else (len(rows), max(tiles))
        self._start(kernel, grid, table, FIELDS=len(rows[0]), warps=warps, **how)

    def launch_chunks(self, kernel: Any, rows: Sequence[Row]) -> None:
        """For kernels of rANS: a program takes several rows."""
        if not rows:
            return
        chunks = self.tiles.chunks
        grid = (triton.cdiv(len(rows), chunks),)
        self._start(kernel, grid, self._table(rows), len(rows), FIELDS=len(rows[0]), CHUNKS=chunks)

    def _table(self, rows: Sequence[Row]) -> torch.Tensor:
        return self.upload(np.array(rows, dtype=np.int64)).view(torch.int64)

    def _start(self, kernel: Any, grid: tuple[int, ...], *arguments: Any, warps: int | None = None, **how: Any) -> None:
        self.launches[kernel.__name__] += 1
        if self.device.type == "cuda":
            with torch.cuda.device(self.device):
                kernel[grid](*arguments, num_warps=warps or self.tiles.warps, **how)
        else:
            kernel[grid](*arguments, **how)


def download(tensor: torch.Tensor, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """The bytes of a tensor as numbers on the host; waits for what is queued."""
    return tensor.contiguous().view(torch.uint8).cpu().numpy().view(kind)


def aligned(tensor: torch.Tensor) -> torch.Tensor:
    """Itself, or a copy that begins where the widest loads may."""
    return tensor if tensor.data_ptr() % ALIGNED_BYTES == 0 else tensor.clone()


def cdiv(amount: int, size: int) -> int:
    """Tiles of that size."""
    return -(-amount // size)


def padded(size: int) -> int:
    """Bytes to the next place that is aligned."""
    return cdiv(size, ALIGNED_BYTES) * ALIGNED_BYTES
