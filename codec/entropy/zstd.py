"""zstd for bytes without a type: headers, pickles, padding."""

from __future__ import annotations

from typing import Final

import zstandard

from ..errors import FormatError, LimitExceeded
from ..limits import MAX_FRAME_BYTES
from ..types import Buffer

LEVEL: Final = 3


def encode(plane: Buffer) -> bytes:
    """Return one zstd frame."""
    return zstandard.ZstdCompressor(level=LEVEL, write_content_size=False).compress(plane)


def decode(stored: Buffer, n: int) -> bytes:
    """Return the n bytes of one zstd frame that fills stored. Raises: FormatError, LimitExceeded."""
    try:
        announced = zstandard.get_frame_parameters(stored)
        # The decompressor would believe a frame's own content size, and allocate it and the window.
        if announced.content_size not in (zstandard.CONTENTSIZE_UNKNOWN, n):
            raise FormatError(f"zstd plane: expected {n} bytes, found a frame of {announced.content_size}")
        if announced.window_size > MAX_FRAME_BYTES:
            raise LimitExceeded(
                f"zstd plane: expected a window of at most {MAX_FRAME_BYTES} bytes, found {announced.window_size}"
            )
        decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_FRAME_BYTES)
        plane = decompressor.decompress(stored, max_output_size=n, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise FormatError(f"zstd plane: expected one frame of {n} bytes, found: {error}") from None
    if len(plane) != n:
        raise FormatError(f"zstd plane: expected {n} bytes, found {len(plane)}")
    return plane
