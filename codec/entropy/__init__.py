"""How one plane is stored: a module a mode, each with what fits, its size, there and back.

Source: docs/format.md, section 3.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..errors import FormatError
from ..types import Buffer, Mode
from . import bits, gdeflate, huffman, nibbles, nvcomp_ans, rans, zstd
from .sample import Sample, best_window, histogram

__all__ = [
    "Sample",
    "best_window",
    "bits",
    "decode_plane",
    "gdeflate",
    "histogram",
    "huffman",
    "is_constant",
    "nibbles",
    "nvcomp_ans",
    "rans",
    "zstd",
]


_LOOK: Final = 256


def is_constant(plane: Buffer) -> bool:
    """Whether one value fills a plane of at least one byte."""
    octets = np.frombuffer(plane, dtype=np.uint8)
    # Most planes show it at once.
    return bool((octets[:_LOOK] == octets[0]).all() and (octets == octets[0]).all())


def decode_plane(mode: Mode, stored: Buffer, n: int) -> Buffer:
    """Give back the n bytes of a plane. Raises: FormatError."""
    if mode is Mode.RAW:
        if len(stored) != n:
            raise FormatError(f"raw plane: expected {n} bytes, found {len(stored)}")
        return stored
    if mode is Mode.CONSTANT:
        if len(stored) != 1:
            raise FormatError(f"constant plane: expected 1 byte, found {len(stored)}")
        return bytes(stored) * n
    return _DECODERS[mode](stored, n)


_DECODERS = {
    Mode.RANS: rans.decode,
    Mode.ZSTD: zstd.decode,
    Mode.HUFFMAN: huffman.decode,
    Mode.NIBBLES: nibbles.decode,
    Mode.BITS: bits.decode,
    Mode.GDEFLATE: gdeflate.decode,
    Mode.NVCOMP_ANS: nvcomp_ans.decode,
}
