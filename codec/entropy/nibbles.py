"""Nibbles: four bits a symbol, for sixteen successive values. Source: docs/format.md, sections 3.4 and 5.3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ..errors import Truncated
from ..types import Buffer
from .blocks import MostExceptions, Symbols, decode_blocks, encode_blocks
from .sample import Sample, best_window

_VALUES: Final = 16
# Symbols that share a run of bytes: the first half's codes in the low halves, the second's in the high ones.
_GROUP: Final = 64
_PARAMETERS_BYTES: Final = 1
_ALL: Final = np.arange(256, dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class Nibbles:
    """first: the symbol of code 0."""

    first: int

    def estimate(self, sample: Sample) -> int:
        """Bytes of the whole plane."""
        exceptions = int(sample.counts[~self._is_coded()].sum())
        return _PARAMETERS_BYTES + 2 * sample.blocks + sample.n // 2 + 3 * sample.scale(exceptions)

    def encode(self, plane: Buffer, most: MostExceptions) -> bytes | None:
        """None: too many exceptions."""
        return encode_blocks(plane, bytes([self.first]), self._is_coded(), self._encode_block, most)

    def _is_coded(self) -> npt.NDArray[np.bool_]:
        return _ALL - np.uint8(self.first) < _VALUES

    def _encode_block(self, block: Symbols) -> tuple[bytes, bytes]:
        # What is kept of an exception's code: a reader writes over it.
        codes = block - np.uint8(self.first) & np.uint8(_VALUES - 1)
        groups = np.pad(codes, (0, -len(codes) % _GROUP)).reshape(-1, 2, _GROUP // 2)
        return b"", (groups[:, 0] | groups[:, 1] << 4).tobytes()


def fit(sample: Sample) -> Nibbles:
    """The sixteen successive values that hold most."""
    return Nibbles(best_window(sample.counts, _VALUES)[0])


def decode(stored: Buffer, n: int) -> bytes:
    """Decode exactly n symbols. Raises: Truncated, FormatError."""
    if len(stored) < _PARAMETERS_BYTES:
        raise Truncated("nibbles plane at plane byte 0: expected the first symbol, found 0 bytes")
    first = np.uint8(stored[0])

    def decode_block(block: memoryview, entry: bytes, m: int, where: str) -> Symbols:
        groups = np.frombuffer(block, dtype=np.uint8).reshape(-1, 1, _GROUP // 2)
        codes = np.concatenate([groups & 15, groups >> 4], axis=1).reshape(-1)[:m]
        return codes + first

    return decode_blocks(
        stored,
        n,
        name="nibbles",
        table_at=_PARAMETERS_BYTES,
        entry_bytes=0,
        block_bytes=lambda entry, m: -(-m // _GROUP) * (_GROUP // 2),
        decode_block=decode_block,
    )
