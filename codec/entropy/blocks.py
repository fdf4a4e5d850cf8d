"""Blocks of a plane, and the exceptions in them that a mode does not code. Source: docs/format.md, section 3.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import FormatError, Truncated
from ..types import Buffer

BLOCK_SYMBOLS: Final = 1 << 16
_COUNT_BYTES: Final = 2
_EXCEPTION_BYTES: Final = 3

Symbols: TypeAlias = npt.NDArray[np.uint8]
# Of a block of so many symbols.
MostExceptions: TypeAlias = Callable[[int], int]


def block_count(n: int) -> int:
    """Blocks of a plane of n bytes."""
    return -(-n // BLOCK_SYMBOLS)


def block_sizes(n: int) -> list[int]:
    """Symbols of every block."""
    return cut_sizes(n, BLOCK_SYMBOLS)


def cut_sizes(n: int, most: int) -> list[int]:
    """Of the pieces of n symbols: all but the last have `most`."""
    return [min(most, n - at) for at in range(0, n, most)]


def encode_blocks(
    plane: Buffer,
    parameters: bytes,
    is_coded: npt.NDArray[np.bool_],
    encode_block: Callable[[Symbols], tuple[bytes, bytes]],
    most: MostExceptions,
) -> bytes | None:
    """Return the plane's stored bytes; None where a block has more exceptions than `most` says.

    is_coded: by symbol. encode_block: its entry in the block table (without the number of exceptions), its bytes.
    """
    symbols = np.frombuffer(plane, dtype=np.uint8)
    table, blocks, exceptions = [], [], []
    for start in range(0, len(symbols), BLOCK_SYMBOLS):
        block = symbols[start : start + BLOCK_SYMBOLS]
        positions = np.flatnonzero(~is_coded[block])
        if len(positions) > most(len(block)):
            return None
        entry, stored = encode_block(block)
        table.append(entry + len(positions).to_bytes(_COUNT_BYTES, "little"))
        blocks.append(stored)
        exceptions.append(positions.astype("<u2").tobytes() + block[positions].tobytes())
    return b"".join([parameters, *table, *blocks, *exceptions])


def decode_blocks(
    stored: Buffer,
    n: int,
    *,
    name: str,
    table_at: int,
    entry_bytes: int,
    block_bytes: Callable[[bytes, int], int],
    decode_block: Callable[[memoryview, bytes, int, str], Symbols],
) -> bytes:
    """The inverse of encode_blocks. Raises: Truncated, FormatError.

    name: the mode, for messages. entry_bytes: of an entry without its number of exceptions. block_bytes: of an entry and
    a block's symbols. decode_block: from a block's bytes, its entry, its number of symbols and where it lies.
    """
    view = memoryview(stored)
    step = entry_bytes + _COUNT_BYTES
    at = table_at + block_count(n) * step
    if len(view) < at:
        raise Truncated(
            f"{name} plane at plane byte {table_at}: expected a block table to {at}, found {len(view)} bytes"
        )
    sizes = block_sizes(n)
    rows = [bytes(view[table_at + i * step : table_at + (i + 1) * step]) for i in range(len(sizes))]
    entries = [row[:entry_bytes] for row in rows]
    counts = [int.from_bytes(row[entry_bytes:], "little") for row in rows]
    lengths = [block_bytes(entry, size) for entry, size in zip(entries, sizes, strict=True)]
    exceptions_at = at + sum(lengths)
    end = exceptions_at + _EXCEPTION_BYTES * sum(counts)
    if end != len(view):
        raise FormatError(
            f"{name} plane at plane byte {at}: expected blocks and exceptions that fill {len(view)} bytes, found {end}"
        )
    symbols = np.empty(n, dtype=np.uint8)
    for i, (size, length, count) in enumerate(zip(sizes, lengths, counts, strict=True)):
        block = symbols[i * BLOCK_SYMBOLS : i * BLOCK_SYMBOLS + size]
        block[:] = decode_block(view[at : at + length], entries[i], size, f"{name} block {i} at plane byte {at}")
        exceptions = view[exceptions_at : exceptions_at + _EXCEPTION_BYTES * count]
        _write_exceptions(block, exceptions, f"{name} block {i}, exceptions at plane byte {exceptions_at}")
        at += length
        exceptions_at += _EXCEPTION_BYTES * count
    return symbols.tobytes()


def _write_exceptions(block: Symbols, exceptions: memoryview, where: str) -> None:
    count = len(exceptions) // _EXCEPTION_BYTES
    positions = np.frombuffer(exceptions[: 2 * count], dtype="<u2").astype(np.int64)
    wrong = np.flatnonzero((positions >= len(block)) | (np.diff(positions, prepend=-1) <= 0))
    if len(wrong):
        raise FormatError(
            f"{where}: expected ascending positions below {len(block)}, "
            f"found {int(positions[wrong[0]])} as number {int(wrong[0])}"
        )
    block[positions] = np.frombuffer(exceptions[2 * count :], dtype=np.uint8)
