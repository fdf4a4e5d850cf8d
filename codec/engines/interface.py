"""What an engine does: one frame's payload, there and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..types import NO_GRID, Buffer, ElementType, Grid, Layout, Level, Mode, Predictor


@dataclass(frozen=True, slots=True)
class EncodedPayload:
    """A frame's payload, and what its header must say of it. modes: one a plane; RAW layout: none.

    element: that of the frame, or BYTES.
    """

    element: ElementType
    predictor: Predictor
    layout: Layout
    modes: tuple[Mode, ...]
    payload: Buffer

    @property
    def planes(self) -> int:
        """Number of planes."""
        return len(self.modes)


class Engine(Protocol):
    """Stateless; called from many threads at once."""

    @property
    def name(self) -> str:
        """As in S4W_ENGINE."""
        ...

    def encode(
        self, data: Buffer, element: ElementType, *, grid: Grid = NO_GRID, level: Level = Level.BALANCED
    ) -> EncodedPayload:
        """data: at least one whole element. Layout RAW where nothing is smaller."""
        ...

    def decode(
        self,
        payload: Buffer,
        element: ElementType,
        predictor: Predictor,
        layout: Layout,
        planes: int,
        logical_bytes: int,
    ) -> bytes:
        """Raises: FormatError."""
        ...

    def decodes_to(self, coded: EncodedPayload, data: Buffer) -> bool:
        """Whether a payload with planes gives back just these bytes. Raises: FormatError."""
        ...
