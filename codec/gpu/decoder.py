"""Batches of payloads to frames, on the device.

The host waits three times a batch: for descriptors, for the planes' tables, and for what was found to be wrong.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np
import torch

from ..engines import NativeEngine
from ..engines.payload import DESCRIPTOR_BYTES, check_base_bytes, check_layout, read_descriptors
from ..errors import FormatError
from ..levels import HEAD_BYTES, Head, read_head
from ..types import ElementType, Layout, Mode, Predictor
from .assembling import copy_pieces
from .interface import StoredFrame
from .jobs import Candidate, DeviceLevels
from .launcher import Launcher, Row, aligned, download, padded
from .plane_decoding import PlaneDecoder, StoredPlane
from .splitting import Planes, join, kinds_of, plane_row
from .stored_planes import head_bytes

# Of levels' two planes, and of eight.
_MOST_HEAD_BYTES: Final = HEAD_BYTES + 10 * DESCRIPTOR_BYTES


@dataclass(frozen=True, slots=True)
class _Frame:
    """A frame with planes. out: aligned; what the caller gave, or a copy's place."""

    number: int
    stored: StoredFrame
    out: torch.Tensor

    @property
    def n(self) -> int:
        return self.stored.logical_bytes // self.stored.element.width


class Decoder:
    """host_frames, host_planes: what the host's engine decoded, from bytes that were downloaded."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._host = NativeEngine()
        self.host_frames = self.host_planes = 0

    def decode(self, frames: Sequence[StoredFrame], out: Sequence[torch.Tensor]) -> None:
        """See FrameCodec."""
        with_planes = []
        for number, (frame, to) in enumerate(zip(frames, out, strict=True)):
            with _named(number):
                _check(frame, to)
            if frame.layout is Layout.RAW:
                self._copy_base(frame, to)
            elif frame.element is ElementType.BYTES:
                self.host_frames += 1
                with _named(number):
                    self._decode_on_host(frame, to)
            else:
                place = to if aligned(to) is to else torch.empty_like(to)
                with_planes.append(_Frame(number, frame, place))
        if with_planes:
            self._decode_planes(with_planes)
            for one in with_planes:
                if one.out is not out[one.number]:
                    out[one.number].copy_(one.out)

    def _copy_base(self, frame: StoredFrame, to: torch.Tensor) -> None:
        assert frame.base is not None
        narrowed = frame.predictor is Predictor.NARROWED
        to.copy_(_narrow(aligned(frame.base)) if narrowed else frame.base)

    def _decode_on_host(self, frame: StoredFrame, to: torch.Tensor) -> None:
        base = None if frame.base is None else _downloaded(frame.base)
        how = (frame.element, frame.predictor, frame.layout, frame.planes, frame.logical_bytes)
        decoded = self._host.decode(_downloaded(frame.payload), *how, base)
        to.copy_(self._launcher.upload(np.frombuffer(decoded, dtype=np.uint8)))

    def _decode_planes(self, frames: Sequence[_Frame]) -> None:
        heads = self._fetch(
            [(one.stored.payload.data_ptr(), min(_MOST_HEAD_BYTES, len(one.stored.payload))) for one in frames]
        )
        described = []
        for one, head in zip(frames, heads, strict=True):
            with _named(one.number):
                described.append((one, *_describe(one, head)))
        wanted = [
            (one.stored.payload.data_ptr() + start, head_bytes(mode, n, length))
            for one, _, planes in described
            for mode, start, length, n, _ in planes
        ]
        tables = iter(self._fetch(wanted))
        decoder = PlaneDecoder(self._launcher)
        rows: dict[tuple[int, int, int], list[Row]] = defaultdict(list)
        room = self._launcher.room(sum(padded(n) for _, _, planes in described for *_, n, _ in planes))
        at, keep = 0, []
        for one, levels_head, planes in described:
            targets = list(accumulate((padded(n) for *_, n, _ in planes), initial=at))
            for (mode, start, length, n, where), target in zip(planes, targets, strict=False):
                address = one.stored.payload.data_ptr() + start
                where = f"{_of_batch(one.number)}: {where}"
                decoder.add(StoredPlane(mode, next(tables), address, length, room.data_ptr() + target, n, where))
            at = targets[-1]
            level_planes = len(planes) - one.stored.planes
            candidate = _candidate(one, levels_head, [room[target:] for target in targets[:level_planes]])
            of_elements = Planes(room[targets[level_planes] :], padded(one.n), one.n)
            base = None if one.stored.base is None else aligned(one.stored.base)
            keep.append(base)
            row = plane_row(one.out, one.stored.element, candidate, of_elements, base)
            rows[kinds_of(candidate, one.stored.element)].append(row)
        self.host_planes += decoder.host_planes
        faults = decoder.run()
        join(self._launcher, rows)
        faults.check()

    def _fetch(self, pieces: Sequence[tuple[int, int]]) -> list[bytes]:
        """Bytes of the device, address and length of each, in one go."""
        starts = list(accumulate((length for _, length in pieces), initial=0))
        gathered = self._launcher.room(starts[-1])
        copy_pieces(
            self._launcher,
            [
                (source, gathered.data_ptr() + start, length)
                for (source, length), start in zip(pieces, starts, strict=False)
            ],
        )
        octets = download(gathered, np.uint8).tobytes()
        return [octets[start : start + length] for (_, length), start in zip(pieces, starts, strict=False)]


class _named:  # noqa: N801 - reads as a statement
    """Puts the frame's number in front of what is raised."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FormatError):
            raise type(error)(f"{_of_batch(self._number)}: {error}") from None


