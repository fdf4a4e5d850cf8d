"""Stored bytes of one version, whole or not at all."""

from __future__ import annotations

import asyncio

from s4weights.proxy.errors import UpstreamError
from s4weights.proxy.limits import READ_ATTEMPTS
from s4weights.proxy.upstream.protocol import ByteRange, Upstream

from .types import LogicalObject

_PAUSE_S = 0.2


async def fetch(upstream: Upstream, found: LogicalObject, first: int, length: int) -> bytes:
    """Read stored bytes first to first + length; tried again where the connection breaks.

    Raises: S3Error PreconditionFailed where the object is another one by now; UpstreamError.
    """
    for attempt in range(1, READ_ATTEMPTS + 1):
        try:
            return await _fetch_once(upstream, found, first, length)
        except UpstreamError:
            if attempt == READ_ATTEMPTS:
                raise
            await asyncio.sleep(_PAUSE_S * attempt)
    raise AssertionError("unreachable")


async def _fetch_once(upstream: Upstream, found: LogicalObject, first: int, length: int) -> bytes:
    body = await upstream.get(
        found.bucket,
        found.key,
        byte_range=ByteRange(first, first + length - 1),
        if_match=found.stored.etag,
        version_id=found.version_id,
    )
    data = b"".join([chunk async for chunk in body.chunks])
    if len(data) != length:
        raise UpstreamError(f"{found.path}: expected {length} stored bytes from {first}, found {len(data)}")
    return data
