"""Payloads of a batch, one behind another: heads and descriptors from the host, planes from where they were coded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np
import torch

from ..types import Mode
from .kernels.pieces import copy_kernel
from .launcher import Launcher, Row, cdiv
from .plane_coding import PlaneCoder, PlaneJob, write_few_bits

# Longer ones are several pieces, so that a launch has programs of about equal work.
_PIECE_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Payload:
    """head: what the host writes of it. planes: what follows, coded, in order. coder: keeps what they refer to."""

    head: bytes
    planes: Sequence[PlaneJob] = ()
    coder: PlaneCoder | None = None

    @property
    def stored_bytes(self) -> int:
        """Of it all."""
        return len(self.head) + sum(one.stored_bytes for one in self.planes)


def assemble(launcher: Launcher, payloads: Sequence[Payload]) -> tuple[torch.Tensor, list[int]]:
    """The payloads without gaps, and where each begins; still being written when this returns."""
    starts = list(accumulate((one.stored_bytes for one in payloads), initial=0))
    out = launcher.room(starts[-1])
    written = _Written(out.data_ptr())
    for payload, start in zip(payloads, starts, strict=False):
        written.add(payload, start)
    copy_pieces(launcher, written.pieces(launcher))
    write_few_bits(launcher, written.few_bits)
    return out, starts[:-1]


def copy_pieces(launcher: Launcher, pieces: Sequence[tuple[int, int, int]]) -> None:
    """pieces: address of the source, of the target, bytes."""
    rows: list[Row] = [
        (source + at, target + at, min(_PIECE_BYTES, length - at))
        for source, target, length in pieces
        for at in range(0, length, _PIECE_BYTES)
    ]
    tile = launcher.tiles.words
    launcher.launch(copy_kernel, rows, (max(1, cdiv(row[2] // 4, tile)) for row in rows), TILE=tile)


class _Written:
    """Bytes of the host and pieces of the device, each with its target."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._heads: list[tuple[int, bytes]] = []
        self._pieces: list[tuple[int, int, int]] = []
        self.few_bits: list[tuple[PlaneJob, int]] = []
        self._host: torch.Tensor | None = None

    def add(self, payload: Payload, at: int) -> None:
        self._heads.append((at, payload.head))
        at += len(payload.head)
        for one in payload.planes:
            if one.head:
                self._heads.append((at, one.head))
            if one.mode in (Mode.BITS, Mode.NIBBLES):
                self.few_bits.append((one, self._target + at))
            else:
                piece_at = at + len(one.head)
                for source, length in one.pieces if one.mode is not Mode.CONSTANT else ():
                    self._pieces.append((source, self._target + piece_at, length))
                    piece_at += length
            at += one.stored_bytes

    def pieces(self, launcher: Launcher) -> list[tuple[int, int, int]]:
        """All of them, once the host's bytes are on the device; they stay there as long as this."""
        joined = b"".join(head for _, head in self._heads)
        self._host = launcher.upload(np.frombuffer(joined, dtype=np.uint8))
        sources = accumulate((len(head) for _, head in self._heads), initial=self._host.data_ptr())
        from_host = [
            (source, self._target + at, len(head)) for source, (at, head) in zip(sources, self._heads, strict=False)
        ]
        return from_host + self._pieces
