"""Stored bytes of one version, whole or not at all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from s4weights.proxy.errors import UpstreamError
from s4weights.proxy.limits import READ_ATTEMPTS
from s4weights.proxy.upstream.protocol import ByteRange, Upstream

from .types import LogicalObject

_PAUSE_S = 0.2
_T = TypeVar("_T")


async def fetch(upstream: Upstream, found: LogicalObject, first: int, length: int) -> bytes:
    """Read stored bytes first to first + length; tried again where the connection breaks.

    Raises: S3Error PreconditionFailed where the object is another one by now; UpstreamError.
    """
    return await retried(lambda: _fetch_once(upstream, found, first, length))


async def stream(upstream: Upstream, found: LogicalObject, first: int, length: int) -> AsyncGenerator[bytes, None]:
    """Stored bytes as they come; where the connection breaks, the rest is asked for again.

    Raises: as `fetch`.
    """
    end = first + length
    attempt = 1
    while first < end:
        try:
            async with contextlib.aclosing(_stream_once(upstream, found, first, end - first)) as chunks:
                async for chunk in chunks:
                    first += len(chunk)
                    yield chunk
                    attempt = 1
        except UpstreamError as error:
            if attempt == READ_ATTEMPTS or error.was_repeated:
                raise
            await asyncio.sleep(_PAUSE_S * attempt)
            attempt += 1


async def retried(work: Callable[[], Awaitable[_T]]) -> _T:
    """Do it again, a bounded number of times, where the bucket cannot be reached."""
    for attempt in range(1, READ_ATTEMPTS + 1):
        try:
            return await work()
        except UpstreamError as error:
            if attempt == READ_ATTEMPTS or error.was_repeated:
                raise
            await asyncio.sleep(_PAUSE_S * attempt)
    raise AssertionError("unreachable")


async def _stream_once(
    upstream: Upstream, found: LogicalObject, first: int, length: int
) -> AsyncGenerator[bytes, None]:
    body = await upstream.get(
        found.bucket,
        found.key,
        byte_range=ByteRange(first, first + length - 1),
        if_match=found.stored.etag,
        version_id=found.version_id,
    )
    try:
        if body.length != length:
            raise UpstreamError(f"{found.path}: expected {length} stored bytes from {first}, found {body.length}")
        async for chunk in body.chunks:
            yield chunk
    finally:
        await body.aclose()


async def _fetch_once(upstream: Upstream, found: LogicalObject, first: int, length: int) -> bytes:
    data = b"".join([chunk async for chunk in _stream_once(upstream, found, first, length)])
    if len(data) != length:
        raise UpstreamError(f"{found.path}: expected {length} stored bytes from {first}, found {len(data)}")
    return data
