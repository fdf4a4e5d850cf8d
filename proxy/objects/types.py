"""What the handlers see: objects as the client knows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from s4weights.codec.decode import Tail
from s4weights.proxy.upstream.protocol import ObjectInfo

PART_CHECKSUMS: Final = "parts"
"""Among the checksums that a container keeps: those of the client's parts, in order, with commas between."""


@dataclass(frozen=True, slots=True)
class LogicalObject:
    """One object as the client knows it.

    info: logical size and ETag, headers without the marker. stored: as it lies upstream.
    tail: the end of the container, None where the stored bytes are the body.
    last_bytes: the last stored bytes, as far as they were read with the headers.
    parts: sizes of the client's parts, empty for a plain PUT or where unknown.
    checksums: the client's whole-object checksum and its type by header name. part_checksums: those of its parts.
    """

    bucket: str
    key: str
    info: ObjectInfo
    stored: ObjectInfo
    tail: Tail | None = None
    last_bytes: bytes = b""
    version_id: str | None = None
    parts: tuple[int, ...] = ()
    checksums: Mapping[str, str] = field(default_factory=dict)
    part_checksums: tuple[str, ...] = ()

    @property
    def is_container(self) -> bool:
        """Whether the stored bytes must be decoded."""
        return self.tail is not None

    @property
    def path(self) -> str:
        """bucket/key, as messages name it."""
        return f"{self.bucket}/{self.key}"
