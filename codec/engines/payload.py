"""Descriptors and planes of a payload, and the checks that both engines make. Source: docs/format.md, section 2.2."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from ..entropy import decode_plane, encode_bytes
from ..errors import FormatError, Truncated, UnsupportedVersion
from ..types import Buffer, ElementType, Layout, Mode
from .interface import EncodedPayload

_DESCRIPTOR: Final = struct.Struct("<B3sI")


def layout_of(element: ElementType) -> Layout:
    """The layout of an element's planes."""
    return Layout.ROTATED_PLANES if element.is_rotated else Layout.BYTE_PLANES


def make_payload(data: Buffer, element: ElementType, coded: Sequence[tuple[Mode, Buffer]]) -> EncodedPayload:
    """Put descriptors before the planes; raw where that is not smaller than the frame."""
    head = b"".join(_DESCRIPTOR.pack(mode, bytes(3), len(stored)) for mode, stored in coded)
    if len(head) + sum(len(stored) for _, stored in coded) >= len(data):
        return EncodedPayload(Layout.RAW, (), data)
    payload = b"".join([head, *(stored for _, stored in coded)])
    return EncodedPayload(layout_of(element), tuple(mode for mode, _ in coded), payload)


def encode_untyped(data: Buffer) -> EncodedPayload:
    """Bytes without a type: one plane. The same for every engine."""
    return make_payload(data, ElementType.BYTES, [encode_bytes(data)])


def decode_untyped(payload: Buffer, logical_bytes: int) -> bytes:
    """The inverse of encode_untyped. Raises: FormatError."""
    [(mode, stored)] = read_planes(payload, 1)
    return bytes(decode_plane(mode, stored, logical_bytes))


def check_layout(element: ElementType, layout: Layout, planes: int, logical_bytes: int) -> None:
    """Raises: FormatError where a header contradicts itself."""
    if layout is not layout_of(element):
        raise FormatError(f"payload: expected layout {layout_of(element)!r} for {element.name}, found {layout!r}")
    if planes != element.width or logical_bytes % element.width:
        raise FormatError(
            f"payload: expected {element.width} planes and a multiple of {element.width} bytes, "
            f"found {planes} and {logical_bytes}"
        )


def read_planes(payload: Buffer, planes: int) -> list[tuple[Mode, memoryview]]:
    """Mode and stored bytes of every plane. Raises: Truncated, UnsupportedVersion, FormatError."""
    view = memoryview(payload)
    at = planes * _DESCRIPTOR.size
    if len(view) < at:
        raise Truncated(f"payload: expected {planes} descriptors, found {len(view)} bytes")
    found = []
    for k in range(planes):
        code, reserved, length = _DESCRIPTOR.unpack_from(view, k * _DESCRIPTOR.size)
        if reserved != bytes(3):
            raise UnsupportedVersion(f"plane {k}: expected zero bytes in the descriptor, found {reserved.hex()}")
        if code not in {mode.value for mode in Mode}:
            raise UnsupportedVersion(f"plane {k}: expected a known mode, found {code}")
        if length > len(view) - at:
            raise FormatError(
                f"plane {k} at payload byte {at}: expected at most {len(view) - at} bytes, found {length}"
            )
        found.append((Mode(code), view[at : at + length]))
        at += length
    if at != len(view):
        raise FormatError(f"payload: expected planes that fill {len(view)} bytes, found {at}")
    return found
