"""The answer to a GetObject, out of its headers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from email.utils import parsedate_to_datetime

import aiohttp

from s4weights.proxy.errors import UpstreamError
from s4weights.proxy.upstream.protocol import ObjectBody, ObjectInfo

from .body import read_body
from .calls import Patience
from .shapes import object_headers


def read_answer(
    answer: aiohttp.ClientResponse, chunks: AsyncGenerator[bytes, None], what: str, patience: Patience
) -> ObjectBody:
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
    body = read_body(chunks, length, what, patience, lambda: answer.content.total_bytes)
    return ObjectBody(info, body, length, answer.close)
