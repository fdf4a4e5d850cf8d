"""A frame on its way through the encoder, and what was chosen for it."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from ..container import REFERENCE_BYTES
from ..engines.payload import DESCRIPTOR_BYTES
from ..levels import HEAD_BYTES
from ..types import Layout, Mode, Predictor
from .interface import DeviceFrame
from .kernels.words import BASE_ONLY, LEVELS
from .launcher import aligned


@dataclass(frozen=True, slots=True, eq=False)
class DeviceLevels:
    """Levels and products that lie on the device. rows, columns: signed bytes, levels first, then each product's factors."""

    rows: torch.Tensor
    columns: torch.Tensor
    row_count: int
    column_count: int
    column: int
    products: int
    base: int

    @property
    def size(self) -> int:
        """Of both planes."""
        return (1 + self.products) * (self.row_count + self.column_count)


@dataclass(frozen=True, slots=True)
class Choice:
    """The mode of a plane. estimate: bytes. mask, value: of bits. first: of nibbles. is_whole: made from the whole plane."""

    mode: Mode
    estimate: int
    mask: int
    value: int
    first: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """What may be taken from a frame's elements. level_base: of predictor 1. base: number among those offered."""

    predictor: Predictor
    layout: Layout
    level_base: int = 0
    levels: DeviceLevels | None = None
    base: int | None = None

    @property
    def kernel(self) -> int:
        """What split and join are compiled for."""
        if self.predictor is Predictor.LEVELS:
            return int(LEVELS.value if self.levels is not None else BASE_ONLY.value)
        return self.predictor.value

    @property
    def head_bytes(self) -> int:
        """What the estimate of its payload has beside its planes."""
        if self.base is not None:
            return REFERENCE_BYTES
        if self.predictor is not Predictor.LEVELS:
            return 0
        return HEAD_BYTES + (self.levels.size + 2 * DESCRIPTOR_BYTES if self.levels is not None else 0)


@dataclass(slots=True)
class Job:
    """data, bases: aligned. copy: the base that the frame is, and its predictor. on_host: the host's engine codes it."""

    frame: DeviceFrame
    data: torch.Tensor
    bases: tuple[torch.Tensor, ...]
    copy: tuple[int, Predictor] | None = None
    on_host: bool = False
    candidate: Candidate | None = None
    choices: list[Choice] = field(default_factory=list)
    least: int | None = None

    @classmethod
    def of(cls, frame: DeviceFrame) -> Job:
        """Of a frame as it was given."""
        return cls(frame, aligned(frame.data), tuple(aligned(base.data) for base in frame.bases))

    @property
    def n(self) -> int:
        """Elements."""
        return self.data.numel() // self.frame.element.width

    def take(self, candidate: Candidate, choices: list[Choice]) -> None:
        """Where it is smaller than all before."""
        estimate = candidate.head_bytes + sum(DESCRIPTOR_BYTES + choice.estimate for choice in choices)
        if self.least is None or estimate < self.least:
            self.least, self.candidate, self.choices = estimate, candidate, choices
