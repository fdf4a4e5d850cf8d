"""The first bytes of a payload that is predicted from a base. Source: docs/format.md, section 2.3."""

from __future__ import annotations

import struct
from typing import Final

from ..errors import Truncated, UnsupportedVersion
from ..types import Buffer, Reference

_FIELDS: Final = struct.Struct("<I4sQ")
REFERENCE_BYTES: Final = _FIELDS.size


def pack_reference(reference: Reference) -> bytes:
    """The 16 bytes."""
    return _FIELDS.pack(reference.number, bytes(4), reference.start)


def parse_reference(payload: Buffer, *, where: str = "payload") -> Reference:
    """Read what is in front of a payload. Raises: Truncated, UnsupportedVersion."""
    if len(payload) < REFERENCE_BYTES:
        raise Truncated(f"{where}: expected a reference of {REFERENCE_BYTES} bytes, found {len(payload)}")
    number, reserved, start = _FIELDS.unpack_from(payload)
    if reserved != bytes(4):
        raise UnsupportedVersion(f"{where}: reference: expected zero bytes at 4 to 7, found {reserved.hex()}")
    return Reference(number, start)
