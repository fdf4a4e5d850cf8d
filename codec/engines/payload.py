"""Descriptors and planes of a payload, bytes without a type, and the checks that all engines make.

Source: docs/format.md, sections 2.2 and 5.6.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from .. import levels
from ..entropy import decode_plane, is_constant, zstd
from ..errors import FormatError, Truncated, UnsupportedVersion
from ..types import Buffer, ElementType, Layout, Level, Mode, Predictor
from .interface import EncodedPayload

_DESCRIPTOR: Final = struct.Struct("<B3sI")
DESCRIPTOR_BYTES: Final = _DESCRIPTOR.size

# Rotary tables, tiled masks and copies of rows repeat; noise does not repeat 64 bytes.
_REPEATED_BYTES: Final = 64
_REPEATED_WITHIN_BYTES: Final = 1 << 15

_ZSTD_EFFORT: Final = {Level.FAST: 1, Level.BALANCED: 3, Level.SMALL: 12}

CodedPlane = tuple[Mode, Buffer]


def raw_payload(data: Buffer, element: ElementType) -> EncodedPayload:
    """The logical bytes themselves."""
    return EncodedPayload(element, Predictor.NONE, Layout.RAW, (), data)


def join_payload(head: bytes, coded: Sequence[CodedPlane]) -> bytes:
    """What a predictor needs, descriptors, planes."""
    descriptors = (_DESCRIPTOR.pack(mode, bytes(3), len(stored)) for mode, stored in coded)
    return b"".join([head, *descriptors, *(stored for _, stored in coded)])


def read_planes(payload: Buffer, planes: int, at: int = 0) -> list[tuple[Mode, memoryview]]:
    """Mode and stored bytes of every plane. at: the payload byte where the descriptors begin.

    Raises: Truncated, UnsupportedVersion, FormatError.
    """
    view = memoryview(payload)
    first, at = at, at + planes * DESCRIPTOR_BYTES
    if len(view) < at:
        raise Truncated(f"payload: expected {planes} descriptors from byte {first}, found {len(view)} bytes")
    found = []
    for k in range(planes):
        where = first + k * DESCRIPTOR_BYTES
        code, reserved, length = _DESCRIPTOR.unpack_from(view, where)
        if reserved != bytes(3):
            raise UnsupportedVersion(
                f"descriptor {k} at payload byte {where}: expected zero bytes, found {reserved.hex()}"
            )
        if code not in {mode.value for mode in Mode}:
            raise UnsupportedVersion(f"descriptor {k} at payload byte {where}: expected a known mode, found {code}")
        if length > len(view) - at:
            raise FormatError(
                f"descriptor {k} at payload byte {where}: expected a plane of at most {len(view) - at} bytes, found {length}"
            )
        found.append((Mode(code), view[at : at + length]))
        at += length
    if at != len(view):
        raise FormatError(f"payload: expected planes that fill {len(view)} bytes, found {at}")
    return found


def stored_modes(payload: Buffer, predictor: Predictor, planes: int) -> tuple[Mode, ...]:
    """The modes of an element's planes. Raises: as read_planes."""
    if predictor is Predictor.NONE:
        return tuple(mode for mode, _ in read_planes(payload, planes))
    at = levels.HEAD_BYTES
    if len(payload) < at:
        raise Truncated(f"payload: expected {at} bytes of the predictor, found {len(payload)}")
    columns = int.from_bytes(memoryview(payload)[:4], "little")
    level_planes = 2 if columns else 0
    return tuple(mode for mode, _ in read_planes(payload, level_planes + planes, at)[level_planes:])


def check_layout(element: ElementType, predictor: Predictor, layout: Layout, planes: int, logical_bytes: int) -> None:
    """For a payload with planes. Raises: FormatError where its header contradicts itself."""
    if layout is Layout.RAW or element.is_float != (layout is not Layout.PLANES):
        expected = "layout 2 to 5" if element.is_float else "layout 1"
        raise FormatError(f"payload: expected {expected} for {element.name}, found {layout!r}")
    if predictor is not Predictor.NONE and not element.is_float:
        raise FormatError(f"payload: expected no predictor for {element.name}, found {predictor!r}")
    if planes != element.width or logical_bytes % element.width or logical_bytes == 0:
        raise FormatError(
            f"payload: expected {element.width} planes and a multiple of {element.width} bytes, "
            f"found {planes} and {logical_bytes}"
        )


def encode_untyped(data: Buffer, level: Level) -> EncodedPayload:
    """Bytes without a type: one plane, of at least one byte."""
    mode, stored = _encode_bytes(data, level)
    payload = join_payload(b"", [(mode, stored)])
    if len(payload) >= len(data):
        return raw_payload(data, ElementType.BYTES)
    return EncodedPayload(ElementType.BYTES, Predictor.NONE, Layout.PLANES, (mode,), payload)


def decode_untyped(payload: Buffer, logical_bytes: int) -> bytes:
    """The inverse of encode_untyped. Raises: FormatError."""
    [(mode, stored)] = read_planes(payload, 1)
    return bytes(decode_named(mode, stored, logical_bytes, f"plane 0 at payload byte {DESCRIPTOR_BYTES}"))


def decode_named(mode: Mode, stored: Buffer, n: int, where: str) -> Buffer:
    """decode_plane, with the place in what it raises."""
    try:
        return decode_plane(mode, stored, n)
    except FormatError as error:
        raise type(error)(f"{where}: {error}") from None


def better_untyped(coded: EncodedPayload, data: Buffer, element: ElementType, level: Level) -> EncodedPayload:
    """The smaller of a typed frame's payload and of the same bytes' without a type; floats only where they repeat."""
    if level is Level.FAST or (element.is_float and not _repeats(data)):
        return coded
    untyped = encode_untyped(data, level)
    return untyped if len(untyped.payload) < len(coded.payload) else coded


def _encode_bytes(data: Buffer, level: Level) -> CodedPlane:
    if is_constant(data):
        return Mode.CONSTANT, bytes(data[:1])
    if level is not Level.SMALL and len(data) >= zstd.LONG_BYTES and zstd.looks_dense(data):
        return Mode.RAW, data
    stored = zstd.encode(data, _ZSTD_EFFORT[level])
    return (Mode.ZSTD, stored) if len(stored) < len(data) else (Mode.RAW, data)


def _repeats(data: Buffer) -> bool:
    """Whether a frame's first bytes come again, and not at once."""
    start = bytes(memoryview(data)[:_REPEATED_WITHIN_BYTES])
    return start.find(start[:_REPEATED_BYTES], 1) >= _REPEATED_BYTES
