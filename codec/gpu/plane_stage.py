"""Planes coded once more by nvCOMP, after the kernels: GDeflate where it gains, ANS where the user wants it.

Frames that it changes are verified as any that no device has verified: by the processor's own decoder, before they count.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch

from ..container import REFERENCE_BYTES
from ..engines.payload import DESCRIPTOR_BYTES
from ..types import ElementType, Layout, Mode, Predictor
from .interface import CodedBatch, CodedFrame, DeviceFrame
from .nvcomp import PAGE_BYTES, PageCoder
from .split import split_planes

_DESCRIPTOR: Final = struct.Struct("<B3xI")
# Pages of a plane that are looked at: its first, one in the middle, its last.
_SAMPLE_PAGES: Final = 3
# GDeflate is the slower one to read: it must gain a 64th of the plane.
_LEAST_GAIN_SHARE: Final = 64


@dataclass(slots=True)
class _Plane:
    """One plane of a frame: its bytes, how it is stored now, and what it may become."""

    frame: int
    number: int
    octets: torch.Tensor
    mode: Mode
    start: int | None  # in the batch's payload; None: it is not there, for its frame is stored raw
    stored_bytes: int
    coded: torch.Tensor | None = None

    @property
    def pages(self) -> list[torch.Tensor]:
        return [self.octets[at : at + PAGE_BYTES] for at in range(0, self.octets.numel(), PAGE_BYTES)]

    @property
    def sample(self) -> list[torch.Tensor]:
        pages = self.pages
        return [pages[at] for at in sorted({0, len(pages) // 2, len(pages) - 1})][:_SAMPLE_PAGES]


class PlaneStage:
    """mode: GDEFLATE or NVCOMP_ANS. For one thread."""

    def __init__(self, mode: Mode, coder: PageCoder) -> None:
        self._mode = mode
        self._coder = coder

    def improve(self, frames: Sequence[DeviceFrame], batch: CodedBatch) -> tuple[CodedBatch, frozenset[int]]:
        """The batch with the planes that gain, and the numbers of the frames that have some."""
        planes = list(self._candidates(frames, batch))
        wanted = self._exponents(planes) if self._mode is Mode.NVCOMP_ANS else self._gaining(planes)
        for plane in wanted:
            stored = self._store(plane)
            limit = plane.octets.numel() if self._mode is Mode.NVCOMP_ANS else plane.stored_bytes
            if stored.numel() < limit:
                plane.coded, plane.mode = stored, self._mode
        changed = frozenset(plane.frame for plane in planes if plane.coded is not None) - _too_long(frames, planes)
        return (_joined(batch, planes, changed), changed) if changed else (batch, changed)

    def _candidates(self, frames: Sequence[DeviceFrame], batch: CodedBatch) -> Iterator[_Plane]:
        usable = [number for number, coded in enumerate(batch.frames) if _is_usable(coded)]
        heads = _heads(batch, usable)
        for number, head in zip(usable, heads, strict=True):
            frame, coded = frames[number], batch.frames[number]
            data = frame.data if coded.base is None else frame.data ^ frame.bases[coded.base].data
            planes = split_planes(data, coded.element, _layout(coded))
            if coded.layout is Layout.RAW:
                for k, octets in enumerate(planes):
                    yield _Plane(number, k, octets, Mode.RAW, None, octets.numel())
                continue
            at = coded.offset + len(coded.modes) * DESCRIPTOR_BYTES
            for k, (octets, mode) in enumerate(zip(planes, coded.modes, strict=True)):
                length = _DESCRIPTOR.unpack_from(head, k * DESCRIPTOR_BYTES)[1]
                yield _Plane(number, k, octets, mode, at, length)
                at += length

    def _exponents(self, planes: Sequence[_Plane]) -> list[_Plane]:
        """The last plane of each frame, where it is rANS now."""
        last = {plane.frame: plane for plane in planes}
        return [plane for plane in last.values() if plane.mode is Mode.RANS]

    def _gaining(self, planes: Sequence[_Plane]) -> list[_Plane]:
        """Those whose sample says so."""
        tried = [plane for plane in planes if plane.mode is not Mode.CONSTANT]
        samples = [plane.sample for plane in tried]
        coded = iter(self._coder.encode([page for sample in samples for page in sample]))
        found = []
        for plane, sample in zip(tried, samples, strict=True):
            sampled = sum(page.numel() for page in sample)
            made = sum(next(coded).numel() + 4 for _ in sample)
            n = plane.octets.numel()
            if made * n // sampled + n // _LEAST_GAIN_SHARE < plane.stored_bytes:
                found.append(plane)
        return found

    def _store(self, plane: _Plane) -> torch.Tensor:
        pages = self._coder.encode(plane.pages)
        head = struct.pack("<B3x", self._coder.major) if self._mode is Mode.NVCOMP_ANS else b""
        head += struct.pack(f"<{len(pages)}I", *(page.numel() for page in pages))
        return torch.cat([_tensor(head, plane.octets.device), *pages])


def _too_long(frames: Sequence[DeviceFrame], planes: Sequence[_Plane]) -> frozenset[int]:
    """Frames whose planes, once coded, are no fewer bytes than the frame."""
    sizes: dict[int, int] = {}
    for plane in planes:
        size = plane.stored_bytes if plane.coded is None else plane.coded.numel()
        sizes[plane.frame] = sizes.get(plane.frame, REFERENCE_BYTES) + DESCRIPTOR_BYTES + size
    return frozenset(number for number, size in sizes.items() if size >= frames[number].data.numel())


def _is_usable(coded: CodedFrame) -> bool:
    """Whether a frame's planes are those of its elements, or of what an XOR leaves."""
    is_same = coded.layout is Layout.RAW and coded.base is not None
    return coded.element is not ElementType.BYTES and not is_same and coded.predictor in (Predictor.NONE, Predictor.XOR)


