"""Descriptors and planes of a payload, bytes without a type, and the checks that all engines make.

Source: docs/format.md, sections 2.2 and 5.6.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from .. import levels
from ..container import REFERENCE_BYTES
from ..entropy import decode_plane, is_constant, zstd
from ..errors import FormatError, Truncated, UnsupportedVersion
from ..types import Base, BaseKind, Buffer, ElementType, Layout, Level, Mode, Predictor
from .interface import EncodedPayload

_DESCRIPTOR: Final = struct.Struct("<B3sI")
DESCRIPTOR_BYTES: Final = _DESCRIPTOR.size

# Rotary tables, tiled masks and copies of rows repeat; noise does not repeat 64 bytes.
_REPEATED_BYTES: Final = 64
_REPEATED_WITHIN_BYTES: Final = 1 << 15

_ZSTD_EFFORT: Final = {Level.FAST: 1, Level.BALANCED: 3, Level.SMALL: 12}

_MODES: Final = frozenset(mode.value for mode in Mode)

CodedPlane = tuple[Mode, Buffer]


def raw_payload(data: Buffer, element: ElementType) -> EncodedPayload:
    """The logical bytes themselves."""
    return EncodedPayload(element, Predictor.NONE, Layout.RAW, (), data)


def same_as_base(element: ElementType, predictor: Predictor, base: int) -> EncodedPayload:
    """A frame that is just what the base of that number among those offered predicts."""
    return EncodedPayload(element, predictor, Layout.RAW, (), b"", base)


def join_payload(head: bytes, coded: Sequence[CodedPlane]) -> bytes:
    """What a predictor needs, descriptors, planes."""
    return b"".join([head, join_descriptors((mode, len(stored)) for mode, stored in coded), *(one for _, one in coded)])


def join_descriptors(planes: Iterable[tuple[Mode, int]]) -> bytes:
    """Of modes and stored bytes."""
    return b"".join(_DESCRIPTOR.pack(mode, bytes(3), length) for mode, length in planes)


def read_planes(payload: Buffer, planes: int, at: int = 0) -> list[tuple[Mode, memoryview]]:
    """Mode and stored bytes of every plane. at: the payload byte where the descriptors begin.

    Raises: Truncated, UnsupportedVersion, FormatError.
    """
    view = memoryview(payload)
    found = read_descriptors(view, len(view), planes, at)
    return [(mode, view[start : start + length]) for mode, start, length in found]


def read_descriptors(head: Buffer, payload_bytes: int, planes: int, at: int = 0) -> list[tuple[Mode, int, int]]:
    """Mode, first byte and length of every plane of a payload. head: at least its bytes up to the planes', or all there are.

    Raises: as read_planes.
    """
    first, at = at, at + planes * DESCRIPTOR_BYTES
    if payload_bytes < at:
        raise Truncated(f"payload: expected {planes} descriptors from byte {first}, found {payload_bytes} bytes")
    found = []
    for k in range(planes):
        where = first + k * DESCRIPTOR_BYTES
        code, reserved, length = _DESCRIPTOR.unpack_from(head, where)
        if reserved != bytes(3):
            raise UnsupportedVersion(
                f"descriptor {k} at payload byte {where}: expected zero bytes, found {reserved.hex()}"
            )
        if code not in _MODES:
            raise UnsupportedVersion(f"descriptor {k} at payload byte {where}: expected a known mode, found {code}")
        if length > payload_bytes - at:
            raise FormatError(
                f"descriptor {k} at payload byte {where}: "
                f"expected a plane of at most {payload_bytes - at} bytes, found {length}"
            )
        found.append((Mode(code), at, length))
        at += length
    if at != payload_bytes:
        raise FormatError(f"payload: expected planes that fill {payload_bytes} bytes, found {at}")
    return found


def stored_modes(payload: Buffer, predictor: Predictor, planes: int) -> tuple[Mode, ...]:
    """The modes of an element's planes, with everything in front of them. Raises: as read_planes."""
    if predictor is not Predictor.LEVELS:
        at = REFERENCE_BYTES if predictor.needs_base else 0
        return tuple(mode for mode, _ in read_planes(payload, planes, at))
    at = levels.HEAD_BYTES
    if len(payload) < at:
        raise Truncated(f"payload: expected {at} bytes of the predictor, found {len(payload)}")
    columns = int.from_bytes(memoryview(payload)[:4], "little")
    level_planes = 2 if columns else 0
    return tuple(mode for mode, _ in read_planes(payload, level_planes + planes, at)[level_planes:])


