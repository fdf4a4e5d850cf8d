"""Batches of frames to payloads, on the device. Source: docs/format.md, section 5.

The host waits for the device a bounded number of times a batch, however many frames there are: for the samples' histograms
(once, again where levels are tried, and again where they are moved), for whole histograms, for exceptions, and for the chunks'
lengths; the last three once more where a plane is not what its sample promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch

from .. import _native
from ..container import REFERENCE_BYTES
from ..engines import EncodedPayload, NativeEngine
from ..engines.payload import base_predictors, join_descriptors
from ..levels import Head
from ..types import NO_GRID, Base, ElementType, Grid, Layout, Level, Mode, Predictor, Reference
from .assembling import Payload, assemble
from .comparing import Comparisons, Repeats
from .interface import CodedBatch, CodedFrame, DeviceFrame
from .jobs import Candidate, Choice, DeviceLevels, Job
from .launcher import Launcher
from .plane_coding import PlaneCoder, PlaneJob
from .planning import Planner
from .splitting import split

_FEWEST_FOR_RANS_LEVELS: Final = 1024
_RANS: Final = Choice(Mode.RANS, 0, 0, 0, 0, True)
_RAW: Final = Choice(Mode.RAW, 0, 0, 0, 0, True)
_NOWHERE: Final = Reference(0, 0)


class Encoder:
    """host_frames: those that the host's engine coded, from bytes that were downloaded."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._host = NativeEngine(huffman=False)
        self.host_frames = 0

    def encode(self, frames: Sequence[DeviceFrame], level: Level) -> CodedBatch:
        """See FrameCodec."""
        jobs = [Job.of(frame) for frame in frames]
        for job in jobs:
            job.on_host = _is_for_host(job.frame.element, level)
        planned = [job for job in jobs if not job.on_host]
        copies = Comparisons(self._launcher)
        offered = [(job, *copy) for job in jobs for copy in _copies(job)]
        for job, number, predictor in offered:
            copies.add(job.data, job.bases[number], narrowed=predictor is Predictor.NARROWED)
        copies.launch()
        repeats = Repeats(self._launcher, [job.data for job in planned if _may_repeat(job, level)])
        planner = Planner(self._launcher, planned, level)
        for (job, number, predictor), same in zip(offered, copies.read(), strict=True):
            if same and job.copy is None:
                job.copy = number, predictor
        for job, repeated in zip([job for job in planned if _may_repeat(job, level)], repeats.read(), strict=True):
            job.on_host = repeated
        here = [job for job in planned if job.copy is None and not job.on_host]
        planner.plan(here)
        coded = self._code(here, level)
        for job in jobs:
            if job.on_host and job.copy is None:
                coded[id(job)] = self._code_on_host(job, level)
        return self._finish(jobs, coded)

    def _code(self, jobs: Sequence[Job], level: Level) -> dict[int, _Coded]:
        """What every job became, by its id."""
        work = [(job, _candidate_of(job)) for job in jobs]
        coder = PlaneCoder(self._launcher, level)
        frames = []
        for (job, candidate), split_planes in zip(work, split(self._launcher, work, sampled=False), strict=True):
            planes = [
                PlaneJob(split_planes.address(k), job.n, choice, keep=split_planes.data)
                for k, choice in enumerate(job.choices)
            ]
            frames.append((job, candidate, _level_planes(candidate.levels), planes))
        _choose_level_planes(coder, [of_levels for _, _, of_levels, _ in frames if of_levels])
        coder.encode([one for _, _, of_levels, planes in frames for one in (*of_levels, *planes)])
        return {
            id(job): _joined(job, candidate, of_levels, planes, coder) for job, candidate, of_levels, planes in frames
        }

    def _code_on_host(self, job: Job, level: Level) -> _Coded:
        self.host_frames += 1
        frame = job.frame
        bases = [
            Base(_NOWHERE, base.kind, _downloaded(data)) for base, data in zip(frame.bases, job.bases, strict=True)
        ]
        coded = self._host.encode(_downloaded(job.data), frame.element, grid=frame.grid, level=level, bases=bases)
        if coded.layout is Layout.RAW:
            return coded, Payload(b"")
        return coded, Payload(bytes(coded.payload))

    def _finish(self, jobs: Sequence[Job], coded: dict[int, _Coded]) -> CodedBatch:
        found = []
        for job in jobs:
            if job.copy is not None:
                number, predictor = job.copy
                element = job.frame.element
                found.append((EncodedPayload(element, predictor, Layout.RAW, (), b"", number), Payload(b"")))
            else:
                found.append(coded[id(job)])
        out, starts = assemble(self._launcher, [payload for _, payload in found])
        frames = tuple(
            CodedFrame(one.element, one.predictor, one.layout, one.modes, one.base, start, payload.stored_bytes)
            for (one, payload), start in zip(found, starts, strict=True)
        )
        return CodedBatch(frames, out)


