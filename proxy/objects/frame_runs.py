"""Frames out of upstream ranges: cut as they arrive, decoded in the pool, given in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from functools import partial

from s4weights.codec.container import FRAME_HEADER_BYTES, FrameSpan
from s4weights.codec.decode import decode_frame
from s4weights.codec.engines import Engine
from s4weights.codec.types import Buffer
from s4weights.proxy.limits import READ_RUN_BYTES

from .bases import StoredContainer, may_need_base
from .fetch import stream
from .read_ahead import PlannedRun
from .store import Store
from .types import LogicalObject


class FrameRun:
    """Neighbouring frames, read by one upstream call and decoded while they arrive."""

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
        """See Run."""
        return self._bodies.empty()

    async def bodies(self) -> AsyncGenerator[bytes, None]:
        """The frames' bodies, in order."""
        while (body := await self._bodies.get()) is not None:
            yield await body
        await self._task

    def cancel(self) -> None:
        """See Run."""
        self._task.cancel()

    async def wait(self) -> None:
        """See Run."""
        await asyncio.gather(self._task, return_exceptions=True)
        left = [self._bodies.get_nowait() for _ in range(self._bodies.qsize())]
        decoding = [body for body in left if body is not None]
        for body in decoding:
            # What waits for a base's bytes would wait long; a thread that decodes goes on and holds its memory until it ends.
            if isinstance(body, asyncio.Task):
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


def frame_runs(store: Store, found: LogicalObject, spans: Sequence[FrameSpan]) -> list[PlannedRun]:
    """How some frames of one object are read."""
    container = store.lineage.bases.of_object(found)
    return [
        PlannedRun(run[-1].end - run[0].start, partial(FrameRun, store, found, container, run)) for run in _runs(spans)
    ]


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
