"""The user-metadata entry that says what we did to an object; never shown to a client."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from s4weights.proxy.upstream.protocol import Headers, ObjectInfo

MARKER: Final = "x-amz-meta-s4w"
_CONTAINER: Final = "container"
_RAW: Final = "raw"
_MODIFIED: Final = " modified="

RAW: Final = {MARKER: _RAW}
"""A container that a client itself uploaded: given back as it was sent."""


def container_marker(modified: datetime | None = None) -> dict[str, str]:
    """modified: when the client wrote the body, where we have written the object again since."""
    return {MARKER: _CONTAINER if modified is None else f"{_CONTAINER}{_MODIFIED}{int(modified.timestamp())}"}


def is_container(headers: Headers) -> bool | None:
    """None where the headers do not say: the metadata was lost, or nobody ever set it."""
    marker = headers.get(MARKER)
    return None if marker is None else marker.partition(" ")[0] == _CONTAINER


def kept_marker(headers: Headers) -> dict[str, str]:
    """The marker as it is, for a copy."""
    return {MARKER: headers[MARKER]} if MARKER in headers else {}


def without_marker(headers: Headers) -> dict[str, str]:
    """The headers that are a client's."""
    return {name: value for name, value in headers.items() if name != MARKER}


def client_time(info: ObjectInfo) -> datetime:
    """When the client wrote the body."""
    text = info.headers.get(MARKER, "").partition(_MODIFIED)[2]
    return datetime.fromtimestamp(int(text), UTC) if text.isdigit() and len(text) < 12 else info.last_modified
