"""Bits: only those bits of a symbol that vary. Source: docs/format.md, sections 3.2 and 5.3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ..errors import FormatError, Truncated
from ..types import Buffer
from .blocks import MostExceptions, Symbols, decode_blocks, encode_blocks
from .sample import Sample

_PARAMETERS_BYTES: Final = 2
_ALL: Final = np.arange(256, dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class Bits:
    """mask: the bits that are stored. value: all others."""

    mask: int
    value: int

    def estimate(self, sample: Sample) -> int:
        """Bytes of the whole plane."""
        exceptions = int(sample.counts[~self._is_coded()].sum())
        stored = self.mask.bit_count() * (sample.n // 8)
        return _PARAMETERS_BYTES + 2 * sample.blocks + stored + 3 * sample.scale(exceptions)

    def encode(self, plane: Buffer, most: MostExceptions) -> bytes | None:
        """None: too many exceptions."""
        return encode_blocks(plane, bytes([self.mask, self.value]), self._is_coded(), self._encode_block, most)

    def _is_coded(self) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = _ALL & (~self.mask & 0xFF) == self.value
        return found

    def _encode_block(self, block: Symbols) -> tuple[bytes, bytes]:
        return b"", b"".join(np.packbits(block >> k & 1, bitorder="little").tobytes() for k in _set_bits(self.mask))


def fit(sample: Sample) -> Bits:
    """A bit is stored where its rarer value is not rare; see section 5.3."""
    mask = value = 0
    for k in range(8):
        ones = int(sample.counts[(_ALL >> k & 1) == 1].sum())
        zeros = sample.total - ones
        if min(ones, zeros) > sample.total // 32:
            mask |= 1 << k
        elif ones > zeros:
            value |= 1 << k
    return Bits(mask, value)


def decode(stored: Buffer, n: int) -> bytes:
    """Decode exactly n symbols. Raises: Truncated, FormatError."""
    if len(stored) < _PARAMETERS_BYTES:
        raise Truncated(f"bits plane at plane byte 0: expected mask and value, found {len(stored)} bytes")
    mask, value = bytes(stored[:_PARAMETERS_BYTES])
    if mask & value:
        raise FormatError(
            f"bits plane at plane byte 1: expected a value without the mask's bits, found mask {mask:#04x}, value {value:#04x}"
        )

    def decode_block(block: memoryview, entry: bytes, m: int, where: str) -> Symbols:
        rows = np.frombuffer(block, dtype=np.uint8).reshape(mask.bit_count(), -(-m // 8))
        symbols = np.full(m, value, dtype=np.uint8)
        for row, k in zip(rows, _set_bits(mask), strict=True):
            symbols |= np.unpackbits(row, count=m, bitorder="little") << k
        return symbols

    return decode_blocks(
        stored,
        n,
        name="bits",
        table_at=_PARAMETERS_BYTES,
        entry_bytes=0,
        block_bytes=lambda entry, m: mask.bit_count() * -(-m // 8),
        decode_block=decode_block,
    )


def _set_bits(mask: int) -> list[int]:
    return [k for k in range(8) if mask >> k & 1]
