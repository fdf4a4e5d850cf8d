"""The records of a zip, and where an entry of unknown length ends. Source: PKWARE's APPNOTE.TXT, sections 4.3 and 4.5.3."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Final

from .stream import Step, Stream

LOCAL: Final = b"PK\x03\x04"
CENTRAL: Final = b"PK\x01\x02"
END: Final = b"PK\x05\x06"
_END64: Final = b"PK\x06\x06"
_LOCATOR64: Final = b"PK\x06\x07"
_DESCRIPTOR: Final = b"PK\x07\x08"

# What may stand at the end of an entry.
_BEHIND: Final = re.compile(b"|".join((re.escape(LOCAL), re.escape(CENTRAL), re.escape(_DESCRIPTOR))))
# The longest part of a signature that may stand at the end of what has come.
_PART_BYTES: Final = 3

# Chance makes three of them in 4 GiB, archives in archives some thousand; more is hostile.
_FALSE_END_STEPS: Final = 100

_LOCAL_FIXED: Final = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL_FIXED_BYTES: Final = 46
_SIZES_FOLLOW: Final = 0x0008
_ENCRYPTED: Final = 0x0001
_ZIP64_EXTRA: Final = 0x0001
_IN_EXTRA: Final = 0xFFFFFFFF
_MAX_NAME_BYTES: Final = 4096
# APPNOTE 6.3 is 63; the high byte names the system that wrote the entry.
_MAX_VERSION: Final = 63
_MAX_METHOD: Final = 99
# Of an archive's root as much as is compared where a header is looked for.
_ROOT_BYTES: Final = 16
# The end of an entry is seen once so many bytes behind it have come; a multiple of all widths.
LOOKAHEAD_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class Entry:
    """A local header. start: logical offset of the data; length: stored bytes, None where the header does not say.

    plain: neither compressed nor encrypted.
    """

    name: bytes
    start: int
    length: int | None
    plain: bool


def read_entry(stream: Stream) -> Step[Entry]:
    """Take a local header; the stream then stands at the entry's data."""
    fixed = yield from stream.read(_LOCAL_FIXED.size)
    _, _, flags, method, _, _, _, stored, _, name_bytes, extra_bytes = _LOCAL_FIXED.unpack(fixed)
    name = yield from stream.read(name_bytes)
    extra = yield from stream.read(extra_bytes)
    length: int | None = stored
    if stored == _IN_EXTRA:
        length = _zip64_length(extra)
    if flags & _SIZES_FOLLOW and not length:
        length = None
    return Entry(name, stream.at, length, method == 0 and not flags & _ENCRYPTED)


def _zip64_length(extra: bytes) -> int | None:
    """The stored length in an extra field: the second number, after the one before compression."""
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        if kind == _ZIP64_EXTRA and size >= 16 and len(extra) >= 20:
            return int.from_bytes(extra[12:20], "little")
        extra = extra[4 + size :]
    return None


def skip_directory_record(stream: Stream) -> Step[bytes | None]:
    """Take a record of the central directory or of its end; return its signature, None where there is none."""
    magic = yield from stream.peek(4)
    if magic == CENTRAL:
        head = yield from stream.peek(_CENTRAL_FIXED_BYTES)
        yield from stream.skip(_CENTRAL_FIXED_BYTES + sum(struct.unpack_from("<HHH", head, 28)))
    elif magic == _END64:
        head = yield from stream.peek(12)
        yield from stream.skip(12 + int.from_bytes(head[4:12], "little"))
    elif magic == _LOCATOR64:
        yield from stream.skip(20)
    elif magic == END:
        head = yield from stream.peek(22)
        yield from stream.skip(22 + int.from_bytes(head[20:22], "little"))
    else:
        return None
    return magic


def seek_end(
    stream: Stream,
    entry: Entry,
    root: bytes | None,
    *,
    bare: bool = False,
    until: int | None = None,
    seen: bytearray | None = None,
) -> Step[bool]:
    """Go on to the header behind the entry, over a data descriptor; False where `until` comes first.

    An entry of unknown length ends where a descriptor says just the length that it has; only an empty one has none.
    bare: a header of the same archive is enough. root: what its names begin with. until: a logical offset.
    seen: takes what is gone over.
    """
    while until is None or stream.at < until:
        match = _BEHIND.search(stream.data)
        step = max(0, len(stream.data) - _PART_BYTES) if match is None else match.start()
        if match is not None and step == 0:
            ended = yield from _ends_here(stream, entry, root, bare)
            if ended:
                return True
            stream.charge(_FALSE_END_STEPS)
            step = 1
        if until is not None:
            step = min(step, until - stream.at)
        if step:
            if seen is not None:
                seen += stream.data[:step]
            stream.advance(step)
        else:
            yield from stream.ahead(len(stream.data) + 1)
    return False


def _ends_here(stream: Stream, entry: Entry, root: bytes | None, bare: bool) -> Step[bool]:
    """Whether the entry's end is at the stream's place; a descriptor is then taken."""
    bare = bare or stream.at == entry.start
    magic = yield from stream.peek(4)
    if magic == _DESCRIPTOR:
        size = yield from _descriptor_bytes(stream, stream.at - entry.start, entry.plain)
        stream.advance(size)
        return size > 0
    # No byte behind a header is waited for: it may be the first of a tensor.
    if bare and magic == LOCAL:
        head = yield from stream.peek(_LOCAL_FIXED.size)
        _, version, _, method, _, _, _, _, _, name_bytes, _ = _LOCAL_FIXED.unpack(head)
        if version & 0xFF > _MAX_VERSION or method > _MAX_METHOD:
            return False
        return (yield from _is_name(stream, _LOCAL_FIXED.size, name_bytes, root))
    if bare and magic == CENTRAL:
        head = yield from stream.peek(_CENTRAL_FIXED_BYTES)
        return (yield from _is_name(stream, _CENTRAL_FIXED_BYTES, int.from_bytes(head[28:30], "little"), root))
    return False


def _descriptor_bytes(stream: Stream, length: int, plain: bool) -> Step[int]:
    """Size of the data descriptor here, if it is that of an entry of this length; else 0."""
    head = yield from stream.peek(24)
    for form, size in (("<8xII", 16), ("<8xQQ", 24)):
        stored, whole = struct.unpack_from(form, head)
        if stored == length and (whole == length or not plain):
            return size
    return 0


def _is_name(stream: Stream, place: int, length: int, root: bytes | None) -> Step[bool]:
    """Whether a name of length bytes stands there, of an archive with this root."""
    if not 1 <= length <= _MAX_NAME_BYTES:
        return False
    compared = min(_ROOT_BYTES, length)
    head = yield from stream.peek(place + compared)
    name = head[place:]
    return name.startswith((root + b"/")[:compared] if root is not None else b"") and min(name) >= 0x20
