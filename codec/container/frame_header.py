"""The 40 bytes before every frame's payload. Source: docs/format.md, section 2."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self, TypeVar

from .._native import crc32c
from ..errors import BadMagic, ChecksumMismatch, FormatError, LimitExceeded, Truncated, UnsupportedVersion
from ..limits import MAX_FRAME_BYTES
from ..types import Buffer, ElementType, Layout, Predictor
from .reference import REFERENCE_BYTES

_E = TypeVar("_E", ElementType, Predictor, Layout)

FRAME_MAGIC: Final = b"S4FR"
INDEX_MAGIC: Final = b"S4IX"

_FIELDS: Final = struct.Struct("<4sBBBBQIIQI")
FRAME_HEADER_BYTES: Final = _FIELDS.size + 4


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """start: logical offset. digest: XXH3-64 of the logical bytes. payload_crc: CRC32C of the payload."""

    element: ElementType
    predictor: Predictor
    layout: Layout
    planes: int
    start: int
    logical_bytes: int
    payload_bytes: int
    digest: int
    payload_crc: int

    def to_bytes(self) -> bytes:
        """Return the 40 bytes."""
        fields = _FIELDS.pack(
            FRAME_MAGIC,
            self.element,
            self.predictor,
            self.layout,
            self.planes,
            self.start,
            self.logical_bytes,
            self.payload_bytes,
            self.digest,
            self.payload_crc,
        )
        return fields + struct.pack("<I", crc32c(fields))

    @classmethod
    def parse(cls, data: Buffer, *, where: str = "") -> Self:
        """Read and check a header; its lengths are safe to use afterwards.

        where: what the message names, such as `frame 3 at byte 1048`.
        Raises: Truncated, BadMagic, ChecksumMismatch, UnsupportedVersion, LimitExceeded, FormatError.
        """
        where = where or "frame"
        if len(data) < FRAME_HEADER_BYTES:
            raise Truncated(f"{where}: expected a header of {FRAME_HEADER_BYTES} bytes, found {len(data)}")
        head = bytes(data[:FRAME_HEADER_BYTES])
        if head[:4] != FRAME_MAGIC:
            raise BadMagic(f"{where}: expected magic {FRAME_MAGIC!r}, found {head[:4]!r}")
        stored_crc = int.from_bytes(head[-4:], "little")
        found_crc = crc32c(head[:-4])
        if found_crc != stored_crc:
            raise ChecksumMismatch(f"{where}: expected header CRC32C {stored_crc:08x}, found {found_crc:08x}")
        _, element, predictor, layout, planes, start, logical, payload, digest, payload_crc = _FIELDS.unpack_from(head)
        header = cls(
            element=_known(ElementType, element, where),
            predictor=_known(Predictor, predictor, where),
            layout=_known(Layout, layout, where),
            planes=planes,
            start=start,
            logical_bytes=logical,
            payload_bytes=payload,
            digest=digest,
            payload_crc=payload_crc,
        )
        header._check_lengths(where)
        return header

    def _check_lengths(self, where: str) -> None:
        if not 0 < self.logical_bytes <= MAX_FRAME_BYTES:
            raise LimitExceeded(
                f"{where}: expected a logical length of 1 to {MAX_FRAME_BYTES} bytes, found {self.logical_bytes}"
            )
        if self.payload_bytes > self.logical_bytes:
            raise LimitExceeded(
                f"{where}: expected a payload of at most {self.logical_bytes} bytes, found {self.payload_bytes}"
            )
        if self.logical_bytes % self.element.width:
            raise FormatError(
                f"{where}: expected a multiple of {self.element.width} logical bytes, found {self.logical_bytes}"
            )
        expected = 0 if self.layout is Layout.RAW else self.element.width
        if self.planes != expected:
            raise FormatError(f"{where}: expected {expected} planes, found {self.planes}")
        if not self.predictor.fits(self.element):
            raise FormatError(f"{where}: expected a predictor for {self.element.name}, found {self.predictor!r}")
        if self.layout is Layout.RAW:
            self._check_raw(where)

    def _check_raw(self, where: str) -> None:
        if self.predictor is not Predictor.NONE and not self.predictor.is_frame:
            raise FormatError(f"{where}: expected no predictor of raw bytes, found {self.predictor!r}")
        expected = REFERENCE_BYTES if self.predictor.needs_base else self.logical_bytes
        if self.payload_bytes != expected:
            raise FormatError(f"{where}: expected {expected} raw bytes, found {self.payload_bytes}")


def is_index_next(data: Buffer) -> bool:
    """Whether the bytes after a frame start the index instead of another frame."""
    return bytes(data[:4]) == INDEX_MAGIC


def _known(kind: type[_E], value: int, where: str) -> _E:
    try:
        return kind(value)
    except ValueError:
        raise UnsupportedVersion(f"{where}: expected a known {kind.__name__}, found {value}") from None
