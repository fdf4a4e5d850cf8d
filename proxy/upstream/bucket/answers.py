"""The answer to a GetObject, out of its headers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime

import aiohttp

from s4weights.proxy.errors import UpstreamError
from s4weights.proxy.upstream.protocol import ObjectBody, ObjectInfo

from .shapes import object_headers


def read_answer(answer: aiohttp.ClientResponse, chunks: AsyncIterator[bytes], what: str) -> ObjectBody:
    """what: for messages. Raises: UpstreamError where the answer lacks what S3's has."""
    headers = {name.lower(): value for name, value in answer.headers.items()}
    try:
        length = int(headers["content-length"])
        whole = headers.get("content-range", "").rpartition("/")[2]
        info = ObjectInfo(
            int(whole) if whole.isdigit() else length,
            headers["etag"].strip('"'),
            parsedate_to_datetime(headers["last-modified"]),
            object_headers(headers),
        )
    except (KeyError, ValueError) as error:
        answer.close()
        raise UpstreamError(f"{what}: expected content-length, etag and last-modified, found {error}") from error
    return ObjectBody(info, _counted(chunks, length, what), length, answer.close)


async def _counted(chunks: AsyncIterator[bytes], length: int, what: str) -> AsyncIterator[bytes]:
    seen = 0
    async for chunk in chunks:
        seen += len(chunk)
        yield chunk
    if seen != length:
        raise UpstreamError(f"{what}: expected {length} bytes, found {seen}")
