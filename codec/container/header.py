"""The first 16 bytes of a container. Source: docs/format.md, section 1.1."""

from __future__ import annotations

import struct
from typing import Final

from .._native import crc32c
from ..errors import BadMagic, ChecksumMismatch, FormatError, Truncated, UnsupportedVersion
from ..types import CONTAINER_MAGIC, Buffer

MAGIC: Final = CONTAINER_MAGIC
VERSION: Final = 1

_LAYOUT: Final = struct.Struct("<8sHHI")
HEADER_BYTES: Final = _LAYOUT.size


def make_header() -> bytes:
    """Return the header of a version 1 container."""
    head = struct.pack("<8sHH", MAGIC, VERSION, 0)
    return head + struct.pack("<I", crc32c(head))


def check_header(data: Buffer) -> None:
    """Check that data starts with a header that this reader knows.

    Raises: Truncated, BadMagic, ChecksumMismatch, UnsupportedVersion.
    """
    if len(data) < HEADER_BYTES:
        raise Truncated(f"container header: expected {HEADER_BYTES} bytes, found {len(data)}")
    magic, version, flags, checksum = _LAYOUT.unpack_from(data)
    if magic != MAGIC:
        raise BadMagic(f"container header: expected magic {MAGIC!r}, found {magic!r}")
    found = crc32c(bytes(data[: HEADER_BYTES - 4]))
    if found != checksum:
        raise ChecksumMismatch(f"container header: expected CRC32C {checksum:08x}, found {found:08x}")
    if version != VERSION or flags:
        raise UnsupportedVersion(
            f"container header: expected version {VERSION}, flags 0, found {version}, flags {flags:#x}"
        )


def starts_container(data: Buffer) -> bool:
    """Whether data begins as a container does, of this version or of one that this reader does not know."""
    try:
        check_header(data)
    except UnsupportedVersion:
        return True
    except FormatError:
        return False
    return True
