"""zstd for bytes without a type: headers, pickles, padding."""

from __future__ import annotations

from typing import Final

import zstandard

from ..errors import FormatError, LimitExceeded
from ..limits import MAX_FRAME_BYTES
from ..types import Buffer

# Four looks into a long plane, at the lowest effort, tell whether the whole is worth one.
LONG_BYTES: Final = 65_536
_LOOK_BYTES: Final = 4_096
_LOOKS: Final = 4


def encode(plane: Buffer, effort: int) -> bytes:
    """Return one zstd frame. effort: zstd's own level."""
    return zstandard.ZstdCompressor(level=effort, write_content_size=False).compress(plane)


def looks_dense(plane: Buffer) -> bool:
    """Whether samples of a plane of at least LONG_BYTES keep more than 31/32 of their bytes."""
    view = memoryview(plane)
    starts = [i * (len(view) - _LOOK_BYTES) // (_LOOKS - 1) for i in range(_LOOKS)]
    quick = zstandard.ZstdCompressor(level=1, write_content_size=False)
    stored = sum(len(quick.compress(view[start : start + _LOOK_BYTES])) for start in starts)
    return 32 * stored > 31 * _LOOKS * _LOOK_BYTES


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
