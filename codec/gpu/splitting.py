"""Elements to planes, of samples and of whole frames: one launch for each width and predictor that occurs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from ..types import BaseKind, ElementType
from .jobs import Candidate, Job
from .kernels.histogram import FIELDS as HISTOGRAM_FIELDS
from .kernels.histogram import histogram_kernel
from .kernels.planes import join_kernel, split_kernel
from .launcher import Launcher, Row, cdiv, download, padded

# Source: docs/format.md, section 5.1.
_SAMPLE_ALL: Final = 16_384
_RUN: Final = 128
_RUNS: Final = 32
_SHIFT: Final = 13

COUNTS: Final = 256


@dataclass(frozen=True, slots=True)
class Planes:
    """Of one frame, one after another. stride: bytes from one to the next. count: bytes of each."""

    data: torch.Tensor
    stride: int
    count: int

    def address(self, k: int) -> int:
        """Of plane k."""
        return self.data.data_ptr() + k * self.stride


@lru_cache(maxsize=1024)
def sample_of(n: int) -> tuple[int, int]:
    """(stride of the runs, elements) of the sample of n elements; stride 0: all of them."""
    if n <= _SAMPLE_ALL:
        return 0, n
    runs = n // _RUN
    stride = max(1, runs // _RUNS)
    group = np.arange(runs // stride + 1)
    return stride, int((stride * group + _SHIFT * group % stride < runs).sum()) * _RUN


def split(launcher: Launcher, work: Sequence[tuple[Job, Candidate]], *, sampled: bool) -> list[Planes]:
    """The planes of every frame, or of its sample, as the candidate makes them."""
    rows: dict[tuple[int, int, int], list[Row]] = defaultdict(list)
    sizes = [sample_of(job.n) if sampled else (0, job.n) for job, _ in work]
    strides = [padded(count) for _, count in sizes]
    room = launcher.room(sum(s * job.frame.element.width for s, (job, _) in zip(strides, work, strict=True)))
    found, at = [], 0
    for (job, candidate), (sample_stride, count), stride in zip(work, sizes, strides, strict=True):
        element = job.frame.element
        planes = Planes(room[at : at + stride * element.width], stride, count)
        at += stride * element.width
        found.append(planes)
        base = None if candidate.base is None else job.bases[candidate.base]
        rows[kinds_of(candidate, element)].append(
            plane_row(job.data, element, candidate, planes, base, sample_stride=sample_stride)
        )
    _launch(launcher, split_kernel, rows)
    return found


def join(launcher: Launcher, rows: dict[tuple[int, int, int], list[Row]]) -> None:
    """The inverse. rows: plane_row by kinds_of."""
    _launch(launcher, join_kernel, rows)


def kinds_of(candidate: Candidate, element: ElementType) -> tuple[int, int, int]:
    """What a kernel is compiled for: width, width of the base's elements, predictor."""
    needs_base = candidate.predictor.needs_base
    kind = candidate.predictor.base_kind if needs_base else BaseKind.SAME
    return element.width, kind.base_bytes(element.width), candidate.kernel


def plane_row(
    data: torch.Tensor,
    element: ElementType,
    candidate: Candidate,
    planes: Planes,
    base: torch.Tensor | None,
    *,
    sample_stride: int = 0,
) -> Row:
    """For the kernels of planes."""
    levels = candidate.levels
    return (
        data.data_ptr(),
        0 if base is None else base.data_ptr(),
        planes.count,
        sample_stride,
        planes.address(0),
        planes.stride,
        candidate.layout.rotation,
        element.octave_bits,
        0 if levels is None else levels.rows.data_ptr(),
        0 if levels is None else levels.columns.data_ptr(),
        0 if levels is None else levels.row_count,
        1 if levels is None else levels.column_count,
        0 if levels is None else levels.column,
        candidate.level_base,
        0 if levels is None else levels.products,
    )


def count_planes(launcher: Launcher, planes: Sequence[tuple[int, int]]) -> torch.Tensor:
    """Histograms, 256 numbers of 32 bits each, still on the device. planes: address and bytes of each."""
    counts = launcher.zeros(COUNTS * len(planes))
    rows = [(at, n, counts.data_ptr() + 4 * COUNTS * i) for i, (at, n) in enumerate(planes)]
    assert not rows or len(rows[0]) == len(HISTOGRAM_FIELDS)
    tile = launcher.tiles.histogram
    launcher.launch(histogram_kernel, rows, (cdiv(n, tile) for _, n in planes), TILE=tile)
    return counts


def read_counts(counts: torch.Tensor) -> npt.NDArray[np.uint32]:
    """Histograms on the host, a row each; waits for them."""
    found: npt.NDArray[np.uint32] = download(counts, np.uint32).reshape(-1, COUNTS)
    return found


def _launch(launcher: Launcher, kernel: Any, rows: dict[tuple[int, int, int], list[Row]]) -> None:
    tile = launcher.tiles.elements
    for (width, base_width, predictor), some in rows.items():
        counts = (cdiv(row[2], tile) for row in some)
        launcher.launch(kernel, some, counts, WIDTH=width, BASE_WIDTH=base_width, PREDICTOR=predictor, TILE=tile)