def _layout(coded: CodedFrame) -> Layout:
    """How a frame is split: as it was, or, where it is stored raw, as the first candidate of any writer."""
    if coded.layout is not Layout.RAW:
        return coded.layout
    return Layout.ROTATED_1 if coded.element.is_float else Layout.PLANES


def _heads(batch: CodedBatch, numbers: Sequence[int]) -> list[bytes]:
    """The descriptors of these frames, in one copy."""
    if not numbers:
        return []
    pieces = []
    for number in numbers:
        coded = batch.frames[number]
        pieces.append(batch.payload[coded.offset : coded.offset + len(coded.modes) * DESCRIPTOR_BYTES])
    whole = bytes(torch.cat(pieces).cpu().numpy())
    heads, at = [], 0
    for piece in pieces:
        heads.append(whole[at : at + piece.numel()])
        at += piece.numel()
    return heads


def _joined(batch: CodedBatch, planes: Sequence[_Plane], changed: frozenset[int]) -> CodedBatch:
    by_frame: dict[int, list[_Plane]] = {number: [] for number in changed}
    for plane in planes:
        if plane.frame in changed:
            by_frame[plane.frame].append(plane)
    frames: list[CodedFrame] = []
    pieces: list[torch.Tensor] = []
    offset = 0
    for number, coded in enumerate(batch.frames):
        if number in changed:
            payload, modes = _frame_payload(batch, by_frame[number])
            coded = replace(coded, modes=modes, layout=_layout(coded))
        else:
            payload = batch.payload[coded.offset : coded.offset + coded.stored_bytes]
        frames.append(replace(coded, offset=offset, stored_bytes=payload.numel()))
        pieces.append(payload)
        offset += payload.numel()
    return CodedBatch(tuple(frames), torch.cat(pieces))


def _frame_payload(batch: CodedBatch, planes: Sequence[_Plane]) -> tuple[torch.Tensor, tuple[Mode, ...]]:
    stored = []
    for plane in planes:
        if plane.coded is not None:
            stored.append(plane.coded)
        elif plane.start is None:
            stored.append(plane.octets)
        else:
            stored.append(batch.payload[plane.start : plane.start + plane.stored_bytes])
    modes = [plane.mode for plane in planes]
    head = b"".join(_DESCRIPTOR.pack(mode, piece.numel()) for mode, piece in zip(modes, stored, strict=True))
    return torch.cat([_tensor(head, batch.payload.device), *stored]), tuple(modes)


def _tensor(data: bytes, device: torch.device) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).to(device)
