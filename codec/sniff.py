"""What a body is, from its first bytes alone; never from its name."""

from __future__ import annotations

import struct
from typing import Final

from .limits import MAX_SAFETENSORS_HEADER_BYTES, SNIFF_BYTES
from .types import CONTAINER_MAGIC, Buffer, Kind

_ZIP_LOCAL: Final = b"PK\x03\x04"
_ZIP_FIXED_BYTES: Final = 30
_JSON_SPACE: Final = b" \t\r\n"


def sniff(head: Buffer, *, complete: bool = False) -> Kind | None:
    """Return what the body is, or None where more of it must be seen.

    head: the body from its first byte. complete: there is no more. Never None from SNIFF_BYTES on.
    """
    data = bytes(head[:SNIFF_BYTES])
    final = complete or len(data) == SNIFF_BYTES
    for look in (_container, _torch_zip, _safetensors):
        kind = look(data)
        if kind is None and not final:
            return None
        if kind not in (None, Kind.UNKNOWN):
            return kind
    return Kind.UNKNOWN


def _container(data: bytes) -> Kind | None:
    return _starts(data, CONTAINER_MAGIC, Kind.CONTAINER)


def _torch_zip(data: bytes) -> Kind | None:
    start = _starts(data, _ZIP_LOCAL, Kind.TORCH_ZIP)
    if start is not Kind.TORCH_ZIP:
        return start
    if len(data) < _ZIP_FIXED_BYTES:
        return None
    method, name_bytes = struct.unpack_from("<8xH16xH", data)
    name = data[_ZIP_FIXED_BYTES : _ZIP_FIXED_BYTES + name_bytes]
    if method != 0:
        return Kind.UNKNOWN
    if len(name) < name_bytes:
        return None
    return Kind.TORCH_ZIP if name.endswith(b"/data.pkl") else Kind.UNKNOWN


def _safetensors(data: bytes) -> Kind | None:
    if len(data) >= 8 and not 2 <= int.from_bytes(data[:8], "little") <= MAX_SAFETENSORS_HEADER_BYTES:
        return Kind.UNKNOWN
    text = data[8:].lstrip(_JSON_SPACE)
    if not text:
        return None
    return Kind.SAFETENSORS if text.startswith(b"{") else Kind.UNKNOWN


def _starts(data: bytes, magic: bytes, kind: Kind) -> Kind | None:
    if data[: len(magic)] == magic:
        return kind
    return None if magic.startswith(data) else Kind.UNKNOWN