def check_layout(element: ElementType, predictor: Predictor, layout: Layout, planes: int, logical_bytes: int) -> None:
    """For a payload with planes or a base. Raises: FormatError where its header contradicts itself."""
    if not predictor.fits(element):
        raise FormatError(f"payload: expected a predictor for {element.name}, found {predictor!r}")
    layouts = _layouts(element, predictor)
    if layout not in layouts:
        expected = " or ".join(str(one.value) for one in layouts)
        raise FormatError(f"payload: expected layout {expected} for {element.name}, found {layout!r}")
    expected_planes = 0 if layout is Layout.RAW else element.width
    if planes != expected_planes or logical_bytes % element.width or logical_bytes == 0:
        raise FormatError(
            f"payload: expected {expected_planes} planes and a multiple of {element.width} bytes, "
            f"found {planes} and {logical_bytes}"
        )


def base_predictors(element: ElementType, kind: BaseKind) -> tuple[Predictor, ...]:
    """Those that a base of this kind is tried with, in order; none of a kind that does not fit."""
    return tuple(one for one in Predictor if one.needs_base and one.base_kind is kind and one.fits(element))


def base_layout(element: ElementType, predictor: Predictor) -> Layout:
    """That of planes made from a base."""
    return Layout.ROTATED_1 if element.is_float and predictor.is_frame else Layout.PLANES


def _layouts(element: ElementType, predictor: Predictor) -> tuple[Layout, ...]:
    if predictor.needs_base:
        planes = base_layout(element, predictor)
        return (Layout.RAW, planes) if predictor.is_frame else (planes,)
    if element.is_float:
        return Layout.ROTATED_1, Layout.ROTATED_2, Layout.ROTATED_3, Layout.ROTATED_4
    return (Layout.PLANES,)


def check_base(predictor: Predictor, logical_bytes: int, base: Buffer | None) -> None:
    """Whether a base is there just where it is needed, and as long. Raises: FormatError."""
    check_base_bytes(predictor, logical_bytes, len(base or b""))


def check_base_bytes(predictor: Predictor, logical_bytes: int, found: int) -> None:
    """The same, of a base of so many bytes; 0: none. Raises: FormatError."""
    expected = predictor.base_kind.base_bytes(logical_bytes) if predictor.needs_base else 0
    if found != expected:
        raise FormatError(f"payload: expected a base of {expected} bytes for {predictor!r}, found {found}")


def encode_untyped(data: Buffer, level: Level, bases: Sequence[Base] = ()) -> EncodedPayload:
    """Bytes without a type: one plane, of at least one byte, of themselves or of what a base leaves."""
    usable = [(number, one.data) for number, one in enumerate(bases) if one.kind is BaseKind.SAME]
    for number, base in usable:
        if len(data) > REFERENCE_BYTES and base == data:
            return same_as_base(ElementType.BYTES, Predictor.XOR, number)
    best = raw_payload(data, ElementType.BYTES)
    candidates: list[tuple[int | None, Buffer]] = [(None, data)]
    candidates.extend((number, _xor(data, base)) for number, base in usable)
    for used, rest in candidates:
        mode, stored = _encode_bytes(rest, level)
        if mode is Mode.RAW:
            continue  # never smaller than the logical bytes
        predictor = Predictor.NONE if used is None else Predictor.XOR
        payload = join_payload(b"", [(mode, stored)])
        coded = EncodedPayload(ElementType.BYTES, predictor, Layout.PLANES, (mode,), payload, used)
        if coded.stored_bytes < best.stored_bytes:
            best = coded
    return best


def decode_untyped(payload: Buffer, logical_bytes: int, base: Buffer | None = None) -> bytes:
    """The inverse of encode_untyped, of layouts with planes. base: checked. Raises: FormatError."""
    [(mode, stored)] = read_planes(payload, 1)
    rest = decode_named(mode, stored, logical_bytes, f"plane 0 at payload byte {DESCRIPTOR_BYTES}")
    return bytes(rest) if base is None else _xor(rest, base)


def _xor(data: Buffer, base: Buffer) -> bytes:
    return (np.frombuffer(data, dtype=np.uint8) ^ np.frombuffer(base, dtype=np.uint8)).tobytes()


def decode_named(mode: Mode, stored: Buffer, n: int, where: str) -> Buffer:
    """decode_plane, with the place in what it raises."""
    try:
        return decode_plane(mode, stored, n)
    except FormatError as error:
        raise type(error)(f"{where}: {error}") from None


def better_untyped(coded: EncodedPayload, data: Buffer, element: ElementType, level: Level) -> EncodedPayload:
    """The smaller of a typed frame's payload and of the same bytes' without a type; floats only where they repeat."""
    if level is Level.FAST or coded.is_base or (element.is_float and not _repeats(data)):
        return coded
    untyped = encode_untyped(data, level)
    return untyped if untyped.stored_bytes < coded.stored_bytes else coded


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
