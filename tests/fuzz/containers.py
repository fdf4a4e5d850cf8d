"""Hostile containers: header, frames, index and trailer give the body, or a FormatError.

Checksums are made right again in most inputs, so that what lies behind them is judged too.
"""

from __future__ import annotations

import io

import numpy as np
import xxhash
import zstandard

from s4weights.codec._native import crc32c
from s4weights.codec.container import FRAME_HEADER_BYTES, HEADER_BYTES, INDEX_HEADER_BYTES, TRAILER_BYTES, FrameHeader
from s4weights.codec.decode import iter_body, read_tail
from s4weights.codec.engines import NativeEngine
from s4weights.codec.errors import FormatError
from s4weights.codec.types import Level
from tests.codec.samples import normal, pack, safetensors_raw

_ENGINE = NativeEngine()


def one(data: bytes) -> None:
    """data: whether checksums are made right (bit 0), and the index packed again (bit 1); then a container."""
    if not data:
        return
    stored = data[1:]
    if data[0] & 1:
        stored = sealed(stored, repack=bool(data[0] & 2))
    try:
        body = b"".join(iter_body(io.BytesIO(stored), _ENGINE))
    except FormatError:
        body = None
    try:
        tail = read_tail(stored, object_bytes=len(stored))
    except FormatError:
        assert body is None, "iter_body reads what read_tail refuses"
        return
    if body is not None:
        assert tail.trailer.logical_bytes == len(body)
    if tail.index is not None:
        spans = tail.index.spans()
        assert sum(span.logical_bytes for span in spans) == tail.trailer.logical_bytes


def sealed(stored: bytes, *, repack: bool) -> bytes:
    """The same with right checksums, as far as its own lengths lead."""
    data = bytearray(stored)
    _seal(data, 0, HEADER_BYTES - 4)
    at = HEADER_BYTES
    while data[at : at + 4] == b"S4FR" and at + FRAME_HEADER_BYTES <= len(data):
        payload = int.from_bytes(data[at + 20 : at + 24], "little")
        start = at + FRAME_HEADER_BYTES
        data[at + 32 : at + 36] = crc32c(bytes(data[start : start + payload])).to_bytes(4, "little")
        _seal(data, at, FRAME_HEADER_BYTES - 4)
        _match_digest(data, at, start, payload)
        at = start + payload
    if data[at : at + 4] == b"S4IX" and len(data) - TRAILER_BYTES - at > INDEX_HEADER_BYTES:
        packed = bytes(data[at + INDEX_HEADER_BYTES : len(data) - TRAILER_BYTES])
        if repack:  # the index lies there as plain bytes
            plain = packed
            packed = zstandard.compress(plain)
            data[at + INDEX_HEADER_BYTES : len(data) - TRAILER_BYTES] = packed
            data[at + 8 : at + 16] = len(plain).to_bytes(8, "little")
            end = len(data) - TRAILER_BYTES
            data[end + 16 : end + 24] = len(data).to_bytes(8, "little")
            data[end + 32 : end + 36] = (len(packed) + INDEX_HEADER_BYTES).to_bytes(4, "little")
        data[at + 16 : at + 20] = len(packed).to_bytes(4, "little")
        data[at + 20 : at + 24] = crc32c(packed).to_bytes(4, "little")
    if len(data) >= TRAILER_BYTES:
        _seal(data, len(data) - TRAILER_BYTES, TRAILER_BYTES - 8)
    return bytes(data)


def plain_index(stored: bytes) -> bytes:
    """A container whose index is not packed: what `repack` takes."""
    trailer = read_tail(stored, object_bytes=len(stored)).trailer
    at = trailer.index_offset
    packed = stored[at + INDEX_HEADER_BYTES : at + trailer.index_bytes]
    return stored[: at + INDEX_HEADER_BYTES] + zstandard.decompress(packed) + stored[at + trailer.index_bytes :]


def seeds() -> list[bytes]:
    """Containers of a few frames, of every layout."""
    tensor = {"w": {"dtype": "BF16", "shape": [50, 60], "data_offsets": [0, 6_000]}}
    moments = {"m": {"dtype": "F32", "shape": [40, 48], "data_offsets": [0, 7_680]}}
    rows = np.exp(np.add.outer(np.arange(40) % 7, np.arange(48) % 5) * 3.0).astype("<f4").tobytes()
    bodies = [b"", bytes(64), b"text " * 50, safetensors_raw(tensor, normal(3_000)), safetensors_raw(moments, rows)]
    found = []
    for body in bodies:
        for level in (Level.FAST, Level.BALANCED):
            stored = pack(body, level=level)[0]
            found += [b"\0" + stored, b"\1" + stored, b"\3" + plain_index(stored)]
    return found


def _seal(data: bytearray, start: int, length: int) -> None:
    data[start + length : start + length + 4] = crc32c(bytes(data[start : start + length])).to_bytes(4, "little")


def _match_digest(data: bytearray, at: int, start: int, payload: int) -> None:
    """Let the frame's hash be that of what its payload decodes to, where it does."""
    try:
        header = FrameHeader.parse(bytes(data[at:start]))
        body = _ENGINE.decode(
            bytes(data[start : start + payload]),
            header.element,
            header.predictor,
            header.layout,
            header.planes,
            header.logical_bytes,
        )
    except FormatError:
        return
    data[at + 24 : at + 32] = xxhash.xxh3_64_intdigest(body).to_bytes(8, "little")
    _seal(data, at, FRAME_HEADER_BYTES - 4)
