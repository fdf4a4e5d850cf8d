"""A body on its way to the bucket: what it raised, and how long the bucket may take no bytes of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from s4weights.proxy.errors import S3Error
from s4weights.proxy.upstream.protocol import Body

from .calls import Patience

# Of one write to a socket.
_CHUNK_BYTES: Final = 1 << 20


class WatchedBody:
    """Remembers what a body raised, and raises itself where it ends early: a server would wait for the rest.

    aiohttp bounds how long an answer is waited for, but not how long a server may take no bytes: that is watched here, and
    rests while it is the client that keeps the body waiting.
    """

    def __init__(self, body: Body, length: int, patience: Patience) -> None:
        self._body = body
        self._length = length
        self._patience = patience
        self._bound: asyncio.Timeout | None = None
        self.fault: BaseException | None = None
        self.is_whole = False
        """Whether the body came to its end, and with it its checks."""

    @contextlib.asynccontextmanager
    async def bounded(self) -> AsyncIterator[None]:
        """The length of a request. Raises: TimeoutError where the server takes no more bytes, or gives no answer."""
        async with asyncio.timeout(None if self._length else self._patience.deadline_s()) as self._bound:
            yield

    def _expect(self, seconds: float | None) -> None:
        if self._bound is not None and not self._bound.expired():
            self._bound.reschedule(None if seconds is None else asyncio.get_running_loop().time() + seconds)

    def chunks(self) -> AsyncIterator[bytes]:
        return self._iterate(slices(self._body) if isinstance(self._body, bytes) else self._body)

    async def drain(self) -> None:
        """Read a body of no bytes to its end. Raises: what the body raises."""
        if not isinstance(self._body, bytes):
            async for _ in self._iterate(self._body):
                pass

    async def _iterate(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        seen = 0
        try:
            async for chunk in body:
                seen += len(chunk)
                self._expect(self._patience.silence_s)
                yield chunk
                self._expect(None)
            if seen != self._length:
                raise S3Error("IncompleteBody", f"Expected {self._length} bytes, found {seen}.")
            self.is_whole = True
            self._expect(self._patience.long_silence_s)
        except Exception as error:
            self.fault = error
            raise


async def slices(body: bytes) -> AsyncIterator[bytes]:
    """Without a copy: each slice is a view."""
    view = memoryview(body)
    for at in range(0, len(body), _CHUNK_BYTES):
        yield view[at : at + _CHUNK_BYTES]  # type: ignore[misc]  # as good as bytes to who sends them
