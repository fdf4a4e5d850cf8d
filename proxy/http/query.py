"""The parameters of a request: read once, and sent on as they were read."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qsl, quote


def read_query(raw_query: str) -> dict[str, str]:
    """Parameters by name, values decoded, the last value of a name. raw_query: as on the wire."""
    return dict(parse_qsl(raw_query, keep_blank_values=True))


def write_query(parameters: Iterable[tuple[str, str]]) -> str:
    """(name, decoded value) as on the wire, encoded as SigV4 wants it."""
    return "&".join(f"{_encode(name)}={_encode(value)}" if value else _encode(name) for name, value in parameters)


def _encode(text: str) -> str:
    return quote(text, safe="-._~")
