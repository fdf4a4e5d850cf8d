"""Stored planes to bytes: rows for the kernels, collected over a batch and launched together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from .. import _native
from ..engines.native import FAULTS
from ..engines.payload import join_payload
from ..entropy.blocks import block_sizes
from ..entropy.rans import chunk_sizes
from ..errors import ChecksumMismatch, FormatError, Truncated, UnsupportedVersion
from ..types import Buffer, Layout, Mode, Predictor
from .assembling import copy_pieces
from .kernels.exceptions import scatter_exceptions_kernel
from .kernels.few_bits import unpack_kernel
from .kernels.rans_decode import (
    FAULT_STATE,
    FAULT_TRUNCATED,
    FAULT_WORDS,
    rans_decode_kernel,
    rans_table_kernel,
)
from .launcher import Launcher, Row, cdiv, download
from .stored_planes import read_blocks, read_chunks

_SLOTS: Final = 4096
_FAULTS: Final[dict[int, tuple[type[FormatError], str]]] = {
    FAULT_STATE.value: (FormatError, "expected lane states of at least 65536"),
    FAULT_TRUNCATED.value: (Truncated, "expected another word, found the end"),
    FAULT_WORDS.value: (ChecksumMismatch, "expected to end with every word used and every state at 65536"),
}


@dataclass(frozen=True, slots=True)
class StoredPlane:
    """head: its first bytes, as many as the host looks at. address, length: of all of it. target: of its n bytes.

    where: for messages.
    """

    mode: Mode
    head: Buffer
    address: int
    length: int
    target: int
    n: int
    where: str


class PlaneDecoder:
    """Of one batch. host_planes: those that the host decoded, since no kernel does."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._pieces: list[tuple[int, int, int]] = []
        self._from_host: list[tuple[bytes, int]] = []
        self._shares: list[np.ndarray[tuple[int], np.dtype[np.uint32]]] = []
        # Chunks and what to call them: the table's number stands for its address, until that is known.
        self._chunks: list[tuple[int, int, int, int, int, str]] = []
        self._blocks: list[Row] = []
        self._exceptions: list[tuple[tuple[int, ...], str]] = []
        self.host_planes = 0

    def add(self, plane: StoredPlane) -> None:
        """Nothing is launched yet. Raises: FormatError, with the place in what it says."""
        try:
            self._add(plane)
        except FormatError as error:
            raise type(error)(f"{plane.where}: {error}") from None

    def _add(self, plane: StoredPlane) -> None:
        n, length = plane.n, plane.length
        match plane.mode:
            case Mode.RAW:
                if length != n:
                    raise FormatError(f"raw plane: expected {n} bytes, found {length}")
                self._pieces.append((plane.address, plane.target, n))
            case Mode.CONSTANT:
                if length != 1:
                    raise FormatError(f"constant plane: expected 1 byte, found {length}")
                self._add_blocks(plane, Mode.BITS, 0, plane.head[0], [0] * len(block_sizes(n)))
            case Mode.RANS:
                self._add_chunks(plane)
            case Mode.BITS | Mode.NIBBLES:
                blocks = read_blocks(plane.mode, plane.head, n, length)
                self._add_blocks(plane, plane.mode, blocks.mask, blocks.value, blocks.starts)
                for i, (start, count) in enumerate(zip(blocks.exceptions_starts, blocks.exceptions, strict=True)):
                    if count:
                        row = (*self._blocks[i - len(blocks.starts)][:5], plane.address + start, count)
                        self._exceptions.append((row, f"{plane.where}: block {i}"))
            case Mode.ZSTD:
                raise UnsupportedVersion("expected a mode for elements with a type, found zstd")
            case _:
                self.host_planes += 1
                self._from_host.append((_decode_on_host(plane), plane.target))

    def _add_chunks(self, plane: StoredPlane) -> None:
        found = read_chunks(plane.head, plane.n, plane.length)
        table = len(self._shares)
        self._shares.append(found.shares)
        at = plane.target
        for i, (start, length, size) in enumerate(zip(found.starts, found.lengths, chunk_sizes(plane.n), strict=True)):
            self._chunks.append((plane.address + start, length, table, at, size, f"{plane.where}: rANS chunk {i}"))
            at += size

    def _add_blocks(self, plane: StoredPlane, mode: Mode, mask: int, value: int, starts: list[int]) -> None:
        at = plane.target
        for start, size in zip(starts, block_sizes(plane.n), strict=True):
            self._blocks.append((at, size, mode.value, mask, value, plane.address + start, 0))
            at += size

    def run(self) -> Faults:
        """Queue it all; the planes are there for what is launched after this."""
        launcher, tiles = self._launcher, self._launcher.tiles
        keep = []
        for octets, target in self._from_host:
            keep.append(launcher.upload(np.frombuffer(octets, dtype=np.uint8)))
            self._pieces.append((keep[-1].data_ptr(), target, len(octets)))
        copy_pieces(launcher, self._pieces)
        launcher.launch(
            unpack_kernel, self._blocks, (cdiv(row[1], tiles.symbols) for row in self._blocks), TILE=tiles.symbols
        )
        numbers = launcher.zeros(len(self._exceptions) + len(self._chunks))
        at = numbers.data_ptr()
        rows: list[Row] = [(*row, at + 4 * i) for i, (row, _) in enumerate(self._exceptions)]
        tile = tiles.exceptions
        launcher.launch(scatter_exceptions_kernel, rows, (cdiv(row[6], tile) for row in rows), TILE=tile)
        if self._chunks:
            at += 4 * len(rows)
            shares = launcher.upload(np.stack(self._shares))
            slots = launcher.room(4 * _SLOTS * len(self._shares))
            tables: list[Row] = [
                (shares.data_ptr() + 1024 * i, slots.data_ptr() + 4 * _SLOTS * i) for i in range(len(self._shares))
            ]
            launcher.launch(rans_table_kernel, tables, [_SLOTS // tiles.slots], TILE=tiles.slots)
            chunks: list[Row] = [
                (address, length, slots.data_ptr() + 4 * _SLOTS * table, target, size, at + 4 * i)
                for i, (address, length, table, target, size, _) in enumerate(self._chunks)
            ]
            launcher.launch_chunks(rans_decode_kernel, chunks)
        names = [where for _, where in self._exceptions] + [chunk[5] for chunk in self._chunks]
        return Faults(numbers, names, len(self._exceptions))


@dataclass(frozen=True, slots=True)
class Faults:
    """A number for every block with exceptions, and then for every chunk, with its place."""

    numbers: torch.Tensor
    places: list[str]
    exceptions: int

    def check(self) -> None:
        """Waits. Raises: FormatError of the first."""
        found = download(self.numbers, np.int32).tolist()
        for i, (fault, where) in enumerate(zip(found, self.places, strict=True)):
            if fault and i < self.exceptions:
                raise FormatError(f"{where}: expected ascending positions of exceptions within the block")
            if fault:
                kind, text = _FAULTS[fault]
                raise kind(f"{where}: {text}")


def _decode_on_host(plane: StoredPlane) -> bytes:
    """As a payload of one plane of bytes."""
    payload = join_payload(b"", [(plane.mode, plane.head)])
    try:
        return _native.decode_payload(payload, 1, 0, Predictor.NONE, Layout.PLANES, plane.n)
    except ValueError as error:
        kind, _, text = str(error).partition(": ")
        raise FAULTS.get(kind, FormatError)(text) from None
