"""The last 128 bytes of a container: all that a listing needs. Source: docs/format.md, section 1.2."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Final, Self

from .._native import crc32c
from ..errors import BadMagic, ChecksumMismatch, FormatError, LimitExceeded, Truncated, UnsupportedVersion
from ..types import Buffer
from .header import HEADER_BYTES, VERSION

_START_MAGIC: Final = b"S4TR"
_END_MAGIC: Final = b"S4WE"
_HAS_ETAG: Final = 1
# S3's own bound on the parts of one upload.
_MAX_PARTS: Final = 10_000

_FIELDS: Final = struct.Struct("<4sHHQQQII16s16sI44x")
TRAILER_BYTES: Final = _FIELDS.size + 8
_ETAG: Final = re.compile(r"([0-9a-f]{32})(?:-([1-9][0-9]{0,4}))?")


@dataclass(frozen=True, slots=True)
class LogicalETag:
    """The ETag S3 would give the body. md5: 16 bytes. parts: 0 for a plain one, N for `md5-N`."""

    md5: bytes
    parts: int = 0

    def __str__(self) -> str:
        return f"{self.md5.hex()}-{self.parts}" if self.parts else self.md5.hex()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `md5` or `md5-N`, without quotes. Raises: FormatError."""
        match = _ETAG.fullmatch(text)
        if match is None:
            raise FormatError(f"ETag: expected md5 or md5-N in hex, found {text!r}")
        return cls(bytes.fromhex(match[1]), int(match[2] or 0))


@dataclass(frozen=True, slots=True)
class Trailer:
    """digest: XXH3-128 of the body, canonical bytes. index_offset and all sizes in stored bytes but logical_bytes."""

    logical_bytes: int
    stored_bytes: int
    index_offset: int
    index_bytes: int
    frames: int
    digest: bytes
    etag: LogicalETag | None = None

    def to_bytes(self) -> bytes:
        """Return the 128 bytes."""
        etag = self.etag or LogicalETag(bytes(16))
        fields = _FIELDS.pack(
            _START_MAGIC,
            VERSION,
            _HAS_ETAG if self.etag else 0,
            self.logical_bytes,
            self.stored_bytes,
            self.index_offset,
            self.index_bytes,
            self.frames,
            self.digest,
            etag.md5,
            etag.parts,
        )
        return fields + struct.pack("<I", crc32c(fields)) + _END_MAGIC

    @classmethod
    def parse(cls, data: Buffer, *, object_bytes: int) -> Self:
        """Read the trailer from the end of data and check it against the size of the stored object.

        Raises: Truncated, BadMagic, ChecksumMismatch, UnsupportedVersion, LimitExceeded, FormatError.
        """
        if len(data) < TRAILER_BYTES:
            raise Truncated(f"trailer: expected {TRAILER_BYTES} bytes, found {len(data)}")
        raw = bytes(data[len(data) - TRAILER_BYTES :])
        fields, stored_crc, end_magic = raw[:-8], int.from_bytes(raw[-8:-4], "little"), raw[-4:]
        if end_magic != _END_MAGIC or raw[:4] != _START_MAGIC:
            raise BadMagic(
                f"trailer: expected {_START_MAGIC!r} ... {_END_MAGIC!r} in the last {TRAILER_BYTES} bytes, "
                f"found {raw[:4]!r} ... {end_magic!r}"
            )
        found_crc = crc32c(fields)
        if found_crc != stored_crc:
            raise ChecksumMismatch(f"trailer: expected CRC32C {stored_crc:08x}, found {found_crc:08x}")
        _, version, flags, logical, stored, index_offset, index_bytes, frames, digest, md5, parts = _FIELDS.unpack(
            fields
        )
        if version != VERSION or flags & ~_HAS_ETAG:
            raise UnsupportedVersion(f"trailer: expected version {VERSION}, found {version}, flags {flags:#x}")
        if parts > _MAX_PARTS:
            raise LimitExceeded(f"trailer: expected at most {_MAX_PARTS} parts, found {parts}")
        if stored != object_bytes:
            raise Truncated(f"container: expected {stored} stored bytes, found {object_bytes}")
        if index_offset < HEADER_BYTES or index_offset + index_bytes + TRAILER_BYTES != stored:
            raise FormatError(
                f"trailer: expected an index that ends at byte {stored - TRAILER_BYTES}, "
                f"found offset {index_offset} and {index_bytes} bytes"
            )
        return cls(
            logical_bytes=logical,
            stored_bytes=stored,
            index_offset=index_offset,
            index_bytes=index_bytes,
            frames=frames,
            digest=digest,
            etag=LogicalETag(md5, parts) if flags & _HAS_ETAG else None,
        )


def looks_like_trailer(data: Buffer) -> bool:
    """Whether data ends like a container; parse() says whether it really is one."""
    return len(data) >= TRAILER_BYTES and bytes(data[len(data) - 4 :]) == _END_MAGIC
