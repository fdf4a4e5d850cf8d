"""Objects that begin as a container and do not end as one: cut off, made longer, or overwritten at their end.

Whoever lost the end of one mostly lost its marker, too: another tool copied it, or the directory's metadata is of a file of
another size. Its stored bytes are nobody's body, so they are given to nobody.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from s4weights.codec.container import HEADER_BYTES, Trailer, starts_container
from s4weights.codec.errors import FormatError
from s4weights.codec.types import Buffer
from s4weights.proxy.errors import S3Error

from .marker import is_container
from .types import LogicalObject


def damaged(path: str, error: FormatError) -> S3Error:
    """What a client is told of a container that cannot be read."""
    return S3Error("InternalError", f"The stored container is damaged: {path}: {error}")


def may_be_cut_off(found: LogicalObject) -> bool:
    """Whether its first bytes may yet show that it is a container: none that a client itself uploaded, which is marked."""
    return found.tail is None and found.stored.size >= HEADER_BYTES and is_container(found.stored.headers) is None


def check_start(found: LogicalObject, start: Buffer) -> None:
    """start: an object's first bytes, or none where they are not known. Raises: S3Error where it is a damaged container."""
    if not may_be_cut_off(found) or not starts_container(start):
        return
    try:
        Trailer.parse(found.last_bytes, object_bytes=found.stored.size)
    except FormatError as error:
        raise damaged(found.path, error) from error


async def checked_start(
    found: LogicalObject, chunks: AsyncGenerator[bytes, None], skipped: int, length: int
) -> AsyncGenerator[bytes, None]:
    """Stored bytes skipped to skipped + length out of chunks, which are those from the first one on.

    Raises: S3Error before the first chunk where they show a damaged container.
    """
    end = skipped + length
    at, start = 0, b""
    async with contextlib.aclosing(chunks):
        async for chunk in chunks:
            piece = chunk
            if not at:
                start += chunk
                if len(start) < HEADER_BYTES:
                    continue
                check_start(found, start)
                piece = start
            first, at = at, at + len(piece)
            if piece := piece[max(0, skipped - first) : max(0, end - first)]:
                yield piece
    if not at and start:
        yield start[skipped:end]
