"""What an engine does: one frame's payload, there and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..container import REFERENCE_BYTES
from ..types import NO_GRID, Base, Buffer, ElementType, Grid, Layout, Level, Mode, Predictor


@dataclass(frozen=True, slots=True)
class EncodedPayload:
    """A frame's payload, and what its header must say of it. modes: one a plane; RAW layout: none.

    element: that of the frame, or BYTES. payload: without the reference to a base. base: which of those offered it needs.
    RAW layout with a predictor: the frame is what is predicted, and the payload empty.
    """

    element: ElementType
    predictor: Predictor
    layout: Layout
    modes: tuple[Mode, ...]
    payload: Buffer
    base: int | None = None

    @property
    def planes(self) -> int:
        """Number of planes."""
        return len(self.modes)

    @property
    def is_base(self) -> bool:
        """Whether the frame is just what its base predicts."""
        return self.layout is Layout.RAW and self.base is not None

    @property
    def stored_bytes(self) -> int:
        """Of the payload with the reference to a base."""
        return len(self.payload) + (0 if self.base is None else REFERENCE_BYTES)


class Engine(Protocol):
    """Stateless; called from many threads at once."""

    @property
    def name(self) -> str:
        """As in S4W_ENGINE."""
        ...

    def encode(
        self,
        data: Buffer,
        element: ElementType,
        *,
        grid: Grid = NO_GRID,
        level: Level = Level.BALANCED,
        bases: Sequence[Base] = (),
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
        base: Buffer | None = None,
    ) -> bytes:
        """base: the elements that the predictor needs, as many as the frame's. Raises: FormatError."""
        ...

    def decodes_to(self, coded: EncodedPayload, data: Buffer, base: Buffer | None = None) -> bool:
        """Whether a payload gives back just these bytes. Raises: FormatError."""
        ...


@dataclass(frozen=True, slots=True)
class DeviceCounts:
    """Of a device, since the start. frames: coded there. fallbacks: frames that were coded by the processor after a fault.

    off: why nothing is given to the device any more; empty while it is.
    """

    batches: int = 0
    frames: int = 0
    logical_bytes: int = 0
    faults: int = 0
    fallbacks: int = 0
    off: str = ""


@runtime_checkable
class DeviceEngine(Engine, Protocol):
    """One that works on a device, in batches: it needs many threads that each wait for their frame, and it may err."""

    least_bytes: int
    """Shorter frames are the processor's."""

    @property
    def frames_at_once(self) -> int:
        """So many frames under way keep the device busy."""
        ...

    @property
    def counts(self) -> DeviceCounts:
        """As they are now."""
        ...

    @property
    def second(self) -> Engine:
        """Asked where what this one decoded has not the hash that was written."""
        ...

    def was_wrong(self) -> None:
        """`second` decoded to the right bytes, this one did not."""
        ...
