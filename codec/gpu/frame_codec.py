"""The codec of a device with Triton: encode, decode and compare batches of frames. Source of the choices: docs/adr/0014."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ..types import Level
from .comparing import Comparisons
from .decoder import Decoder
from .encoder import Encoder
from .interface import CodedBatch, DeviceFrame, StoredFrame
from .launcher import Launcher, Tiles


class TritonFrameCodec:
    """See FrameCodec. One thread at a time; other devices have codecs of their own."""

    def __init__(self, device: torch.device, tiles: Tiles | None = None) -> None:
        """tiles: other than those for the device, in tests."""
        self._launcher = Launcher(device, tiles)
        self._encoder = Encoder(self._launcher)
        self._decoder = Decoder(self._launcher)

    @property
    def launches(self) -> Mapping[str, int]:
        """Kernels launched since the start, by name."""
        return self._launcher.launches

    @property
    def host_frames(self) -> int:
        """Frames that were coded or decoded on the host: bytes without a type, integers above `fast`, floats that repeat."""
        return self._encoder.host_frames + self._decoder.host_frames

    @property
    def host_planes(self) -> int:
        """Planes of other frames that were decoded on the host: Huffman and GDeflate."""
        return self._decoder.host_planes

    def encode(self, frames: Sequence[DeviceFrame], level: Level) -> CodedBatch:
        """See FrameCodec."""
        return self._encoder.encode(frames, level)

    def decode(self, frames: Sequence[StoredFrame], out: Sequence[torch.Tensor]) -> None:
        """See FrameCodec."""
        self._decoder.decode(frames, out)

    def equal(self, left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> list[bool]:
        """See FrameCodec."""
        comparisons = Comparisons(self._launcher)
        for one, other in zip(left, right, strict=True):
            if one.numel() != other.numel():
                raise ValueError(f"equal: expected pairs of one length, found {one.numel()} and {other.numel()}")
            comparisons.add(one, other)
        comparisons.launch()
        return comparisons.read()
