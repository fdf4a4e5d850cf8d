"""What stands in front of a stored plane's data, read and checked on the host. Source: docs/format.md, sections 3 and 4.

A few hundred bytes of each plane come to the host; afterwards kernels need only be told where blocks and chunks lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ..entropy.blocks import block_count, block_sizes
from ..entropy.rans import STATES_BYTES, chunk_count, read_table, table_bytes
from ..errors import FormatError, Truncated
from ..types import Buffer, Mode
from .launcher import cdiv

_EXCEPTION_BYTES: Final = 3
# Modes without a kernel: the host decodes all of the plane.
ON_HOST: Final = (Mode.HUFFMAN, Mode.GDEFLATE)


@dataclass(frozen=True, slots=True)
class Chunks:
    """Of rANS. shares: 256 numbers, frequency | start << 16. starts, lengths: of every chunk, within the plane."""

    shares: npt.NDArray[np.uint32]
    starts: list[int]
    lengths: list[int]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Of few bits. starts: of every block; of its exceptions; within the plane. exceptions: of every block."""

    mask: int
    value: int
    starts: list[int]
    exceptions_starts: list[int]
    exceptions: list[int]


def head_bytes(mode: Mode, n: int, length: int) -> int:
    """Of a plane of n bytes that is stored in so many: those that the host looks at."""
    match mode:
        case Mode.CONSTANT:
            needed = 1
        case Mode.RANS:
            needed = table_bytes(256) + 4 * chunk_count(n)
        case Mode.BITS | Mode.NIBBLES:
            needed = 2 + 2 * block_count(n)
        case Mode.RAW:
            needed = 0
        case _:
            needed = length
    return min(needed, length)


def read_chunks(head: Buffer, n: int, length: int) -> Chunks:
    """head: as many bytes as head_bytes says. length: of the plane. Raises: Truncated, FormatError."""
    present, frequencies, table_end = read_table(head)
    count = chunk_count(n)
    at = table_end + 4 * count
    if len(head) < at:
        raise Truncated(f"rANS plane: expected a table and {count} chunk lengths to {at}, found {len(head)} bytes")
    lengths = np.frombuffer(bytes(head[table_end:at]), dtype="<u4").astype(np.int64)
    ends = at + np.cumsum(lengths)
    if (lengths < STATES_BYTES).any() or (lengths % 2).any() or int(ends[-1]) != length:
        raise FormatError(
            f"rANS plane: expected chunks of at least {STATES_BYTES} bytes that fill {length} bytes, "
            f"found {lengths[:4].tolist()} ... that end at {int(ends[-1])}"
        )
    shares = np.zeros(256, dtype=np.uint32)
    shares[present] = frequencies
    shares |= (np.cumsum(shares) - shares).astype(np.uint32) << np.uint32(16)
    return Chunks(shares, (ends - lengths).tolist(), lengths.tolist())


def read_blocks(mode: Mode, head: Buffer, n: int, length: int) -> Blocks:
    """The same, of bits and nibbles. Raises: Truncated, FormatError."""
    name = mode.name.lower()
    parameters = 2 if mode is Mode.BITS else 1
    sizes = block_sizes(n)
    at = parameters + 2 * len(sizes)
    if len(head) < at:
        raise Truncated(f"{name} plane: expected parameters and a block table to {at}, found {len(head)} bytes")
    mask, value = (head[0], head[1]) if mode is Mode.BITS else (0, head[0])
    if mask & value:
        raise FormatError(
            f"{name} plane at plane byte 1: expected a value without the mask's bits, found mask {mask:#04x}, "
            f"value {value:#04x}"
        )
    exceptions = np.frombuffer(bytes(head[parameters:at]), dtype="<u2").tolist()
    starts, exceptions_starts = [], []
    for size in sizes:
        starts.append(at)
        at += mask.bit_count() * cdiv(size, 8) if mode is Mode.BITS else cdiv(size, 64) * 32
    for count in exceptions:
        exceptions_starts.append(at)
        at += _EXCEPTION_BYTES * count
    if at != length:
        raise FormatError(f"{name} plane: expected blocks and exceptions that fill {length} bytes, found {at}")
    return Blocks(mask, value, starts, exceptions_starts, exceptions)
