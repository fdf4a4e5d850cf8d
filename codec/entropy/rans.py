"""rANS in numpy, over lanes at once: the oracle of every other engine. Source: docs/format.md, section 4."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ..errors import ChecksumMismatch, FormatError, Truncated
from ..types import Buffer
from .blocks import cut_sizes
from .sample import Counts, Sample, histogram

LANES: Final = 32
SCALE_BITS: Final = 12
SCALE: Final = 1 << SCALE_BITS
LOWEST: Final = 1 << 16
CHUNK_SYMBOLS: Final = 1 << 17
STATES_BYTES: Final = 4 * LANES
_PRESENT_BYTES: Final = 32


def chunk_count(n: int) -> int:
    """Chunks of a plane of n symbols."""
    return -(-n // CHUNK_SYMBOLS)


def chunk_sizes(n: int) -> list[int]:
    """Symbols of every chunk."""
    return cut_sizes(n, CHUNK_SYMBOLS)


def normalise(counts: Counts) -> Counts:
    """Frequencies that sum to 4096, at least 1 where the symbol occurs. At least two symbols must occur."""
    total = int(counts.sum())
    frequencies = (counts * SCALE + total // 2) // total
    frequencies[(counts > 0) & (frequencies == 0)] = 1
    # argmax gives the first of the greatest: the smallest symbol wins a tie.
    while (excess := int(frequencies.sum()) - SCALE) != 0:
        frequencies[int(frequencies.argmax())] += -1 if excess > 0 else 1
    return frequencies


def promise(sample: Sample) -> int:
    """What encode() will need, within a few per cent; the same integer in every engine. One symbol: n."""
    if sample.symbols < 2:
        return sample.n
    total = _log2_q8(sample.total)
    # A byte is 8 bits of 256 parts.
    parts = sum(count * (total - _log2_q8(count)) for count in sample.counts.tolist() if count)
    tables = table_bytes(sample.symbols) + chunk_count(sample.n) * (4 + STATES_BYTES)
    return sample.scale(parts) // 2048 + tables + sample.surplus_bytes


def encode(plane: Buffer) -> bytes:
    """Encode a plane of at least two different symbols. Raises: FormatError."""
    symbols = np.frombuffer(plane, dtype=np.uint8)
    counts = histogram(plane)
    present = counts > 0
    if int(present.sum()) < 2:
        raise FormatError("rANS plane: expected at least two different symbols")
    frequencies = normalise(counts)
    chunks = [
        _encode_chunk(symbols[at : at + CHUNK_SYMBOLS], frequencies) for at in range(0, len(symbols), CHUNK_SYMBOLS)
    ]
    return b"".join(
        [
            write_table(frequencies),
            np.array([len(chunk) for chunk in chunks], dtype="<u4").tobytes(),
            *chunks,
        ]
    )


def decode(stored: Buffer, n: int) -> bytes:
    """Decode exactly n symbols. Raises: FormatError."""
    present, frequencies, at = read_table(stored)
    starts = np.cumsum(frequencies) - frequencies
    slots = np.stack([np.repeat(column, frequencies) for column in (present, frequencies, starts)])
    count = chunk_count(n)
    lengths = np.frombuffer(bytes(stored[at : at + 4 * count]), dtype="<u4").tolist() if count else []
    if len(stored) < at + 4 * count:
        raise Truncated(f"rANS plane: expected {count} chunk lengths, found {(len(stored) - at) // 4}")
    at += 4 * count
    pieces = []
    for number, (size, length) in enumerate(zip(chunk_sizes(n), lengths, strict=True)):
        if length < STATES_BYTES or length % 2 or length > len(stored) - at:
            raise FormatError(
                f"rANS chunk {number} at plane byte {at}: expected chunks that fill the plane, found {length}"
            )
        pieces.append(
            _decode_chunk(bytes(stored[at : at + length]), size, slots, f"rANS chunk {number} at plane byte {at}")
        )
        at += length
    if at != len(stored):
        raise FormatError(f"rANS plane: expected chunks that fill {len(stored)} bytes, found {at}")
    return b"".join(pieces)


def table_bytes(symbols: int) -> int:
    """Of the table of so many symbols that occur."""
    return _PRESENT_BYTES + (3 * symbols + 1) // 2


def write_table(frequencies: Counts) -> bytes:
    """frequencies: 256."""
    present = frequencies > 0
    bits = frequencies[present][:, None] >> np.arange(SCALE_BITS) & 1
    return np.packbits(present, bitorder="little").tobytes() + np.packbits(bits, bitorder="little").tobytes()


def read_table(stored: Buffer) -> tuple[Counts, Counts, int]:
    """The symbols that occur, ascending; their frequencies; the bytes read. Raises: Truncated, FormatError."""
    if len(stored) < _PRESENT_BYTES:
        raise Truncated(f"rANS table: expected {_PRESENT_BYTES} bytes, found {len(stored)}")
    octets = np.frombuffer(stored, dtype=np.uint8)
    present = np.flatnonzero(np.unpackbits(octets[:_PRESENT_BYTES], bitorder="little"))
    at = table_bytes(len(present))
    if len(stored) < at:
        raise Truncated(f"rANS table: expected {at} bytes, found {len(stored)}")
    bits = np.unpackbits(octets[_PRESENT_BYTES:at], bitorder="little", count=SCALE_BITS * len(present))
    frequencies = bits.reshape(-1, SCALE_BITS) @ (np.int64(1) << np.arange(SCALE_BITS))
    if len(present) < 2 or not frequencies.all() or int(frequencies.sum()) != SCALE:
        raise FormatError(
            f"rANS table: expected frequencies of at least two symbols that sum to {SCALE}, "
            f"found {len(present)} that sum to {int(frequencies.sum())}"
        )
    return present, frequencies, at


def _log2_q8(x: int) -> int:
    """log2(x) in 1/256 bits, rounded down, by integers only."""
    return int((x**256).bit_length()) - 1


def _encode_chunk(symbols: npt.NDArray[np.uint8], frequencies: Counts) -> bytes:
    starts = np.cumsum(frequencies) - frequencies
    f_of = frequencies[symbols].astype(np.uint64)
    c_of = starts[symbols].astype(np.uint64)
    states = np.full(LANES, LOWEST, dtype=np.uint64)
    rows = -(-len(symbols) // LANES)
    words: list[npt.NDArray[np.uint64]] = []
    for row in range(rows - 1, -1, -1):
        f = f_of[row * LANES : (row + 1) * LANES]
        c = c_of[row * LANES : (row + 1) * LANES]
        x = states[: len(f)]
        emit = (x >> np.uint64(20)) >= f
        # Going backwards lane 31 writes first, so that within a row words stand in order of the lane.
        words.append((x & np.uint64(0xFFFF))[emit])
        x = np.where(emit, x >> np.uint64(16), x)
        states[: len(f)] = (x // f) * np.uint64(SCALE) + x % f + c
    tail = np.concatenate(words[::-1]).astype("<u2").tobytes()
    return states.astype("<u4").tobytes() + tail


def _decode_chunk(chunk: bytes, n: int, slots: npt.NDArray[np.int64], where: str) -> bytes:
    """slots: symbol, frequency and start of each, as rows."""
    states = np.frombuffer(chunk[:STATES_BYTES], dtype="<u4").astype(np.int64)
    if (states < LOWEST).any():
        raise FormatError(f"{where}: expected states of at least {LOWEST}, found {int(states.min())}")
    words = np.frombuffer(chunk[STATES_BYTES:], dtype="<u2").astype(np.int64)
    symbol_of, frequency_of, start_of = slots
    symbols = np.empty(n, dtype=np.uint8)
    at = 0
    for row in range(0, n, LANES):
        x = states[: min(LANES, n - row)]
        slot = x & (SCALE - 1)
        symbols[row : row + LANES] = symbol_of[slot]
        x = frequency_of[slot] * (x >> SCALE_BITS) + slot - start_of[slot]
        refill = np.flatnonzero(x < LOWEST)
        if at + len(refill) > len(words):
            raise Truncated(f"{where}: expected another word, found the end")
        x[refill] = (x[refill] << 16) | words[at : at + len(refill)]
        at += len(refill)
        states[: len(x)] = x
    if at != len(words) or (states != LOWEST).any():
        raise ChecksumMismatch(f"{where}: expected to end with every word used and every state at {LOWEST}")
    return symbols.tobytes()
