"""The codec beside the event loop: frames of all bodies share one pool of threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from s4weights.codec.encode import encode_frame
from s4weights.codec.engines import DeviceEngine, Engine
from s4weights.codec.types import EncodedFrame, Frame, Level

_T = TypeVar("_T")
# Enough for some gigabytes a second of one body; many bodies together use all threads.
MAX_FRAMES_AHEAD: Final = 6
# For a device, which works in batches. Fewer than a planner of bases can follow (codec/bases).
MAX_DEVICE_FRAMES_AHEAD: Final = 24


class CodecPool:
    """Threads for the engine; each call releases the GIL while it works."""

    def __init__(self, engine: Engine, threads: int, level: Level = Level.BALANCED) -> None:
        self.engine = engine
        self._level = level
        # Of one body; each frame ahead is up to 2 MiB of memory.
        if isinstance(engine, DeviceEngine):
            # Each waits for its frame; the work is the device's.
            threads = max(threads, engine.frames_at_once)
            self.frames_ahead = min(threads, MAX_DEVICE_FRAMES_AHEAD)
        else:
            self.frames_ahead = min(threads, MAX_FRAMES_AHEAD)
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="codec")

    def close(self) -> None:
        """Wait for the threads to end."""
        self._executor.shutdown()

    def submit(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        """Run something heavy in a thread of the pool."""
        return asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def run(self, work: Callable[[], _T]) -> _T:
        """The same, and wait for it."""
        return await self.submit(work)

    async def answer(self) -> None:
        """Come back once a thread of the pool has had a turn."""
        await self.run(lambda: None)

    def encode(self, frame: Frame) -> asyncio.Future[EncodedFrame]:
        """Encode one frame."""
        return self.submit(partial(encode_frame, frame, self.engine, self._level))
