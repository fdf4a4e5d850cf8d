"""The Range header as S3 reads it. Source: RFC 9110, section 14, and S3's own choices (several ranges: the whole)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from s4weights.proxy.errors import S3Error

_RANGE: Final = re.compile(r"\s*bytes\s*=\s*(?:([0-9]+)-([0-9]*)|-([0-9]+))\s*")

# Python turns at most 4,300 digits into a number.
_MOST_CHARACTERS: Final = 4_000


@dataclass(frozen=True, slots=True)
class Slice:
    """Bytes first to first + length of a body of size bytes."""

    first: int
    length: int
    size: int

    @property
    def content_range(self) -> str:
        """As in the Content-Range header."""
        return f"bytes {self.first}-{self.first + self.length - 1}/{self.size}"


def parse_range(header: str | None, size: int) -> Slice | None:
    """The slice that a Range header asks for; None: the whole body with 200.

    Raises: S3Error InvalidRange where nothing of it lies within the body.
    """
    match = _RANGE.fullmatch(header[:_MOST_CHARACTERS]) if header else None
    if match is None:
        return None
    first_text, last_text, suffix_text = match.groups()
    if suffix_text is not None:
        length = min(int(suffix_text), size)
        first = size - length
    else:
        first = int(first_text)
        last = int(last_text) if last_text else size - 1
        if last_text and last < first:
            return None  # not a valid range: ignored
        length = min(last, size - 1) - first + 1
    if length <= 0 or first >= size:
        raise S3Error(
            "InvalidRange",
            headers={"content-range": f"bytes */{size}"},
            RangeRequested=header or "",
            ActualObjectSize=str(size),
        )
    return Slice(first, length, size)