# What a header says, its payload left out, and the payload.
_Coded = tuple[EncodedPayload, Payload]


def _is_for_host(element: ElementType, level: Level) -> bool:
    """Whether zstd is tried on all of a frame, of which there is none here."""
    return element is ElementType.BYTES or (not element.is_float and level is not Level.FAST)


def _may_repeat(job: Job, level: Level) -> bool:
    return job.frame.element.is_float and level is not Level.FAST


def _copies(job: Job) -> list[tuple[int, Predictor]]:
    """The bases that a frame may be, in order."""
    if job.data.numel() <= REFERENCE_BYTES:
        return []
    return [
        (number, predictor)
        for number, base in enumerate(job.frame.bases)
        for predictor in base_predictors(job.frame.element, base.kind)
        if predictor.is_frame
    ]


def _candidate_of(job: Job) -> Candidate:
    assert job.candidate is not None
    return job.candidate


def _level_planes(levels: DeviceLevels | None) -> list[PlaneJob]:
    if levels is None:
        return []
    sizes = [(1 + levels.products) * count for count in (levels.row_count, levels.column_count)]
    return [
        PlaneJob(one.data_ptr(), size, _RAW, keep=one)
        for one, size in zip((levels.rows, levels.columns), sizes, strict=True)
    ]


def _choose_level_planes(coder: PlaneCoder, pairs: Sequence[list[PlaneJob]]) -> None:
    """Constant, rANS or raw; of one value only what is to be rANS becomes constant."""
    planes = [one for pair in pairs for one in pair]
    if not planes:
        return
    coder.count(planes)
    promises = _native.promise_rans(np.stack([one.counts for one in planes if one.counts is not None]))
    for pair in pairs:
        may_code = min(one.n for one in pair) >= _FEWEST_FOR_RANS_LEVELS
        for one in pair:
            promised = promises.pop(0)
            is_constant = one.counts is not None and np.count_nonzero(one.counts) == 1
            if is_constant or (may_code and promised <= 15 * one.n // 16):
                one.choice = _RANS


def _joined(
    job: Job, candidate: Candidate, of_levels: list[PlaneJob], planes: list[PlaneJob], coder: PlaneCoder
) -> _Coded:
    head = b""
    if candidate.predictor is Predictor.LEVELS:
        levels = candidate.levels
        grid = NO_GRID if levels is None else Grid(levels.column_count, levels.column)
        head = Head(candidate.level_base, grid, 0 if levels is None else levels.products).pack()
    every = [*of_levels, *planes]
    payload = Payload(head + join_descriptors((one.mode, one.stored_bytes) for one in every), every, coder)
    element = job.frame.element
    reference_bytes = 0 if candidate.base is None else REFERENCE_BYTES
    if payload.stored_bytes + reference_bytes >= job.data.numel():
        return EncodedPayload(element, Predictor.NONE, Layout.RAW, (), b""), Payload(b"")
    modes = tuple(one.mode for one in planes)
    return EncodedPayload(element, candidate.predictor, candidate.layout, modes, b"", candidate.base), payload


def _downloaded(data: torch.Tensor) -> bytes:
    return bytes(data.cpu().numpy().tobytes())
