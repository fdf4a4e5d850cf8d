"""Predictor, layout and modes of frames, from samples gathered on the device. Source: docs/format.md, sections 5.1 to 5.3.

The device makes histograms, at most three times; what they mean is decided by the native engine's own code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from .. import _native
from ..engines.payload import base_layout, base_predictors
from ..entropy import best_window
from ..types import ElementType, Layout, Level, Mode, Predictor
from .jobs import Candidate, Choice, DeviceLevels, Job
from .launcher import Launcher
from .level_fitting import LevelFits
from .splitting import count_planes, read_counts, sample_of, split

_Counts = npt.NDArray[np.uint32]
# Of a sample's planes, a row each, by job and candidate.
_Counted = dict[tuple[int, Candidate], _Counts]
_PLAIN: Final = Candidate(Predictor.NONE, Layout.ROTATED_1)


class SampleCounts:
    """Histograms of samples' planes, launched at once; read() waits."""

    def __init__(self, launcher: Launcher, work: Sequence[tuple[Job, Candidate]]) -> None:
        self._work = work
        planes = split(launcher, work, sampled=True)
        # The planes stay until the counts are there.
        self._planes = planes
        self._counts = count_planes(
            launcher,
            [(one.address(k), one.count) for one, (job, _) in zip(planes, work, strict=True) for k in _planes_of(job)],
        )

    def read(self) -> _Counted:
        """Waits for them."""
        counts, at, found = read_counts(self._counts), 0, {}
        for job, candidate in self._work:
            width = job.frame.element.width
            found[id(job), candidate] = counts[at : at + width]
            at += width
        return found


class Planner:
    """Of one batch. Begins with what needs nothing from the device first; plan() ends with a choice for every job."""

    def __init__(self, launcher: Launcher, jobs: Sequence[Job], level: Level) -> None:
        """jobs: of elements with a type. Nothing is waited for."""
        self._launcher, self._level = launcher, level
        self._fits = LevelFits(launcher, jobs, level)
        work = []
        for job in jobs:
            work.append((job, _first(job.frame.element)))
            work.extend((job, candidate) for candidate in _from_bases(job))
        self._counts = SampleCounts(launcher, work)

    def plan(self, jobs: Sequence[Job]) -> None:
        """For those of the jobs given before that still need one."""
        wanted = {id(job) for job in jobs}
        fitted = [(job, levels) for job, levels in self._fits.read() if id(job) in wanted]
        counted = self._counts.read()
        plain = {id(job): counted[id(job), _first(job.frame.element)][-1] for job in jobs}
        more = [(job, candidate) for job in jobs for candidate in self._base_only(job, plain[id(job)])]
        at_first = [(job, _with_levels(levels, levels.base, 0)) for job, levels in fitted]
        self._count([*more, *at_first], counted)
        moved = [
            (job, candidate)
            for (job, levels), (_, first) in zip(fitted, at_first, strict=True)
            for candidate in self._moved(job, levels, counted[id(job), first][-1])
        ]
        self._count(moved, counted)
        levelled = {id(job): [first] for job, first in at_first}
        for job, candidate in moved:
            levelled[id(job)].append(candidate)
        self._choose(jobs, more, levelled, counted)

    def _count(self, work: list[tuple[Job, Candidate]], counted: _Counted) -> None:
        if work:
            counted.update(SampleCounts(self._launcher, work).read())

    def _base_only(self, job: Job, tops: _Counts) -> list[Candidate]:
        """tops: counts of the top bytes after a rotation by one."""
        element = job.frame.element
        if not element.is_float:
            return []
        return [
            Candidate(Predictor.LEVELS, _layout(j), (256 * best_window(tops.astype(np.int64), 256 >> j)[0]) & 0xFFFF)
            for j in _exponent_bits_moved(element, self._level)
            if j > 0
        ]

    def _moved(self, job: Job, levels: DeviceLevels, tops: _Counts) -> list[Candidate]:
        """tops: the same, with the levels taken away."""
        moved = _exponent_bits_moved(job.frame.element, self._level)
        if levels.products and 0 in moved:
            moved = tuple(sorted({*moved, 2}))
        windows = ((j, best_window(tops.astype(np.int64), 256 >> j)[0]) for j in moved if j > 0)
        return [_with_levels(levels, levels.base + 256 * start & 0xFFFF, j) for j, start in windows]

    def _choose(
        self,
        jobs: Sequence[Job],
        more: Sequence[tuple[Job, Candidate]],
        levelled: dict[int, list[Candidate]],
        counted: _Counted,
    ) -> None:
        """The candidates in the order of the document."""
        order: list[tuple[Job, Candidate]] = []
        for job in jobs:
            moved = _exponent_bits_moved(job.frame.element, self._level)
            plain = [_first(job.frame.element)] if 0 in moved or not job.frame.element.is_float else []
            alone = [candidate for one, candidate in more if one is job]
            with_levels = levelled.get(id(job), [])
            candidates = [*plain, *alone, *(with_levels if 0 in moved else with_levels[1:]), *_from_bases(job)]
            order.extend((job, candidate) for candidate in candidates)
        chosen = choose_modes(
            [counts for job, candidate in order for counts in counted[id(job), candidate]],
            [job.n for job, _ in order for _ in _planes_of(job)],
            [sample_of(job.n)[1] == job.n for job, _ in order for _ in _planes_of(job)],
            self._level,
        )
        for job, candidate in order:
            width = job.frame.element.width
            job.take(candidate, chosen[:width])
            chosen = chosen[width:]


def choose_modes(counts: Sequence[_Counts], sizes: list[int], whole: Sequence[bool], level: Level) -> list[Choice]:
    """For planes of so many bytes. counts: of samples, or of all where `whole` says so."""
    if not counts:
        return []
    found = _native.choose_modes(np.stack(counts), sizes, level.value, False)
    return [
        Choice(Mode(mode), estimate, mask, value, first, is_whole)
        for (mode, estimate, mask, value, first), is_whole in zip(found, whole, strict=True)
    ]


def _first(element: ElementType) -> Candidate:
    return _PLAIN if element.is_float else replace(_PLAIN, layout=Layout.PLANES)


def _from_bases(job: Job) -> list[Candidate]:
    element = job.frame.element
    return [
        Candidate(predictor, base_layout(element, predictor), base=number)
        for number, base in enumerate(job.frame.bases)
        for predictor in base_predictors(element, base.kind)
    ]


def _with_levels(levels: DeviceLevels, base: int, j: int) -> Candidate:
    return Candidate(Predictor.LEVELS, _layout(j), base, levels)


def _exponent_bits_moved(element: ElementType, level: Level) -> tuple[int, ...]:
    """j: bits at the exponent's top that a rotation takes out of the last plane."""
    if level is Level.SMALL:
        return 0, 1, 2, 3
    return (3,) if level is Level.BALANCED and element is ElementType.F64 else (0,)


def _layout(j: int) -> Layout:
    return Layout(Layout.ROTATED_1 + j)


def _planes_of(job: Job) -> range:
    return range(job.frame.element.width)
