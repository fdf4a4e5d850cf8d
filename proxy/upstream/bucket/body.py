"""The body of an answer, as it comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable

from s4weights.proxy.errors import UpstreamError

from .calls import SLOWEST_BYTES_S, Patience
from .faults import translated


async def read_body(
    chunks: AsyncGenerator[bytes, None], length: int, what: str, patience: Patience, arrived: Callable[[], int]
) -> AsyncGenerator[bytes, None]:
    """Yield the length bytes of chunks. One that only trickles is given up; the reader's own time does not count.

    arrived: bytes that came so far, taken or not.

    Raises: UpstreamError.
    """
    seen, waited_s = 0, 0.0
    try:
        with translated(what):
            while True:
                if arrived() > seen:
                    chunk = await anext(chunks, b"")
                else:
                    began_s = time.monotonic()
                    left_s = 2 * patience.silence_s + seen / SLOWEST_BYTES_S - waited_s
                    async with asyncio.timeout(left_s):
                        chunk = await anext(chunks, b"")
                    waited_s += time.monotonic() - began_s
                if not chunk:
                    break
                seen += len(chunk)
                yield chunk
    finally:
        await chunks.aclose()
    if seen != length:
        raise UpstreamError(f"{what}: expected {length} bytes, found {seen}")


async def no_body() -> AsyncIterator[bytes]:
    """The body of an answer without one."""
    nothing: tuple[bytes, ...] = ()
    for chunk in nothing:
        yield chunk
