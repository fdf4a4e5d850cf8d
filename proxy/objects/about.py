"""What a container's index says of the client's upload. Anybody may have written it: what does not fit counts as unsaid."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from s4weights.proxy.checksums.algorithms import ELEMENTS, TYPE_HEADER
from s4weights.proxy.checksums.plan import COMPOSITE, FULL_OBJECT
from s4weights.proxy.limits import MAX_PARTS

from .types import PART_CHECKSUMS

_VALUE: Final = re.compile(r"[A-Za-z0-9+/]{6,43}={1,2}(-[0-9]{1,5})?")
_HEADERS: Final = frozenset(ELEMENTS.values())


def read_parts(about: Mapping[str, Any], size: int) -> tuple[int, ...]:
    """Sizes of the client's parts, which make up the body. size: of the body."""
    parts = about.get("parts")
    if not isinstance(parts, list) or not 1 <= len(parts) <= MAX_PARTS:
        return ()
    if any(type(one) is not int or one < 0 for one in parts) or sum(parts) != size:
        return ()
    return tuple(parts)


def read_checksums(about: Mapping[str, Any]) -> dict[str, str]:
    """The object's checksum and its type by header."""
    said = about.get("checksums")
    if not isinstance(said, dict):
        return {}
    found = {name: value for name, value in said.items() if name in _HEADERS and _is_value(value)}
    if len(found) != 1:
        return {}
    # Containers of before the type was kept hold those of whole bodies alone.
    kind = said.get(TYPE_HEADER, FULL_OBJECT)
    return {**found, TYPE_HEADER: kind} if kind in (COMPOSITE, FULL_OBJECT) else found


def read_part_checksums(about: Mapping[str, Any], count: int) -> tuple[str, ...]:
    """Checksums of the client's parts, one for each of them or none at all."""
    said = about.get("checksums")
    text = said.get(PART_CHECKSUMS) if isinstance(said, dict) else None
    values = text.split(",") if isinstance(text, str) else []
    return tuple(values) if len(values) == count and all(map(_is_value, values)) else ()


def _is_value(value: Any) -> bool:
    return isinstance(value, str) and _VALUE.fullmatch(value) is not None
