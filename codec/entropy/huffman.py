"""Huffman: blocks of four streams under one code. Source: docs/format.md, sections 3.3 and 5.4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ..errors import ChecksumMismatch
from ..types import Buffer
from . import huffman_code
from .blocks import MostExceptions, Symbols, decode_blocks, encode_blocks
from .huffman_code import MAX_LENGTH, Code, Places, read_code
from .sample import Sample

_STREAMS: Final = 4
_LENGTH_BYTES: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class Huffman:
    """code: symbols without one are exceptions."""

    code: Code

    def estimate(self, sample: Sample) -> int:
        """Bytes of the whole plane."""
        lengths, _ = self.code.by_symbol()
        is_coded = self.code.is_coded()
        bits = int((sample.counts * lengths)[is_coded].sum())
        exceptions = int(sample.counts[~is_coded].sum())
        stored = sample.scale(bits) // 8 + 3 * sample.scale(exceptions)
        return len(self.code.to_bytes()) + 10 * sample.blocks + stored + sample.surplus_bytes

    def encode(self, plane: Buffer, most: MostExceptions) -> bytes | None:
        """None: too many exceptions."""
        lengths, codes = self.code.by_symbol()

        def encode_block(block: Symbols) -> tuple[bytes, bytes]:
            streams = [_encode_stream(lengths[part], codes[part]) for part in _parts(block)]
            return np.array([len(stream) for stream in streams], dtype="<u2").tobytes(), b"".join(streams)

        return encode_blocks(plane, self.code.to_bytes(), self.code.is_coded(), encode_block, most)


def fit(sample: Sample) -> Huffman | None:
    """None: fewer than two symbols would have a code."""
    code = huffman_code.fit(sample)
    return None if code is None else Huffman(code)


def decode(stored: Buffer, n: int) -> bytes:
    """Decode exactly n symbols. Raises: Truncated, ChecksumMismatch, FormatError."""
    code, table_at = read_code(stored)
    symbol_of, length_of = code.by_pattern()

    def decode_block(block: memoryview, entry: bytes, m: int, where: str) -> Symbols:
        symbols = np.empty(m, dtype=np.uint8)
        at = 0
        for number, (part, length) in enumerate(zip(_parts(symbols), _stream_bytes(entry), strict=True)):
            stream = block[at : at + length]
            part[:] = symbol_of[
                _decode_stream(stream, len(part), length_of, f"{where}, stream {number} at its byte {at}")
            ]
            at += length
        return symbols

    return decode_blocks(
        stored,
        n,
        name="Huffman",
        table_at=table_at,
        entry_bytes=_STREAMS * _LENGTH_BYTES,
        block_bytes=lambda entry, m: sum(_stream_bytes(entry)),
        decode_block=decode_block,
    )


def _parts(block: Symbols) -> list[Symbols]:
    quarter = 32 * -(-len(block) // 128)
    return [block[j * quarter : (j + 1) * quarter] for j in range(_STREAMS)]


def _stream_bytes(entry: bytes) -> list[int]:
    return [int(length) for length in np.frombuffer(entry, dtype="<u2")]


def _encode_stream(lengths: Places, codes: Places) -> bytes:
    starts = np.cumsum(lengths) - lengths
    bits = np.zeros(int(lengths.sum()), dtype=np.uint8)
    for k in range(MAX_LENGTH):
        has = lengths > k
        bits[starts[has] + k] = codes[has] >> (lengths[has] - 1 - k) & 1
    return np.packbits(bits, bitorder="little").tobytes()


def _decode_stream(stream: memoryview, count: int, length_of: Places, where: str) -> Places:
    """The 11 bits that begin at each of `count` codes. Raises: ChecksumMismatch."""
    bits = np.unpackbits(np.frombuffer(stream, dtype=np.uint8), bitorder="little").astype(np.int64)
    end = len(bits)
    bits = np.pad(bits, (0, MAX_LENGTH))
    patterns = np.zeros(end, dtype=np.int64)
    for k in range(MAX_LENGTH):
        patterns = patterns << 1 | bits[k : k + end]
    # Where the next code would begin, for a code at any bit: the codes themselves are then one walk.
    following = (np.arange(end) + length_of[patterns]).tolist()
    begins = []
    at = 0
    for _ in range(count):
        if at >= end:
            break
        begins.append(at)
        at = following[at]
    if len(begins) < count or -(-at // 8) != len(stream):
        raise ChecksumMismatch(
            f"{where}: expected {count} codes that end in the last of {len(stream)} bytes, "
            f"found {len(begins)} that end at bit {at}"
        )
    return patterns[begins]
