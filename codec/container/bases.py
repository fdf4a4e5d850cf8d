"""The index's `bases`: the other bodies that frames refer to. Source: docs/format.md, section 1.3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..errors import FormatError, LimitExceeded
from ..limits import MAX_BASE_DEPTH, MAX_BASES

REPLACEABLE: Final = "replaceable"
"""A member of the index: its writer asks nobody before it is replaced or removed."""
_DIGEST_BYTES: Final = 16
_PLACES: Final = ("bucket", "version", "etag", "pin")


@dataclass(frozen=True, slots=True)
class BaseBody:
    """size: logical bytes. digest: XXH3-128 of the body. depth: bodies behind it. etag: of the stored object.

    pin: name of what keeps it where it is for the object that needs it.
    """

    key: str
    size: int
    digest: bytes
    depth: int = 0
    bucket: str | None = None
    version: str | None = None
    etag: str | None = None
    pin: str | None = None

    def member(self) -> dict[str, Any]:
        """As in the index."""
        places = {name: value for name in _PLACES if (value := getattr(self, name)) is not None}
        return {"key": self.key, "size": self.size, "digest": self.digest.hex(), "depth": self.depth, **places}


def depth_on(bases: Sequence[BaseBody]) -> int:
    """Bodies behind one that needs these."""
    return max((base.depth + 1 for base in bases), default=0)


def read_bases(about: Mapping[str, Any]) -> tuple[BaseBody, ...]:
    """Those that an index names. Raises: FormatError, LimitExceeded."""
    rows = about.get("bases", [])
    if not isinstance(rows, list):
        raise FormatError(f"index: expected a list of bases, found {type(rows).__name__}")
    if len(rows) > MAX_BASES:
        raise LimitExceeded(f"index: expected at most {MAX_BASES} bases, found {len(rows)}")
    return tuple(_read(row, number) for number, row in enumerate(rows, 1))


def _read(row: Any, number: int) -> BaseBody:
    match row:
        case {"key": str(key), "size": int(size), "digest": str(digest)} if size >= 0 and _is_digest(digest):
            depth, places = row.get("depth", 0), {name: row.get(name) for name in _PLACES}
        case _:
            raise FormatError(f"index: base {number}: expected key, size and digest, found {row!r:.200}")
    if (
        not isinstance(depth, int)
        or depth < 0
        or not all(one is None or isinstance(one, str) for one in places.values())
    ):
        raise FormatError(f"index: base {number}: expected a depth, and names as text, found {row!r:.200}")
    if depth >= MAX_BASE_DEPTH:
        raise LimitExceeded(f"index: base {number}: expected a depth under {MAX_BASE_DEPTH}, found {depth}")
    return BaseBody(key, size, bytes.fromhex(digest), depth, **places)


def _is_digest(text: str) -> bool:
    try:
        return len(bytes.fromhex(text)) == _DIGEST_BYTES == len(text) // 2
    except ValueError:
        return False
