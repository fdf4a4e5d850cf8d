"""zstd for bytes without a type: headers, pickles, padding."""

from __future__ import annotations

from typing import Final

import zstandard

from ..errors import FormatError
from ..types import Buffer

LEVEL: Final = 3


def encode(plane: Buffer) -> bytes:
    """Return one zstd frame."""
    return zstandard.ZstdCompressor(level=LEVEL, write_content_size=False).compress(plane)


def decode(stored: Buffer, n: int) -> bytes:
    """Return exactly n bytes, whatever the frame itself announces. Raises: FormatError."""
    try:
        # The reader stops after n + 1 bytes; a frame's own content size is never trusted.
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(bytes(stored)) as reader:
            plane = reader.read(n)
            more = reader.read(1)
    except zstandard.ZstdError as error:
        raise FormatError(f"zstd plane: expected a frame of {n} bytes, found: {error}") from None
    if len(plane) != n or more:
        raise FormatError(f"zstd plane: expected {n} bytes, found {'more' if more else len(plane)}")
    return plane
