"""Container in, body out: container -> engine (entropy, planes) -> frames; whole, by range, or front to back."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import xxhash

from ._native import crc32c
from .container import (
    FRAME_HEADER_BYTES,
    HEADER_BYTES,
    INDEX_HEADER_BYTES,
    REFERENCE_BYTES,
    TRAILER_BYTES,
    BaseBody,
    FrameHeader,
    FrameSpan,
    Index,
    Trailer,
    check_header,
    is_index_next,
    parse_index,
    parse_reference,
)
from .engines import DeviceEngine, Engine
from .errors import ChecksumMismatch, FormatError, MissingBase, Truncated
from .types import BaseRange, Buffer, Layout

ReadBase = Callable[[BaseRange], Buffer]


def decode_frame(
    stored: Buffer,
    engine: Engine,
    *,
    expected: FrameSpan | None = None,
    where: str = "",
    base: Buffer | None = None,
) -> bytes:
    """Decode one frame (header and payload) and check every hash of it. Thread-safe.

    expected: what the index says of the frame. where: what messages name, such as an object's key. base: the bytes that
    read_reference names.
    Raises: FormatError, never wrong bytes; MissingBase where base is needed and None.
    """
    place = _place(where, expected)
    header, payload = _open_frame(stored, expected, place)
    if header.predictor.needs_base and base is None:
        needed = _base_range(header, payload, place)
        raise MissingBase(f"{place}: expected {needed}, found no base")
    body = _decode_payload(payload, header, engine, place, base)
    digest = xxhash.xxh3_64_intdigest(body)
    if digest != header.digest and isinstance(engine, DeviceEngine):
        body = _decode_payload(payload, header, engine.second, place, base)
        digest = xxhash.xxh3_64_intdigest(body)
        if digest == header.digest:
            engine.was_wrong()
    if digest != header.digest:
        raise ChecksumMismatch(f"{place}: expected XXH3-64 {header.digest:016x}, found {digest:016x}")
    return body


def read_reference(stored: Buffer, *, expected: FrameSpan | None = None, where: str = "") -> BaseRange | None:
    """What a frame (header and payload) is predicted from: to be read, checked (check_reference) and given to decode_frame.

    Raises: FormatError.
    """
    place = _place(where, expected)
    header, payload = _open_frame(stored, expected, place)
    return _base_range(header, payload, place) if header.predictor.needs_base else None


def check_reference(needed: BaseRange, bases: Sequence[BaseBody], *, frame_start: int, where: str = "frame") -> None:
    """Whether a range can be what a frame at logical byte frame_start is predicted from.

    Of a range in the frame's own body the caller sees to it too that no frame there refers to that body (refers_to_itself).
    Raises: MissingBase where the container has no such base; FormatError where the range ends too late.
    """
    number = needed.reference.number
    if number > len(bases):
        raise MissingBase(f"{where}: expected a base of 1 to {len(bases)}, found {number}")
    size = bases[number - 1].size if number else frame_start
    if needed.reference.start + needed.length > size:
        name = repr(bases[number - 1].key) if number else "the body before the frame"
        raise FormatError(
            f"{where}: expected a range in the {size} bytes of {name}, found {needed.reference.start} + {needed.length}"
        )


def refers_to_itself(needed: BaseRange | None) -> bool:
    """Whether a frame is predicted from its own body, so that no other frame of it may be predicted from this one."""
    return needed is not None and needed.reference.number == 0


def _open_frame(stored: Buffer, expected: FrameSpan | None, place: str) -> tuple[FrameHeader, memoryview]:
    """Header and payload, whose bytes are those that were written."""
    header = FrameHeader.parse(stored, where=place)
    if len(stored) != FRAME_HEADER_BYTES + header.payload_bytes:
        raise Truncated(
            f"{place}: expected {FRAME_HEADER_BYTES + header.payload_bytes} stored bytes, found {len(stored)}"
        )
    if expected and (header.start, header.logical_bytes) != (expected.start, expected.logical_bytes):
        raise FormatError(
            f"{place}: expected logical bytes {expected.start} + {expected.logical_bytes}, "
            f"found {header.start} + {header.logical_bytes}"
        )
    payload = memoryview(stored)[FRAME_HEADER_BYTES:]
    found_crc = crc32c(payload)
    if found_crc != header.payload_crc:
        raise ChecksumMismatch(f"{place}: expected payload CRC32C {header.payload_crc:08x}, found {found_crc:08x}")
    return header, payload


def _base_range(header: FrameHeader, payload: Buffer, place: str) -> BaseRange:
    kind = header.predictor.base_kind
    return BaseRange(parse_reference(payload, where=place), kind, kind.base_bytes(header.logical_bytes))


def _decode_payload(payload: memoryview, header: FrameHeader, engine: Engine, place: str, base: Buffer | None) -> bytes:
    if header.layout is Layout.RAW and base is None:
        return bytes(payload)
    if base is not None:
        payload = payload[REFERENCE_BYTES:]
    try:
        return engine.decode(
            payload, header.element, header.predictor, header.layout, header.planes, header.logical_bytes, base
        )
    except FormatError as error:
        raise type(error)(f"{place}: {error}") from None


def _place(where: str, span: FrameSpan | None) -> str:
    frame = f"frame {span.number} at stored byte {span.stored_start}" if span else "frame"
    return f"{where}: {frame}" if where else frame


@dataclass(frozen=True, slots=True)
class Tail:
    """What the end of a container says. index: None where data did not reach back to it."""

    trailer: Trailer
    index: Index | None


def read_tail(data: Buffer, *, object_bytes: int) -> Tail:
    """Read the trailer, and the index where it lies whole within data, the last bytes of the stored object.

    Raises: FormatError.
    """
    trailer = Trailer.parse(data, object_bytes=object_bytes)
    from_end = object_bytes - trailer.index_offset
    if from_end > len(data):
        return Tail(trailer, None)
    start = len(data) - from_end
    return Tail(trailer, parse_index(memoryview(data)[start : start + trailer.index_bytes], trailer))


class Source(Protocol):
    """Where a container is read from, front to back."""

    def read(self, size: int, /) -> bytes: ...


def iter_body(
    source: Source, engine: Engine, *, where: str = "container", read_base: ReadBase | None = None
) -> Iterator[bytes]:
    """Yield the body frame by frame, front to back, and check all of it, index and trailer included.

    read_base: gives the bytes of other bodies, and those of this one that were yielded before; checks the former's numbers.
    Raises: FormatError where the stored bytes are not one whole container, after every frame that is.
    """
    check_header(_read_exactly(source, HEADER_BYTES, where))
    digest = xxhash.xxh3_128()
    logical: list[int] = []
    stored = HEADER_BYTES
    start = 0
    twins = _Twins()
    while True:
        head = _read_exactly(source, 4, where)
        if is_index_next(head):
            break
        head += _read_exactly(source, FRAME_HEADER_BYTES - 4, where)
        place = f"{where}: frame {len(logical)} at stored byte {stored}"
        header = FrameHeader.parse(head, where=place)
        payload = _read_exactly(source, header.payload_bytes, place)
        span = FrameSpan(len(logical), start, header.logical_bytes, stored, len(head) + len(payload))
        needed = read_reference(head + payload, expected=span, where=where) if header.predictor.needs_base else None
        base = None
        if needed is not None and read_base is not None:
            twins.check(needed, span, place)
            base = read_base(needed)
        body = decode_frame(head + payload, engine, expected=span, where=where, base=base)
        digest.update(body)
        logical.append(len(body))
        start += len(body)
        stored += span.stored_bytes
        yield body
    _check_end(source, head, digest.digest(), start, stored, where)


class _Twins:
    """The frames so far that are predicted from their own body."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def check(self, needed: BaseRange, span: FrameSpan, place: str) -> None:
        """Raises: FormatError where a frame is predicted from bytes that are behind it, or from one of these."""
        if not refers_to_itself(needed):
            return
        check_reference(needed, (), frame_start=span.start, where=place)
        first = bisect_right(self._ends, needed.reference.start)
        if first < len(self._starts) and self._starts[first] < needed.reference.start + needed.length:
            raise FormatError(
                f"{place}: expected a base in this body that needs none of it, found one at byte {self._starts[first]}"
            )
        self._starts.append(span.start)
        self._ends.append(span.end)


