"""A body that passed through, read by several upstream ranges at once as one that was encoded is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial

from s4weights.proxy.limits import READ_RUN_BYTES
from s4weights.proxy.upstream.protocol import Upstream

from .fetch import stream
from .read_ahead import PlannedRun
from .types import LogicalObject


class StoredRun:
    """One upstream range, kept as it came until its turn."""

    def __init__(self, upstream: Upstream, found: LogicalObject, first: int, length: int) -> None:
        self._upstream = upstream
        self._found = found
        self._first = first
        self._length = length
        # None behind the last one.
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._fetch())

    @property
    def is_late(self) -> bool:
        """See Run."""
        return self._chunks.empty()

    async def bodies(self) -> AsyncGenerator[bytes, None]:
        """The range's bytes, in the pieces that they came in."""
        while (chunk := await self._chunks.get()) is not None:
            yield chunk
        await self._task

    def cancel(self) -> None:
        """See Run."""
        self._task.cancel()

    async def wait(self) -> None:
        """See Run."""
        await asyncio.gather(self._task, return_exceptions=True)

    async def _fetch(self) -> None:
        try:
            async for chunk in stream(self._upstream, self._found, self._first, self._length):
                self._chunks.put_nowait(chunk)
        finally:
            self._chunks.put_nowait(None)


def stored_runs(upstream: Upstream, found: LogicalObject, first: int, length: int) -> list[PlannedRun]:
    """How stored bytes first to first + length are read."""
    starts = range(first, first + length, READ_RUN_BYTES)
    sizes = [min(READ_RUN_BYTES, first + length - start) for start in starts]
    return [
        PlannedRun(size, partial(StoredRun, upstream, found, start, size))
        for start, size in zip(starts, sizes, strict=True)
    ]
