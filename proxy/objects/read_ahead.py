"""Upstream ranges in parallel, given in order, as far ahead of who takes them as memory allows."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from s4weights.proxy.limits import READ_RUN_BYTES, READ_WINDOW_BYTES, READ_WINDOW_MAX_BYTES
from s4weights.proxy.memory import MemoryBudget


class Run(Protocol):
    """One upstream range that is being read."""

    @property
    def is_late(self) -> bool:
        """Whether who asks for the first bytes has to wait for the bucket."""

    def bodies(self) -> AsyncGenerator[bytes, None]:
        """What the range holds, in order."""

    def cancel(self) -> None:
        """Stop reading."""

    async def wait(self) -> None:
        """After `cancel`: until nothing is read, and nothing is decoded any more."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A range that is to be read. size: bytes of `bodies`."""

    size: int
    begin: Callable[[], Run]


class ReadAhead:
    """Some neighbouring ranges of one object, read a window ahead of who takes them.

    The caller has READ_WINDOW_BYTES of the budget. While the bucket is what is waited for, and the budget has room that
    nobody else wants, the window grows by a run at a time.
    """

    def __init__(self, reads: MemoryBudget, runs: Iterable[PlannedRun]) -> None:
        self._reads = reads
        self._waiting = deque(runs)
        self._begun: deque[Run] = deque()
        self._ahead_bytes = 0
        self.window_bytes = READ_WINDOW_BYTES

    async def bodies(self) -> AsyncGenerator[bytes, None]:
        """What the ranges hold, in order; `close` afterwards.

        Raises: S3Error PreconditionFailed where the object is another one by now; UpstreamError; FormatError.
        """
        self._begin()
        is_first = True
        while self._begun:
            run = self._begun[0]
            if run.is_late and not is_first and self._waiting:
                self._widen()
            is_first = False
            async for body in run.bodies():
                yield body
                self._ahead_bytes -= len(body)
                self._begin()
            self._begun.popleft()
            self._narrow()

    async def close(self) -> None:
        """Stop what is under way and give back what the window has grown by."""
        self._waiting.clear()
        for run in self._begun:
            run.cancel()
        for run in self._begun:
            await run.wait()
        self._begun.clear()
        self._reads.release(self.window_bytes - READ_WINDOW_BYTES)
        self.window_bytes = READ_WINDOW_BYTES

    def _begin(self) -> None:
        """Begin as many runs as the window holds, and one in any case."""
        while self._waiting:
            planned = self._waiting[0]
            if self._begun and self._ahead_bytes + planned.size > self.window_bytes:
                return
            self._begun.append(planned.begin())
            self._waiting.popleft()
            self._ahead_bytes += planned.size

    def _widen(self) -> None:
        if self.window_bytes < READ_WINDOW_MAX_BYTES and self._reads.try_acquire(READ_RUN_BYTES):
            self.window_bytes += READ_RUN_BYTES
            self._begin()

    def _narrow(self) -> None:
        if self.window_bytes > READ_WINDOW_BYTES and self._reads.is_short:
            self.window_bytes -= READ_RUN_BYTES
            self._reads.release(READ_RUN_BYTES)
