"""Predictor, layout and modes of a frame, chosen by a sample of its elements. Source: docs/format.md, sections 5.1 and 5.2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from .. import levels, prediction
from ..container import REFERENCE_BYTES
from ..entropy import Sample, best_window, histogram
from ..levels import Levels, Numbers
from ..planes import split_planes
from ..types import Base, Buffer, ElementType, Grid, Layout, Level, Predictor
from .payload import DESCRIPTOR_BYTES, base_layout, base_predictors
from .plane_modes import Choice, Effort, choose_mode, effort_on_base

_SAMPLE_ALL: Final = 16_384
_RUN: Final = 128
# So many runs are looked at, each at another place of its share.
_RUNS: Final = 32
_SHIFT: Final = 13

_MOST_PRODUCTS: Final = {Level.BALANCED: 4, Level.SMALL: 8}


@dataclass(frozen=True, slots=True)
class Plan:
    """levels: of predictor 1 only. choices: one a plane. base: number among those offered."""

    levels: Levels | None
    layout: Layout
    choices: tuple[Choice, ...]
    predictor: Predictor = Predictor.NONE
    base: int | None = None

    @property
    def estimate(self) -> int:
        """Bytes of the payload."""
        planes = sum(DESCRIPTOR_BYTES + choice.estimate for choice in self.choices)
        if self.base is not None:
            return planes + REFERENCE_BYTES
        if self.levels is None:
            return planes
        grid_bytes = self.levels.rows.size + self.levels.columns.size + 2 * DESCRIPTOR_BYTES
        return planes + levels.HEAD_BYTES + (grid_bytes if self.levels.grid.columns else 0)


def make_plan(data: Buffer, element: ElementType, grid: Grid, effort: Effort, bases: Sequence[Base] = ()) -> Plan:
    """The plan with the smallest estimate, the first of equals. data: n elements with a type."""
    n = len(data) // element.width
    index = sample_index(n)
    sample = np.frombuffer(data, dtype=f"<u{element.width}")[index].tobytes()
    plans = []
    for used, layout in _candidates(data, element, grid, effort.level, sample, index):
        shifted = sample if used is None else levels.subtract(sample, element, used.predict(element, index))
        predictor = Predictor.NONE if used is None else Predictor.LEVELS
        plans.append(Plan(used, layout, _choices(shifted, element, layout, n, effort), predictor))
    for number, base in enumerate(bases):
        width = base.kind.base_bytes(element.width)
        base_sample = np.frombuffer(base.data, dtype=f"<u{width}")[index].tobytes()
        for predictor in base_predictors(element, base.kind):
            rest = prediction.subtract(sample, element, predictor, base_sample)
            layout = base_layout(element, predictor)
            choices = _choices(rest, element, layout, n, effort_on_base(effort))
            plans.append(Plan(None, layout, choices, predictor, number))
    return min(plans, key=lambda plan: plan.estimate)


def _choices(rest: bytes, element: ElementType, layout: Layout, n: int, effort: Effort) -> tuple[Choice, ...]:
    """rest: of the sample's elements, of n."""
    return tuple(choose_mode(Sample(histogram(plane), n), effort) for plane in split_planes(rest, element, layout))


def sample_index(n: int) -> Numbers:
    """Numbers of the elements that are looked at, of n."""
    if n <= _SAMPLE_ALL:
        return np.arange(n)
    stride = max(1, n // _RUN // _RUNS)
    group = np.arange(n // _RUN // stride + 1)
    run = stride * group + _SHIFT * group % stride
    run = run[run < n // _RUN]
    return (run[:, np.newaxis] * _RUN + np.arange(_RUN)).reshape(-1)


def _candidates(
    data: Buffer, element: ElementType, grid: Grid, level: Level, sample: bytes, index: Numbers
) -> Iterator[tuple[Levels | None, Layout]]:
    if not element.is_float:
        yield None, Layout.PLANES
        return
    moved = _exponent_bits_moved(element, level)
    if 0 in moved:
        yield None, _layout(0)
    if level is Level.FAST:
        return
    top = levels.top_words(sample, element)
    for j in moved:
        if j > 0:
            yield _moved(Levels(0), element, top, index, j), _layout(j)
    fitted = levels.fit(data, element, grid, _MOST_PRODUCTS[level])
    if fitted is not None:
        if fitted.products and 0 in moved:
            moved = tuple(sorted({*moved, 2}))
        for j in moved:
            yield _moved(fitted, element, top, index, j), _layout(j)


def _exponent_bits_moved(element: ElementType, level: Level) -> tuple[int, ...]:
    """j: bits at the exponent's top that a rotation takes out of the last plane."""
    if level is Level.SMALL:
        return 0, 1, 2, 3
    return (3,) if level is Level.BALANCED and element is ElementType.F64 else (0,)


def _layout(j: int) -> Layout:
    return Layout(Layout.ROTATED_1 + j)


def _moved(used: Levels, element: ElementType, top: Numbers, index: Numbers, j: int) -> Levels:
    """With a base at which the exponent's top j bits are seldom set. top, index: of the sample."""
    if j == 0:
        return used
    octets = (top - used.predict(element, index) & 0xFFFF) >> 8
    start, _ = best_window(np.bincount(octets, minlength=256), 1 << (8 - j))
    return replace(used, base=(used.base + 256 * start) & 0xFFFF)
