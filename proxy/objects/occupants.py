"""From an object to what the protocol knows of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from s4weights.codec.container import REPLACEABLE, BaseBody, depth_on, read_bases
from s4weights.proxy.lineage.calls import Need, Occupant
from s4weights.proxy.lineage.names import Content

from .types import LogicalObject

# What is smaller is nobody's base: its pins and copies would cost more than it saves.
MIN_BASE_BYTES: Final = 1 << 20
_UNVERSIONED: Final = "null"


def content(digest: bytes, size: int) -> Content | None:
    """A body by what it is; None for one that is too small for a base."""
    return Content(digest.hex(), size) if size >= MIN_BASE_BYTES else None


def content_of(base: BaseBody) -> Content:
    """A base by what it is."""
    return Content(base.digest.hex(), base.size)


def need_of(base: BaseBody) -> Need:
    """A base as an index names it. One without a pin was written by hand: its pin has no name that was ever given."""
    return Need(content_of(base), base.depth, base.pin or "", base.key, base.version)


def base_of(need: Need) -> BaseBody:
    """The inverse of need_of."""
    body = need.content
    return BaseBody(need.key, body.size, bytes.fromhex(body.digest), need.depth, version=need.version, pin=need.nonce)


def occupant_of(found: LogicalObject, *, by_version: bool = False) -> Occupant:
    """found: with its index where it is a container. by_version: it was asked for by its version, which is to go.

    Raises: FormatError where the index names no bases as it should.
    """
    kept = None if by_version else kept_version(found)
    if found.tail is None or found.tail.index is None:
        return Occupant(found.stored.etag, version=kept)
    bases = read_bases(found.tail.index.about)
    needs = tuple(need_of(base) for base in bases)
    trailer = found.tail.trailer
    body = content(trailer.digest, trailer.logical_bytes)
    return Occupant(found.stored.etag, body, depth_on(bases), needs, kept)


def kept_version(found: LogicalObject) -> str | None:
    """The version under which the bucket keeps this one when another takes its place; None: nowhere."""
    version = found.stored.headers.get("x-amz-version-id")
    return None if version == _UNVERSIONED else version


def is_replaceable(found: LogicalObject) -> bool:
    """Whether its writer may replace it without asking who needs it, so that nobody may come to."""
    return found.tail is not None and found.tail.index is not None and bool(found.tail.index.about.get(REPLACEABLE))


def restore_bytes(about: Mapping[str, Any], stored_bytes: int) -> int:
    """Stored bytes that a read of the whole body takes. stored_bytes: of the container."""
    said = about.get("restore")
    return max(said, stored_bytes) if type(said) is int else stored_bytes


def plain_bytes(about: Mapping[str, Any], stored_bytes: int) -> int:
    """Stored bytes that the body would take without bases."""
    said = about.get("plain")
    return max(said, 1) if type(said) is int else stored_bytes
