"""Planes to stored bytes: what lies on the device, and what the host writes in front of it. Source: docs/format.md, 3 and 5.3.

Coded where they lie, many planes in one launch; what a sample had not seen is chosen again from the whole plane, as often as
the document says: twice at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from .. import _native
from ..entropy.blocks import BLOCK_SYMBOLS, block_count
from ..entropy.rans import CHUNK_SYMBOLS, write_table
from ..types import Level, Mode
from .jobs import Choice
from .kernels.exceptions import gather_exceptions_kernel
from .kernels.few_bits import count_exceptions_kernel, pack_kernel
from .kernels.rans_encode import STATES_BYTES, rans_encode_kernel
from .launcher import Launcher, Row, cdiv, download, padded
from .planning import choose_modes
from .splitting import count_planes, read_counts

# Exceptions of a block of m symbols that make a writer look again: more than m div this; and those that make it give up.
_SURPRISING_SHARE: Final = 64
_MOST_EXCEPTIONS: Final = 8191
_EXCEPTION_BYTES: Final = 3
_RAW: Final = Choice(Mode.RAW, 0, 0, 0, 0, True)

Counts = npt.NDArray[np.uint32]


@dataclass(slots=True)
class PlaneJob:
    """A plane of n bytes at an address. counts: of the whole plane, once they are needed.

    mode, head: what it became, and the bytes that the host writes in front. pieces: address and length of what follows on the
    device. exceptions: of each block of few bits. keep: what the address lies in.
    """

    address: int
    n: int
    choice: Choice
    keep: torch.Tensor
    counts: Counts | None = None
    mode: Mode = Mode.RAW
    head: bytes = b""
    pieces: list[tuple[int, int]] = field(default_factory=list)
    exceptions: list[int] = field(default_factory=list)
    stored_bytes: int = 0

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Address and symbols of each block."""
        return self._cut(BLOCK_SYMBOLS)

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """The same, of each chunk of rANS."""
        return self._cut(CHUNK_SYMBOLS)

    def _cut(self, symbols: int) -> list[tuple[int, int]]:
        return [(self.address + at, min(symbols, self.n - at)) for at in range(0, self.n, symbols)]

    @property
    def is_few_bits(self) -> bool:
        """Whether blocks have exceptions."""
        return self.choice.mode in (Mode.BITS, Mode.NIBBLES)

    @property
    def value(self) -> int:
        """What kernels of few bits take for `value`."""
        return self.choice.value if self.choice.mode is Mode.BITS else self.choice.first

    def block_bytes(self, symbols: int) -> int:
        """Of a block of few bits."""
        if self.choice.mode is Mode.BITS:
            return self.choice.mask.bit_count() * cdiv(symbols, 8)
        return cdiv(symbols, 64) * 32

    def store(self, mode: Mode, head: bytes, following: int) -> bool:
        """With so many bytes behind the head; whether that is smaller than the plane."""
        self.mode, self.head, self.stored_bytes = mode, head, len(head) + following
        return self.stored_bytes < self.n

    def store_raw(self) -> None:
        """The bytes themselves."""
        self.store(Mode.RAW, b"", self.n)
        self.pieces = [(self.address, self.n)]


