"""One budget for all bodies in flight: past it, sockets are not read and parts go to disk."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class MemoryBudget:
    """Bytes that all bodies together may hold; first come, first served."""

    def __init__(self, total_bytes: int, *, on_pressure: Callable[[], None] | None = None) -> None:
        """on_pressure: called where somebody has to wait, so that idle holders may give some back."""
        self.total_bytes = total_bytes
        self._on_pressure = on_pressure
        self.used_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._unused = asyncio.Event()
        self._unused.set()

    @property
    def is_short(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    async def acquire(self, size: int) -> None:
        """Take size bytes, at most the whole budget, as soon as they are free."""
        if not self._waiting and self._fits(size):
            self._take(size)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        if self._on_pressure is not None:
            self._on_pressure()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(size)
            else:
                self._waiting.remove((size, turn))
                self._wake()
            raise

    async def wait_unused(self) -> None:
        """Until nobody holds anything."""
        await self._unused.wait()

    def try_acquire(self, size: int) -> bool:
        """Take size bytes if they are free now and nobody waits."""
        if self._waiting or self.used_bytes + size > self.total_bytes:
            return False
        self._take(size)
        return True

    def exceed(self, size: int) -> None:
        """Take size bytes that a stream cannot go on without, and so cannot wait for."""
        self._take(size)

    def release(self, size: int) -> None:
        """Give size bytes back."""
        self._take(-size)
        self._wake()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Hold size bytes for the length of a block."""
        await self.acquire(size)
        try:
            yield
        finally:
            self.release(size)

    def _fits(self, size: int) -> bool:
        # One that is larger than the whole budget goes alone rather than never.
        return self.used_bytes + size <= self.total_bytes or self.used_bytes == 0

    def _wake(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._take(size)
                turn.set_result(None)

    def _take(self, size: int) -> None:
        self.used_bytes += size
        if self.used_bytes:
            self._unused.clear()
        else:
            self._unused.set()