def _of_batch(number: int) -> str:
    return f"frame {number} of the batch"


def _check(frame: StoredFrame, to: torch.Tensor) -> None:
    check_layout(frame.element, frame.predictor, frame.layout, frame.planes, frame.logical_bytes)
    check_base_bytes(frame.predictor, frame.logical_bytes, 0 if frame.base is None else len(frame.base))
    if len(to) != frame.logical_bytes:
        raise ValueError(f"out: expected {frame.logical_bytes} bytes, found {len(to)}")
    if frame.layout is Layout.RAW and len(frame.payload):
        raise FormatError(f"payload: expected none of a frame that is its base, found {len(frame.payload)} bytes")


def _describe(one: _Frame, head: bytes) -> tuple[Head | None, list[tuple[Mode, int, int, int, str]]]:
    """The levels' head, and of every plane mode, first byte, length, bytes once decoded, and what to call it."""
    stored = one.stored
    level_head, sizes, at = None, [], 0
    if stored.predictor is Predictor.LEVELS:
        level_head = read_head(head, one.n)
        sizes, at = level_head.plane_sizes(one.n), HEAD_BYTES
    names = [*("rows", "columns")[: len(sizes)], *(f"plane {k}" for k in range(stored.planes))]
    sizes = [*sizes, *[one.n] * stored.planes]
    found = read_descriptors(head, len(stored.payload), len(sizes), at)
    return level_head, [
        (mode, start, length, n, f"{name} at payload byte {start}")
        for (mode, start, length), n, name in zip(found, sizes, names, strict=True)
    ]


def _candidate(one: _Frame, head: Head | None, planes: list[torch.Tensor]) -> Candidate:
    stored = one.stored
    base = 0 if stored.base is not None else None
    if head is None:
        return Candidate(stored.predictor, stored.layout, base=base)
    levels = None
    if planes:
        [row_bytes, column_bytes] = head.plane_sizes(one.n)
        each = 1 + head.products
        sizes = row_bytes // each, column_bytes // each, head.grid.column
        levels = DeviceLevels(planes[0], planes[1], *sizes, head.products, head.base)
    return Candidate(stored.predictor, stored.layout, head.base, levels)


def _narrow(wide: torch.Tensor) -> torch.Tensor:
    """fp32 to bf16, as bytes: rounded to the nearest, ties to even; the sum wraps at 32 bits."""
    words = wide.view(torch.int32)
    narrowed = ((words.to(torch.int64) & 0xFFFFFFFF) + (words >> 16 & 1) + 32767) >> 16 & 0xFFFF
    return narrowed.to(torch.int32).view(torch.int16)[::2].contiguous().view(torch.uint8)


def _downloaded(data: torch.Tensor) -> bytes:
    return bytes(data.cpu().numpy().tobytes())
