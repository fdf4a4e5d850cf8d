"""What a body is, from its first bytes alone: by the beginning of its format, else by content; never by its name."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import Final

from .content import SAMPLE_BYTES, find_elements
from .limits import MAX_SAFETENSORS_HEADER_BYTES, SNIFF_BYTES
from .types import CONTAINER_MAGIC, Buffer, Kind

_ZIP_LOCAL: Final = b"PK\x03\x04"
_ZIP_FIXED_BYTES: Final = 30
_STORED: Final = 0
_DEFLATED: Final = 8
# What torch calls the first entry of an archive, behind the root: data.pkl in torch.save; in TorchScript a tensor, code or
# what the user added, which may be compressed.
_TORCH_ENTRY: Final = re.compile(
    rb"[^/]+/(data\.pkl|constants\.pkl|version|byteorder|\.data/.+|\.format_version|\.storage_alignment"
    rb"|(data|constants|tensors)/\d+|code/.+|extra/.+)"
)
_GGUF: Final = b"GGUF"
_GGUF_VERSIONS: Final = (b"\2\0\0\0", b"\3\0\0\0", b"\0\0\0\2", b"\0\0\0\3")
_NPY: Final = b"\x93NUMPY"
# PROTO, perhaps a FRAME, then the number with which torch's files began before they were zips.
_LEGACY_STARTS: Final = tuple(
    bytes((0x80, protocol)) + frame for protocol in range(2, 6) for frame in (b"", b"\x95\x0d" + bytes(7))
)
_LEGACY_MAGIC: Final = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"
_JSON_SPACE: Final = b" \t\r\n"
# Samples that are looked at for elements, from the first bytes to the last: enough to step over a header, or a hole.
_SAMPLES: Final = 5


def sniff(head: Buffer, *, complete: bool = False) -> Kind | None:
    """Return what the body is, or None where more of it must be seen.

    head: the body from its first byte. complete: there is no more. Never None from SNIFF_BYTES on.
    """
    data = bytes(head[:SNIFF_BYTES])
    final = complete or len(data) == SNIFF_BYTES
    for look in (_container, _zip, _legacy, _npy, _gguf, _safetensors):
        kind = look(data)
        if kind is None and not final:
            return None
        if kind not in (None, Kind.UNKNOWN):
            return kind
    return Kind.ELEMENTS if _holds_elements(data) else Kind.UNKNOWN


def _container(data: bytes) -> Kind | None:
    return _starts(data, CONTAINER_MAGIC, Kind.CONTAINER)


def _zip(data: bytes) -> Kind | None:
    start = _starts(data, _ZIP_LOCAL, Kind.TORCH_ZIP)
    if start is not Kind.TORCH_ZIP:
        return start
    if len(data) < _ZIP_FIXED_BYTES:
        return None
    method, name_bytes = struct.unpack_from("<8xH16xH", data)
    if method not in (_STORED, _DEFLATED):
        return Kind.UNKNOWN
    name = data[_ZIP_FIXED_BYTES : _ZIP_FIXED_BYTES + name_bytes]
    if len(name) < name_bytes:
        return None
    if name.endswith(b".npy"):
        return Kind.NPZ if method == _STORED else Kind.UNKNOWN
    return Kind.TORCH_ZIP if _TORCH_ENTRY.fullmatch(name) else Kind.UNKNOWN


def _legacy(data: bytes) -> Kind | None:
    return _any(_starts(data, start + _LEGACY_MAGIC, Kind.TORCH_LEGACY) for start in _LEGACY_STARTS)


def _npy(data: bytes) -> Kind | None:
    return _starts(data, _NPY, Kind.NPY)


def _gguf(data: bytes) -> Kind | None:
    return _any(_starts(data, _GGUF + version, Kind.GGUF) for version in _GGUF_VERSIONS)


def _safetensors(data: bytes) -> Kind | None:
    if len(data) >= 8 and not 2 <= int.from_bytes(data[:8], "little") <= MAX_SAFETENSORS_HEADER_BYTES:
        return Kind.UNKNOWN
    text = data[8:].lstrip(_JSON_SPACE)
    if not text:
        return None
    return Kind.SAFETENSORS if text.startswith(b"{") else Kind.UNKNOWN


def _holds_elements(data: bytes) -> bool:
    """Whether most samples are floats."""
    last = len(data) // SAMPLE_BYTES - 1
    if last < 0:
        return False
    places = sorted({last * number // (_SAMPLES - 1) * SAMPLE_BYTES for number in range(_SAMPLES)})
    untyped = 0
    for at in places:
        # Tables of integers stand at the front of much that is no checkpoint.
        untyped += not find_elements(data[at : at + SAMPLE_BYTES], at).element.is_float
        if 2 * untyped > len(places):
            return False
    return True


def _starts(data: bytes, magic: bytes, kind: Kind) -> Kind | None:
    if data[: len(magic)] == magic:
        return kind
    return None if magic.startswith(data) else Kind.UNKNOWN


def _any(kinds: Iterable[Kind | None]) -> Kind | None:
    """The kind that one of several beginnings shows; None where one may still come."""
    found = set(kinds) - {Kind.UNKNOWN}
    return next((kind for kind in found if kind is not None), None if found else Kind.UNKNOWN)
