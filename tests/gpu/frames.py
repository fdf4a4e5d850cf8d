"""Frames for the whole codec, and what the native engine makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from s4weights.codec.engines import EncodedPayload, NativeEngine
from s4weights.codec.gpu.interface import CodedBatch, DeviceBase, DeviceFrame, StoredFrame
from s4weights.codec.types import NO_GRID, Base, BaseKind, ElementType, Grid, Layout, Level, Reference

NATIVE = NativeEngine(huffman=False)


@dataclass(frozen=True)
class Case:
    """A frame with the bases that it is offered."""

    data: bytes
    element: ElementType
    grid: Grid = NO_GRID
    bases: tuple[tuple[BaseKind, bytes], ...] = ()

    def native(self, level: Level) -> EncodedPayload:
        bases = [Base(Reference(0, 0), kind, data) for kind, data in self.bases]
        return NATIVE.encode(self.data, self.element, grid=self.grid, level=level, bases=bases)

    def on(self, device: torch.device) -> DeviceFrame:
        bases = tuple(DeviceBase(kind, tensor(data, device)) for kind, data in self.bases)
        return DeviceFrame(tensor(self.data, device), self.element, self.grid, bases)


def tensor(data: bytes, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy()).to(device)


def check_batch(batch: CodedBatch, cases: Sequence[Case], level: Level) -> list[EncodedPayload]:
    """Byte for byte what native writes; returns that."""
    octets = batch.payload.cpu().numpy().tobytes()
    expected, at = [case.native(level) for case in cases], 0
    for case, want, found in zip(cases, expected, batch.frames, strict=True):
        what = f"{case.element.name} {len(case.data)} {case.grid} {level.value}"
        assert (found.element, found.predictor, found.layout) == (want.element, want.predictor, want.layout), what
        assert (found.modes, found.base) == (want.modes, want.base), what
        payload = b"" if want.layout is Layout.RAW else bytes(want.payload)
        assert found.offset == at, what
        assert octets[found.offset : found.offset + found.stored_bytes] == payload, what
        at += found.stored_bytes
    assert at == len(octets)
    return expected


def stored_of(case: Case, coded: EncodedPayload, device: torch.device) -> StoredFrame:
    """As a reader has it; not of frames that are stored raw."""
    base = None if coded.base is None else tensor(case.bases[coded.base][1], device)
    payload = tensor(bytes(coded.payload), device)
    return StoredFrame(payload, coded.element, coded.predictor, coded.layout, coded.planes, len(case.data), base)


def stored_in(batch: CodedBatch, cases: Sequence[Case], device: torch.device) -> list[tuple[Case, StoredFrame]]:
    """Those frames of a batch that are not stored raw, where they lie in it."""
    found = []
    for case, one in zip(cases, batch.frames, strict=True):
        if one.layout is not Layout.RAW or one.base is not None:
            payload = batch.payload[one.offset : one.offset + one.stored_bytes]
            base = None if one.base is None else tensor(case.bases[one.base][1], device)
            how = (one.element, one.predictor, one.layout, len(one.modes), len(case.data), base)
            found.append((case, StoredFrame(payload, *how)))
    return found
