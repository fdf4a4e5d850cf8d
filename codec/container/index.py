"""Where every frame lies, and what the body is made of. Source: docs/format.md, section 1.3."""

from __future__ import annotations

import bisect
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import numpy as np
import zstandard

from .._native import crc32c
from ..errors import BadMagic, ChecksumMismatch, FormatError, LimitExceeded, Truncated
from ..limits import MAX_FRAME_BYTES, MAX_INDEX_BYTES, MAX_INDEX_VALUES
from ..types import Buffer
from .frame_header import FRAME_HEADER_BYTES, INDEX_MAGIC
from .header import HEADER_BYTES
from .trailer import Trailer

_HEAD: Final = struct.Struct("<4sIQII")
INDEX_HEADER_BYTES: Final = _HEAD.size
_LEVEL: Final = 3


@dataclass(frozen=True, slots=True)
class FrameSpan:
    """One frame's place. stored_*: with its header. number: counted from 0."""

    number: int
    start: int
    logical_bytes: int
    stored_start: int
    stored_bytes: int

    @property
    def end(self) -> int:
        """First logical byte behind the frame."""
        return self.start + self.logical_bytes


class Index:
    """Frame spans of one container, found by logical offset."""

    def __init__(self, logical_lengths: Sequence[int], stored_lengths: Sequence[int], about: Mapping[str, Any]) -> None:
        self._starts = [0, *accumulate(logical_lengths)]
        self._stored_starts = [HEADER_BYTES, *accumulate(stored_lengths, initial=HEADER_BYTES)][1:]
        self.about: Mapping[str, Any] = about

    def __len__(self) -> int:
        return len(self._starts) - 1

    @property
    def logical_bytes(self) -> int:
        """Size of the body."""
        return self._starts[-1]

    @property
    def frames_end(self) -> int:
        """Stored offset behind the last frame."""
        return self._stored_starts[-1]

    def span(self, number: int) -> FrameSpan:
        """The place of one frame."""
        start, end = self._starts[number], self._starts[number + 1]
        stored, stored_end = self._stored_starts[number], self._stored_starts[number + 1]
        return FrameSpan(number, start, end - start, stored, stored_end - stored)

    def spans(self, first: int = 0, length: int | None = None) -> list[FrameSpan]:
        """The frames that hold logical bytes first to first + length, in order."""
        end = self.logical_bytes if length is None else min(first + length, self.logical_bytes)
        if first >= end:
            return []
        low = bisect.bisect_right(self._starts, first) - 1
        high = bisect.bisect_left(self._starts, end)
        return [self.span(number) for number in range(low, high)]


def make_index(logical_lengths: Sequence[int], stored_lengths: Sequence[int], about: Mapping[str, Any]) -> bytes:
    """Return the index of frames with these lengths (stored ones with their headers), and what is known of the body."""
    columns = np.array([*logical_lengths, *stored_lengths], dtype="<u4").tobytes()
    text = json.dumps(about, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    plain = columns + text
    if len(plain) > MAX_INDEX_BYTES:
        raise LimitExceeded(f"index: expected at most {MAX_INDEX_BYTES} bytes, found {len(plain)}")
    packed = zstandard.ZstdCompressor(level=_LEVEL, write_content_size=True).compress(plain)
    return _HEAD.pack(INDEX_MAGIC, len(logical_lengths), len(plain), len(packed), crc32c(packed)) + packed


def parse_index(data: Buffer, trailer: Trailer) -> Index:
    """Read the index and check it against the trailer.

    data: the index_bytes stored bytes at index_offset.
    Raises: Truncated, BadMagic, ChecksumMismatch, LimitExceeded, FormatError.
    """
    if len(data) < INDEX_HEADER_BYTES or len(data) != trailer.index_bytes:
        raise Truncated(f"index: expected {max(trailer.index_bytes, INDEX_HEADER_BYTES)} bytes, found {len(data)}")
    magic, frames, plain_bytes, packed_bytes, stored_crc = _HEAD.unpack_from(data)
    if magic != INDEX_MAGIC:
        raise BadMagic(f"index: expected magic {INDEX_MAGIC!r}, found {magic!r}")
    packed = bytes(data[INDEX_HEADER_BYTES:])
    if packed_bytes != len(packed):
        raise FormatError(f"index: expected a payload of {len(packed)} bytes, found {packed_bytes}")
    found_crc = crc32c(packed)
    if found_crc != stored_crc:
        raise ChecksumMismatch(f"index: expected CRC32C {stored_crc:08x}, found {found_crc:08x}")
    if frames != trailer.frames:
        raise FormatError(f"index: expected {trailer.frames} frames, found {frames}")
    if not 8 * frames <= plain_bytes <= MAX_INDEX_BYTES:
        raise LimitExceeded(f"index: expected {8 * frames} to {MAX_INDEX_BYTES} bytes, found {plain_bytes}")
    plain = _inflate(packed, plain_bytes)
    columns = np.frombuffer(plain, dtype="<u4", count=2 * frames)
    _check_lengths(columns[:frames], columns[frames:], trailer)
    return Index(columns[:frames].tolist(), columns[frames:].tolist(), _about(plain[8 * frames :]))


def _check_lengths(logical: np.ndarray, stored: np.ndarray, trailer: Trailer) -> None:
    if len(logical) and (int(logical.min()) < 1 or int(logical.max()) > MAX_FRAME_BYTES):
        raise LimitExceeded(
            f"index: expected frames of 1 to {MAX_FRAME_BYTES} bytes, found {logical.min()} to {logical.max()}"
        )
    if np.any(stored.astype(np.int64) > logical.astype(np.int64) + FRAME_HEADER_BYTES) or np.any(
        stored < FRAME_HEADER_BYTES
    ):
        raise LimitExceeded("index: expected stored lengths of a frame header up to header and body, found another")
    logical_bytes, frames_end = int(logical.sum(dtype=np.int64)), HEADER_BYTES + int(stored.sum(dtype=np.int64))
    if logical_bytes != trailer.logical_bytes or frames_end != trailer.index_offset:
        raise FormatError(
            f"index: expected {trailer.logical_bytes} logical bytes in frames up to byte {trailer.index_offset}, "
            f"found {logical_bytes} up to byte {frames_end}"
        )


def _inflate(packed: bytes, plain_bytes: int) -> bytes:
    # Read in steps: the announced length is bounded, and still nothing is allocated before it has been decoded.
    pieces: list[bytes] = []
    found = 0
    try:
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed) as reader:
            while found <= plain_bytes and (piece := reader.read(1 << 20)):
                pieces.append(piece)
                found += len(piece)
    except zstandard.ZstdError as error:
        raise FormatError(f"index: expected a zstd frame of {plain_bytes} bytes, found: {error}") from None
    if found != plain_bytes:
        raise Truncated(f"index: expected {plain_bytes} uncompressed bytes, found {found}")
    return b"".join(pieces)


def _about(text: bytes) -> Mapping[str, Any]:
    values = sum(text.count(mark) for mark in (b"{", b"[", b","))
    if values > MAX_INDEX_VALUES:
        raise LimitExceeded(f"index: expected at most {MAX_INDEX_VALUES} brackets and commas, found {values}")
    try:
        about = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"index: expected a JSON object, found: {error}") from None
    if not isinstance(about, dict):
        raise FormatError(f"index: expected a JSON object, found {type(about).__name__}")
    return about