def _check_end(source: Source, head: bytes, digest: bytes, logical: int, stored: int, where: str) -> None:
    head += _read_exactly(source, INDEX_HEADER_BYTES - 4, where)
    payload_bytes = int.from_bytes(head[16:20], "little")
    index = head + _read_exactly(source, payload_bytes, f"{where}: index")
    tail = _read_exactly(source, TRAILER_BYTES, f"{where}: trailer")
    if source.read(1):
        raise FormatError(f"{where}: expected the end after the trailer at stored byte {stored}, found more bytes")
    trailer = Trailer.parse(tail, object_bytes=stored + len(index) + TRAILER_BYTES)
    parse_index(index, trailer)
    if trailer.logical_bytes != logical:
        raise FormatError(f"{where}: expected {trailer.logical_bytes} logical bytes, found {logical}")
    if trailer.digest != digest:
        raise ChecksumMismatch(f"{where}: expected XXH3-128 {trailer.digest.hex()}, found {digest.hex()}")


def _read_exactly(source: Source, size: int, where: str) -> bytes:
    """Read size bytes in bounded steps, since a raw source may give fewer, and size is not yet proved."""
    pieces: list[bytes] = []
    missing = size
    while missing and (piece := source.read(min(missing, 1 << 20))):
        pieces.append(piece)
        missing -= len(piece)
    if missing:
        raise Truncated(f"{where}: expected {size} bytes, found {size - missing}")
    return b"".join(pieces)
