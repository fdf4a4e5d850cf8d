"""Upstream ranges in parallel; their frames are decoded while they arrive, and given in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from functools import partial

from s4weights.codec.container import FRAME_HEADER_BYTES, FrameSpan
from s4weights.codec.decode import decode_frame
from s4weights.codec.engines import Engine
from s4weights.codec.types import Buffer
from s4weights.proxy.limits import READ_RUN_BYTES, READ_WINDOW_BYTES, READ_WINDOW_MAX_BYTES

from .bases import StoredContainer, may_need_base
from .fetch import stream
from .store import Store
from .types import LogicalObject


class ReadAhead:
    """Some frames of one object, read a window ahead of who takes them.

    The caller has READ_WINDOW_BYTES of the budget. While the bucket is what is waited for, and the budget has room that
    nobody else wants, the window grows by a run at a time.
    """

    def __init__(self, store: Store, found: LogicalObject, spans: Sequence[FrameSpan]) -> None:
        self._store = store
        self._found = found
        self._container = store.lineage.bases.of_object(found)
        self._waiting = deque(_runs(spans))
        self._begun: deque[_Run] = deque()
        self._ahead_bytes = 0
        self.window_bytes = READ_WINDOW_BYTES

    async def bodies(self) -> AsyncGenerator[bytes, None]:
        """The frames' bodies in order; `close` afterwards.

        Raises: S3Error PreconditionFailed where the object is another one by now; UpstreamError; FormatError.
        """
        self._begin()
        while self._begun:
            run = self._begun[0]
            if run.is_late and run.spans[0].number and self._waiting:
                self._widen()
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
        self._store.reads.release(self.window_bytes - READ_WINDOW_BYTES)
        self.window_bytes = READ_WINDOW_BYTES

    def _begin(self) -> None:
        """Begin as many runs as the window holds, and one in any case."""
        while self._waiting:
            size = self._waiting[0][-1].end - self._waiting[0][0].start
            if self._begun and self._ahead_bytes + size > self.window_bytes:
                return
            self._begun.append(_Run(self._store, self._found, self._container, self._waiting.popleft()))
            self._ahead_bytes += size

    def _widen(self) -> None:
        if self.window_bytes < READ_WINDOW_MAX_BYTES and self._store.reads.try_acquire(READ_RUN_BYTES):
            self.window_bytes += READ_RUN_BYTES
            self._begin()

    def _narrow(self) -> None:
        if self.window_bytes > READ_WINDOW_BYTES and self._store.reads.is_short:
            self.window_bytes -= READ_RUN_BYTES
            self._store.reads.release(READ_RUN_BYTES)


class _Run:
    """Neighbouring frames, read by one upstream call."""

    def __init__(
        self, store: Store, found: LogicalObject, container: StoredContainer, spans: Sequence[FrameSpan]
    ) -> None:
        self.spans = spans
        self._store = store
        self._found = found
        self._container = container
        # None behind the last one.
        self._bodies: asyncio.Queue[asyncio.Future[bytes] | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._fetch())

    @property
    def is_late(self) -> bool:
        """Whether who asks for the first frame has to wait for the bucket."""
        return self._bodies.empty()

    async def bodies(self) -> AsyncGenerator[bytes, None]:
        while (body := await self._bodies.get()) is not None:
            yield await body
        await self._task

    def cancel(self) -> None:
        self._task.cancel()

    async def wait(self) -> None:
        """After `cancel`: until nothing is read, and nothing is decoded any more."""
        await asyncio.gather(self._task, return_exceptions=True)
        left = [self._bodies.get_nowait() for _ in range(self._bodies.qsize())]
        decoding = [body for body in left if body is not None]
        for body in decoding:
            body.cancel()
        await asyncio.gather(*decoding, return_exceptions=True)

    async def _fetch(self) -> None:
        first, last = self.spans[0], self.spans[-1]
        length = last.stored_start + last.stored_bytes - first.stored_start
        pool, path = self._store.pool, self._found.path
        try:
            chunks = stream(self._store.upstream, self._found, first.stored_start, length)
            async for pieces, span in _cut(chunks, self.spans):
                if len(pieces[0]) <= FRAME_HEADER_BYTES:
                    pieces = [memoryview(_joined(pieces))]
                if may_need_base(pieces[0]):
                    self._bodies.put_nowait(asyncio.create_task(self._decode_based(pieces, span)))
                else:
                    self._bodies.put_nowait(pool.submit(partial(_decode, pieces, pool.engine, span, path)))
        finally:
            self._bodies.put_nowait(None)

    async def _decode_based(self, pieces: Sequence[memoryview], span: FrameSpan) -> bytes:
        stored = memoryview(_joined(pieces))
        base = await self._store.lineage.bases.for_frame(self._container, stored, span)
        pool, path = self._store.pool, self._found.path
        return await pool.run(partial(decode_frame, stored, pool.engine, expected=span, where=path, base=base))


def _runs(spans: Sequence[FrameSpan]) -> list[list[FrameSpan]]:
    """Neighbouring frames, up to READ_RUN_BYTES of body a run."""
    runs: list[list[FrameSpan]] = []
    run_bytes = READ_RUN_BYTES
    for span in spans:
        if run_bytes + span.logical_bytes > READ_RUN_BYTES:
            runs.append([])
            run_bytes = 0
        runs[-1].append(span)
        run_bytes += span.logical_bytes
    return runs


async def _cut(
    chunks: AsyncIterator[bytes], spans: Sequence[FrameSpan]
) -> AsyncIterator[tuple[list[memoryview], FrameSpan]]:
    """Each frame's stored bytes as soon as they are there, in the pieces that they came in."""
    waiting = deque(spans)
    pieces: list[memoryview] = []
    missing = waiting[0].stored_bytes
    async for chunk in chunks:
        rest = memoryview(chunk)
        while waiting and len(rest):
            pieces.append(rest[:missing])
            missing -= len(pieces[-1])
            rest = rest[len(pieces[-1]) :]
            if not missing:
                yield pieces, waiting.popleft()
                pieces = []
                missing = waiting[0].stored_bytes if waiting else 0


def _decode(pieces: Sequence[memoryview], engine: Engine, span: FrameSpan, where: str) -> bytes:
    return decode_frame(_joined(pieces), engine, expected=span, where=where)


def _joined(pieces: Sequence[memoryview]) -> Buffer:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
