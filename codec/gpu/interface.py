"""What the pipeline asks of a device's codec: batches of frames that lie on the device, there and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from ..types import NO_GRID, BaseKind, ElementType, Grid, Layout, Level, Mode, Predictor


@dataclass(frozen=True, slots=True)
class DeviceBase:
    """Elements that a frame may be predicted from, as many as the frame has.

    data: uint8, 1-D, contiguous, on the frame's device; read only.
    """

    kind: BaseKind
    data: torch.Tensor


@dataclass(frozen=True, slots=True)
class DeviceFrame:
    """A frame to be encoded. data: uint8, 1-D, contiguous, on the device; at least one whole element; read only.

    Tensors that begin at a multiple of 16 bytes are read where they lie, others are copied first.
    bases: offered, in order; each of a kind that fits the element.
    """

    data: torch.Tensor
    element: ElementType
    grid: Grid = NO_GRID
    bases: tuple[DeviceBase, ...] = ()


@dataclass(frozen=True, slots=True)
class CodedFrame:
    """On the host: what a frame header must say. modes: one a plane; RAW layout: none.

    element: that of the frame, or BYTES. base: number among those offered. offset, stored_bytes: of its payload in
    CodedBatch.payload, without the reference to a base. Layout RAW: stored_bytes 0; without a base the payload is the frame
    itself, which the caller has or downloads; with a base the frame is what that predicts.
    """

    element: ElementType
    predictor: Predictor
    layout: Layout
    modes: tuple[Mode, ...]
    base: int | None
    offset: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class CodedBatch:
    """frames: in the order given. payload: uint8, 1-D, on the device, compacted: payload k at [offset, offset + stored_bytes).

    The payloads lie in the order of the frames, without gaps, and fill the tensor. It is the caller's, and nothing writes to it
    any more; on a GPU it is complete in the order of the stream that was current when encode was called.
    """

    frames: tuple[CodedFrame, ...]
    payload: torch.Tensor


@dataclass(frozen=True, slots=True)
class StoredFrame:
    """A frame to be decoded. payload: uint8, 1-D, contiguous, on the device, any alignment, without the reference to a base.

    The others as the frame header has them. Layout RAW only with a base, and then the payload is empty. base: where the
    predictor needs one, the elements that it needs, uint8, 1-D, contiguous, on the device.
    """

    payload: torch.Tensor
    element: ElementType
    predictor: Predictor
    layout: Layout
    planes: int
    logical_bytes: int
    base: torch.Tensor | None = None


class FrameCodec(Protocol):
    """Of one device. One call at a time: one thread a device works with it.

    All work is queued on the stream that is current on the device; calls return when the host knows their result, so they wait
    for that stream. What was given must stay as it is until then.
    """

    def encode(self, frames: Sequence[DeviceFrame], level: Level) -> CodedBatch:
        """The payloads are those of NativeEngine(huffman=False), byte for byte: frame, grid, level and bases being the same."""
        ...

    def decode(self, frames: Sequence[StoredFrame], out: Sequence[torch.Tensor]) -> None:
        """out: for every frame uint8, 1-D, contiguous, of logical_bytes, on the device; undefined after an error.

        Payloads are not trusted: nothing outside of the tensors given is read or written, whatever they hold. Every mode of
        the format is decoded. Raises: FormatError.
        """
        ...

    def equal(self, left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> list[bool]:
        """Whether each pair holds the same bytes; of one length each. The verification, on the device."""
        ...
