"""Planes that only nvCOMP on a GPU reads: what is said of them everywhere else. Source: docs/format.md, section 3.6."""

from __future__ import annotations

import struct
from typing import Final, NoReturn

from ..errors import FormatError, Truncated, UnsupportedVersion
from ..types import Buffer
from .blocks import BLOCK_SYMBOLS, block_count

_HEAD: Final = struct.Struct("<B3s")
HEAD_BYTES: Final = _HEAD.size
# A page is stored in no more than its bytes and this.
PAGE_SURPLUS_BYTES: Final = 1024


def decode(stored: Buffer, n: int) -> NoReturn:
    """Raises: UnsupportedVersion, which says what reads it."""
    raise UnsupportedVersion(missing(stored))


def missing(stored: Buffer) -> str:
    """What a reader of a plane needs."""
    major = f"{bytes(stored[:1])[0]}.x" if len(stored) else "of an unknown version"
    return (
        f"nvCOMP ANS plane: expected the gpu engine and nvCOMP {major} (nvidia-nvcomp-cu12 or -cu13, on a machine with an "
        "NVIDIA GPU), found a reader without them; `s4weights repack` there writes it in the open format"
    )


def read_pages(stored: Buffer, n: int) -> tuple[int, list[tuple[int, int, int]]]:
    """Major version, and of each page where it starts, its stored bytes and its bytes. Raises: FormatError."""
    view = memoryview(stored)
    count = block_count(n)
    at = HEAD_BYTES + 4 * count
    if len(view) < at:
        raise Truncated(f"nvCOMP ANS plane: expected {count} page lengths, found {len(view)} bytes")
    major, reserved = _HEAD.unpack_from(view)
    if reserved != bytes(3):
        raise UnsupportedVersion(f"nvCOMP ANS plane: expected zero bytes, found {reserved.hex()}")
    pages = []
    for number, (length,) in enumerate(struct.iter_unpack("<I", view[HEAD_BYTES:at])):
        size = min(BLOCK_SYMBOLS, n - number * BLOCK_SYMBOLS)
        most = min(len(view) - at, size + PAGE_SURPLUS_BYTES)
        if not 0 < length <= most:
            raise FormatError(
                f"nvCOMP ANS page {number} at plane byte {at}: expected 1 to {most} bytes, found {length}"
            )
        pages.append((at, length, size))
        at += length
    if at != len(view):
        raise FormatError(f"nvCOMP ANS plane: expected pages that fill {len(view)} bytes, found {at}")
    return major, pages
