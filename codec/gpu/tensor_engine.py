"""The engine for one frame that is a tensor on its device: encoded from there, decoded to there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..engines.interface import DeviceCounts, EncodedPayload, Engine
from ..types import NO_GRID, Base, Buffer, ElementType, Grid, Layout, Level, Predictor
from .engine import GpuEngine
from .frame_jobs import DecodeJob


@dataclass(slots=True)
class TensorEngine:
    """See Engine and DeviceEngine. tensor: uint8, 1-D, contiguous, the frame's bytes.

    A device that was given up may still read it, but only the thread that decodes writes to it.

    natively: by the processor, which copies what it decodes to the tensor. is_filled: whether it was asked to decode at all;
    a frame that is stored raw is not.
    """

    engine: GpuEngine
    tensor: torch.Tensor
    natively: bool = False
    is_filled: bool = False
    least_bytes: int = 0

    @property
    def name(self) -> str:
        """See Engine."""
        return self.engine.name

    @property
    def second(self) -> Engine:
        """See DeviceEngine."""
        return TensorEngine(self.engine, self.tensor, natively=True)

    @property
    def frames_at_once(self) -> int:
        """See DeviceEngine."""
        return self.engine.frames_at_once

    @property
    def counts(self) -> DeviceCounts:
        """See DeviceEngine."""
        return self.engine.counts

    def was_wrong(self) -> None:
        """See DeviceEngine."""
        self.engine.was_wrong()

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
        return self.engine.encode_resident(data, element, grid, level, bases, self.tensor)

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
        self.is_filled = True
        job = DecodeJob(payload, element, predictor, layout, planes, logical_bytes, base, self.tensor)
        return self.engine.decode_natively(job) if self.natively else self.engine.decode_job(job)

    def decodes_to(self, coded: EncodedPayload, data: Buffer, base: Buffer | None = None) -> bool:
        """See Engine."""
        return self.engine.decodes_to(coded, data, base)
