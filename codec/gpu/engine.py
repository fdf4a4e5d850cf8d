"""The engine on a device: frames from many threads are gathered into batches; what the device cannot do, the processor does.

Source: docs/adr/0015-batches-behind-the-engine.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

import torch

from ..engines.interface import DeviceCounts, EncodedPayload, Engine
from ..engines.native import NativeEngine
from ..engines.payload import check_base, check_layout, read_planes
from ..errors import FormatError
from ..limits import FRAME_BYTES, GPU_GATHER_S, GPU_PATIENCE_S, MIN_GPU_FRAME_BYTES
from ..types import NO_GRID, Base, Buffer, ElementType, Grid, Layout, Level, Mode, Predictor
from .ans_planes import has_ans, open_planes
from .device import Device
from .encode_batch import CheckedPayload
from .frame_jobs import DecodeJob, EncodeJob, Job
from .health import Health
from .nvcomp import PageCoder
from .pipeline import Pipeline
from .plane_stage import PlaneStage
from .slots import RingSize

_T = TypeVar("_T")
# Read by the processor's own decoders: a device gains nothing by them, or trusts what it reads.
_HOST_MODES: Final = frozenset({Mode.GDEFLATE, Mode.ZSTD})


class GpuEngine:
    """See Engine and DeviceEngine. Every frame has the same bytes whether the device or the processor made them."""

    name = "gpu"

    def __init__(
        self,
        device: Device,
        size: RingSize | None = None,
        *,
        entropy: str = "open",
        patience_s: float = GPU_PATIENCE_S,
        gather_s: float = GPU_GATHER_S,
    ) -> None:
        """entropy: see ENTROPIES. patience_s: a device that does not answer for so long is given up."""
        size = size or RingSize.within()
        self.device = device
        # One batch on the device, and another that is gathered.
        self.frames_at_once = 2 * size.batch_bytes // FRAME_BYTES
        # Shorter frames are the processor's.
        self.least_bytes = MIN_GPU_FRAME_BYTES
        self.health = Health(device.name)
        self._patience_s = patience_s
        self._pipeline = Pipeline(
            device, size, self.health, gather_s=gather_s, make_stage=partial(_make_stage, entropy)
        )
        self._native = NativeEngine(huffman=False)

    @property
    def counts(self) -> DeviceCounts:
        """See DeviceEngine."""
        return self.health.counts

    @property
    def second(self) -> Engine:
        """See DeviceEngine."""
        return self._native

    def was_wrong(self) -> None:
        """See DeviceEngine."""
        self.health.was_wrong()

    def close(self) -> None:
        """End its thread. Later frames are the processor's."""
        self.health.close()
        self._pipeline.close()

    def encode(
        self,
        data: Buffer,
        element: ElementType,
        *,
        grid: Grid = NO_GRID,
        level: Level = Level.BALANCED,
        bases: Sequence[Base] = (),
    ) -> EncodedPayload:
        """See Engine."""
        return self.encode_resident(data, element, grid, level, bases, None)

    def decode(
        self,
        payload: Buffer,
        element: ElementType,
        predictor: Predictor,
        layout: Layout,
        planes: int,
        logical_bytes: int,
        base: Buffer | None = None,
    ) -> bytes:
        """See Engine."""
        return self.decode_job(DecodeJob(payload, element, predictor, layout, planes, logical_bytes, base))

    def decodes_to(self, coded: EncodedPayload, data: Buffer, base: Buffer | None = None) -> bool:
        """See Engine. What the device has compared is not decoded once more."""
        if isinstance(coded, CheckedPayload) and coded.checked is data:
            return True
        if Mode.NVCOMP_ANS in coded.modes:
            decoded = self.decode(
                coded.payload, coded.element, coded.predictor, coded.layout, coded.planes, len(data), base
            )
            return decoded == data
        return self._native.decodes_to(coded, data, base)

    def encode_resident(
        self,
        data: Buffer,
        element: ElementType,
        grid: Grid,
        level: Level,
        bases: Sequence[Base],
        resident: torch.Tensor | None,
    ) -> EncodedPayload:
        """encode. resident: a tensor with the same bytes on the device (uint8, 1-D, contiguous), so that none go up.

        Where it has other bytes by now, those of data are what is coded, by the processor.
        """
        if element is not ElementType.BYTES and len(data) >= self.least_bytes:
            job = EncodeJob(data, element, grid, level, tuple(bases), resident)
            coded = self._outcome(job, job.done)
            if coded is not None:
                return coded
        return self._native.encode(data, element, grid=grid, level=level, bases=bases)

    def decode_job(self, job: DecodeJob) -> bytes:
        """decode; what the job wants on the device is there when it returns."""
        check_layout(job.element, job.predictor, job.layout, job.planes, job.logical_bytes)
        check_base(job.predictor, job.logical_bytes, job.base)
        if job.predictor is not Predictor.LEVELS and has_ans(job.payload, job.planes):
            n = job.logical_bytes // job.element.width
            job = replace(job, payload=open_planes(job.payload, job.planes, n, self.device.place))
        found = self._outcome(job, job.done) if self._is_for_device(job) else None
        if found is not None and found.body:
            if job.out is not None and found.made is not None:
                job.out.copy_(found.made)
                # What was made is of another stream, whose allocator may give it away as soon as it is let go.
                self.device.arrived().wait()
            return found.body
        body = self.decode_natively(job)
        if found is not None:
            self.was_wrong()
        return body

    def decode_natively(self, job: DecodeJob) -> bytes:
        """decode_job by the processor."""
        body = self._native.decode(
            job.payload, job.element, job.predictor, job.layout, job.planes, job.logical_bytes, job.base
        )
        if job.out is not None:
            job.out.copy_(torch.frombuffer(bytearray(body), dtype=torch.uint8))
        return body

    def _is_for_device(self, job: DecodeJob) -> bool:
        """Whether a payload is worth the way, and all of it in modes that the device decodes."""
        if job.element is ElementType.BYTES or job.logical_bytes < self.least_bytes:
            return False
        if job.layout is Layout.RAW or job.predictor is Predictor.LEVELS:
            return True
        try:
            return not _HOST_MODES & {mode for mode, _ in read_planes(job.payload, job.planes)}
        except FormatError:
            return False

    def _outcome(self, job: Job, done: Future[_T]) -> _T | None:
        if not self._pipeline.submit(job):
            return None
        try:
            return done.result(self._patience_s)
        except FutureTimeout:
            self.health.switch_off(f"no answer for {self._patience_s:g} s")
            self._pipeline.abandon()
            return None


def _make_stage(entropy: str) -> PlaneStage | None:
    if entropy == "gdeflate":
        return PlaneStage(Mode.GDEFLATE, PageCoder("GDeflate"))
    return PlaneStage(Mode.NVCOMP_ANS, PageCoder("ANS")) if entropy == "nvcomp-ans" else None