class PlaneCoder:
    """Of one batch; keeps what planes refer to."""

    def __init__(self, launcher: Launcher, level: Level) -> None:
        self._launcher, self._level = launcher, level
        self._kept: list[torch.Tensor] = []

    def encode(self, planes: Sequence[PlaneJob]) -> None:
        """Sets what every plane became."""
        waiting = list(planes)
        while waiting:
            self.count([one for one in waiting if one.choice.mode is Mode.RANS])
            failed = [*self._try_few_bits(waiting), *self._try_rans(waiting)]
            for one in waiting:
                if one.choice.mode is Mode.RAW:
                    one.store_raw()
            waiting = self._choose_again(failed)

    def count(self, planes: Sequence[PlaneJob]) -> None:
        """Whole histograms, where they are missing."""
        missing = [one for one in planes if one.counts is None]
        if missing:
            found = read_counts(count_planes(self._launcher, [(one.address, one.n) for one in missing]))
            for one, counts in zip(missing, found, strict=True):
                one.counts = counts

    def _choose_again(self, failed: list[PlaneJob]) -> list[PlaneJob]:
        """From the whole plane; raw where that was done."""
        again = [one for one in failed if not one.choice.is_whole]
        self.count(again)
        counts = [one.counts for one in again if one.counts is not None]
        for one, choice in zip(
            again, choose_modes(counts, [one.n for one in again], [True] * len(again), self._level), strict=True
        ):
            one.choice = choice
        for one in failed:
            if not any(one is other for other in again):
                one.choice = _RAW
        return failed

    def _try_few_bits(self, planes: Sequence[PlaneJob]) -> list[PlaneJob]:
        """Those that it does not fit."""
        planes = [one for one in planes if one.is_few_bits]
        if not planes:
            return []
        blocks = [(one, address, size) for one in planes for address, size in one.blocks]
        numbers = self._launcher.zeros(len(blocks))
        rows = [
            (address, size, one.choice.mode.value, one.choice.mask, one.value, 0, numbers.data_ptr() + 4 * i)
            for i, (one, address, size) in enumerate(blocks)
        ]
        tile = self._launcher.tiles.symbols
        self._launcher.launch(count_exceptions_kernel, rows, (cdiv(row[1], tile) for row in rows), TILE=tile)
        found = download(numbers, np.int32).tolist()
        failed = []
        for one in planes:
            one.exceptions, found = found[: len(one.blocks)], found[len(one.blocks) :]
            if not _store_few_bits(one):
                failed.append(one)
        return failed

    def _try_rans(self, planes: Sequence[PlaneJob]) -> list[PlaneJob]:
        """Those that it makes no smaller."""
        planes = [one for one in planes if one.choice.mode is Mode.RANS]
        many = []
        for one in planes:
            assert one.counts is not None
            if np.count_nonzero(one.counts) == 1:
                one.store(Mode.CONSTANT, bytes([int(one.counts.argmax())]), 0)
            else:
                many.append(one)
        if not many:
            return []
        tables = np.stack([one.counts for one in many if one.counts is not None])
        frequencies = np.frombuffer(_native.normalise_histograms(tables), dtype=np.uint16).reshape(-1, 256)
        codes = self._keep(self._launcher.upload(_codes(frequencies)))
        chunks = [(i, one, address, size) for i, one in enumerate(many) for address, size in one.chunks]
        ends = np.cumsum([padded(STATES_BYTES + 2 * size) for _, _, _, size in chunks]).tolist()
        room = self._keep(self._launcher.room(ends[-1]))
        lengths = self._launcher.zeros(len(chunks))
        rows: list[Row] = [
            (address, size, codes.data_ptr() + 2048 * i, room.data_ptr() + end, lengths.data_ptr() + 4 * number)
            for number, ((i, _, address, size), end) in enumerate(zip(chunks, ends, strict=True))
        ]
        self._launcher.launch_chunks(rans_encode_kernel, rows)
        found = download(lengths, np.uint32)
        at, failed = 0, []
        for i, one in enumerate(many):
            here = slice(at, at + len(one.chunks))
            at = here.stop
            one.pieces = [
                (row[3] - length, length) for row, length in zip(rows[here], found[here].tolist(), strict=True)
            ]
            head = write_table(frequencies[i].astype(np.int64)) + found[here].astype("<u4").tobytes()
            if not one.store(Mode.RANS, head, int(found[here].sum())):
                failed.append(one)
        return failed

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        self._kept.append(tensor)
        return tensor


def write_few_bits(launcher: Launcher, placed: Sequence[tuple[PlaneJob, int]]) -> None:
    """Blocks and exceptions of planes, each to behind its head. placed: plane, address of its stored bytes."""
    blocks, exceptions = [], []
    for one, target in placed:
        at = target + len(one.head)
        exceptions_at = at + sum(one.block_bytes(size) for _, size in one.blocks)
        for (address, size), count in zip(one.blocks, one.exceptions, strict=True):
            how = (address, size, one.choice.mode.value, one.choice.mask, one.value)
            blocks.append((*how, at, 0))
            if count:
                exceptions.append((*how, exceptions_at, count, 0))
            at += one.block_bytes(size)
            exceptions_at += _EXCEPTION_BYTES * count
    tile = launcher.tiles.symbols
    launcher.launch(pack_kernel, blocks, (cdiv(row[1], tile) for row in blocks), TILE=tile)
    launcher.launch(gather_exceptions_kernel, exceptions, TILE=launcher.tiles.exceptions)


def _store_few_bits(one: PlaneJob) -> bool:
    sizes = [size for _, size in one.blocks]
    most = [_MOST_EXCEPTIONS if one.choice.is_whole else size // _SURPRISING_SHARE for size in sizes]
    if any(count > limit for count, limit in zip(one.exceptions, most, strict=True)):
        return False
    if one.choice.mode is Mode.BITS and one.choice.mask == 0 and not any(one.exceptions):
        one.exceptions = []
        return one.store(Mode.CONSTANT, bytes([one.choice.value]), 0)
    parameters = (
        bytes([one.choice.mask, one.choice.value]) if one.choice.mode is Mode.BITS else bytes([one.choice.first])
    )
    head = parameters + np.array(one.exceptions, dtype="<u2").tobytes()
    following = sum(map(one.block_bytes, sizes)) + _EXCEPTION_BYTES * sum(one.exceptions)
    assert len(sizes) == block_count(one.n)
    return one.store(one.choice.mode, head, following)


def _codes(frequencies: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint64]:
    """What the kernel looks a symbol up in."""
    f = frequencies.astype(np.uint64)
    starts = np.cumsum(f, axis=1, dtype=np.uint64) - f
    # Of 1 one less, and of symbols that do not occur: what it makes of it is never used.
    multipliers = np.minimum((1 << 32) // np.maximum(f, 1), (1 << 32) - 1).astype(np.uint64)
    codes: npt.NDArray[np.uint64] = f | starts << np.uint64(16) | multipliers << np.uint64(32)
    return codes
