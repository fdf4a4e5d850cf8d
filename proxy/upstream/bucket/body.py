"""The body of an answer, as it comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from s4weights.proxy.errors import UpstreamError

from .calls import SLOWEST_BYTES_S, Patience
from .faults import translated

_CHUNK_BYTES: Final = 1 << 20


async def read_body(body: Any, length: int, what: str, patience: Patience) -> AsyncIterator[bytes]:
    """Yield length bytes of body (botocore's). One that only trickles is given up; the reader's own time does not count.

    Raises: UpstreamError.
    """
    seen, waited_s = 0, 0.0
    try:
        with translated(what):
            while True:
                began_s = time.monotonic()
                left_s = 2 * patience.silence_s + seen / SLOWEST_BYTES_S - waited_s
                async with asyncio.timeout(left_s):
                    chunk = await body.read(_CHUNK_BYTES)
                waited_s += time.monotonic() - began_s
                if not chunk:
                    break
                seen += len(chunk)
                yield chunk
    finally:
        body.close()
    if seen != length:
        raise UpstreamError(f"{what}: expected {length} bytes, found {seen}")


async def no_body() -> AsyncIterator[bytes]:
    """The body of an answer without one."""
    nothing: tuple[bytes, ...] = ()
    for chunk in nothing:
        yield chunk
