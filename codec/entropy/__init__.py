"""How one plane is stored: constant, raw, rANS or zstd. Source: docs/format.md, sections 3 and 5."""

from __future__ import annotations

import numpy as np

from ..errors import FormatError, UnsupportedVersion
from ..types import Buffer, Mode
from . import rans, zstd

__all__ = ["decode_plane", "encode_bytes", "encode_plane", "rans", "zstd"]

# rANS is tried where it promises more than this part of the plane: below, the time is better spent elsewhere.
_LEAST_GAIN_SHIFT = 7


def encode_plane(plane: Buffer) -> tuple[Mode, Buffer]:
    """Choose for a plane of a typed frame. plane: at least one byte."""
    if _is_constant(plane):
        return Mode.CONSTANT, bytes(plane[:1])
    counts = rans.histogram(plane)
    promised = rans.estimate_bytes(counts, rans.normalise(counts), len(plane))
    if promised + (len(plane) >> _LEAST_GAIN_SHIFT) >= len(plane):
        return Mode.RAW, plane
    stored = rans.encode(plane)
    return (Mode.RANS, stored) if len(stored) < len(plane) else (Mode.RAW, plane)


def encode_bytes(plane: Buffer) -> tuple[Mode, Buffer]:
    """Choose for bytes without a type. plane: at least one byte."""
    if _is_constant(plane):
        return Mode.CONSTANT, bytes(plane[:1])
    stored = zstd.encode(plane)
    return (Mode.ZSTD, stored) if len(stored) < len(plane) else (Mode.RAW, plane)


def decode_plane(mode: Mode, stored: Buffer, n: int) -> Buffer:
    """Give back the n bytes of a plane. Raises: FormatError."""
    if mode is Mode.RAW:
        if len(stored) != n:
            raise FormatError(f"raw plane: expected {n} bytes, found {len(stored)}")
        return stored
    if mode is Mode.CONSTANT:
        if len(stored) != 1:
            raise FormatError(f"constant plane: expected 1 byte, found {len(stored)}")
        return bytes(stored) * n
    if mode is Mode.RANS:
        return rans.decode(stored, n)
    if mode is Mode.ZSTD:
        return zstd.decode(stored, n)
    raise UnsupportedVersion(f"plane: expected a known mode, found {mode}")


def _is_constant(plane: Buffer) -> bool:
    octets = np.frombuffer(plane, dtype=np.uint8)
    return bool((octets == octets[0]).all())
