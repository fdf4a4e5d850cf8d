"""The codec beside the event loop: frames of all bodies share one pool of threads, order kept a body."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from s4weights.codec.container import FrameSpan
from s4weights.codec.decode import decode_frame
from s4weights.codec.encode import encode_frame
from s4weights.codec.engines import Engine
from s4weights.codec.types import EncodedFrame, Frame, Level

_T = TypeVar("_T")
# Enough for some gigabytes a second of one body; many bodies together use all threads.
MAX_FRAMES_AHEAD: Final = 6


class CodecPool:
    """Threads for the engine; each call releases the GIL while it works."""

    def __init__(self, engine: Engine, threads: int, level: Level = Level.BALANCED) -> None:
        self.engine = engine
        self._level = level
        # Of one body; each frame ahead is up to 2 MiB of memory.
        self._ahead = min(threads, MAX_FRAMES_AHEAD)
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="codec")

    def close(self) -> None:
        """Wait for the threads to end."""
        self._executor.shutdown()

    async def run(self, work: Callable[[], _T]) -> _T:
        """Run something heavy in a thread of the pool."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def answer(self) -> None:
        """Come back once a thread of the pool has had a turn."""
        await self.run(lambda: None)

    def encode(self, frames: Iterable[Frame]) -> AsyncIterator[EncodedFrame]:
        """Encode frames in parallel, a bounded number ahead, and give them in order."""
        return self._in_order([partial(encode_frame, frame, self.engine, self._level) for frame in frames])

    def decode(self, stored: memoryview, spans: Sequence[FrameSpan], where: str) -> AsyncIterator[bytes]:
        """Decode the frames of one run of stored bytes that starts at spans[0], in order."""
        base = spans[0].stored_start

        def job(span: FrameSpan) -> Callable[[], bytes]:
            piece = stored[span.stored_start - base :][: span.stored_bytes]
            return partial(decode_frame, piece, self.engine, expected=span, where=where)

        return self._in_order([job(span) for span in spans])

    async def _in_order(self, jobs: Sequence[Callable[[], _T]]) -> AsyncIterator[_T]:
        loop = asyncio.get_running_loop()
        ahead: deque[asyncio.Future[_T]] = deque()
        waiting = iter(jobs)
        try:
            for job in waiting:
                ahead.append(loop.run_in_executor(self._executor, job))
                if len(ahead) > self._ahead:
                    yield await ahead.popleft()
            while ahead:
                yield await ahead.popleft()
        finally:
            for future in ahead:
                future.cancel()
