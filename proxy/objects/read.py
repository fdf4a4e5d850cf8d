"""GetObject's body: parallel upstream ranges, frames decoded in order, nothing unverified."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

import xxhash

from s4weights.codec.container import FrameSpan, Trailer
from s4weights.codec.errors import ChecksumMismatch
from s4weights.proxy.limits import READ_HOLD_BYTES, READ_RUN_BYTES, READ_RUNS_IN_FLIGHT

from .fetch import fetch, stream
from .store import Store
from .types import LogicalObject


async def read_object(store: Store, found: LogicalObject, first: int, length: int) -> AsyncGenerator[bytes, None]:
    """Yield logical bytes first to first + length of the version that was found.

    Raises: S3Error PreconditionFailed where the object is another one by now (before the first chunk, as a rule);
    UpstreamError; FormatError where the container is damaged. Never a wrong byte, never a short end.
    """
    if not length:
        return
    chunks = _read_container(store, found, first, length) if found.tail else _read_stored(store, found, first, length)
    async for chunk in chunks:
        yield chunk


async def _read_stored(store: Store, found: LogicalObject, first: int, length: int) -> AsyncIterator[bytes]:
    known_from = found.stored.size - len(found.last_bytes)
    if first >= known_from:
        yield found.last_bytes[first - known_from : first - known_from + length]
        return
    chunks = stream(store.upstream, found, first, length)
    async with contextlib.aclosing(chunks):
        async for chunk in chunks:
            yield chunk


async def _read_container(store: Store, found: LogicalObject, first: int, length: int) -> AsyncIterator[bytes]:
    assert found.tail is not None
    assert found.tail.index is not None
    spans = found.tail.index.spans(first, length)
    end = first + length
    digest = _WholeBody(found.tail.trailer) if length == found.info.size else None
    hold = min(READ_HOLD_BYTES, 2 * sum(span.logical_bytes for span in spans))
    async with store.reads.hold(hold):
        position = spans[0].start
        async for body in _decoded(store, found, spans):
            if digest is not None:
                digest.update(body, found.path)
            yield body[max(0, first - position) : end - position]
            position += len(body)


async def _decoded(store: Store, found: LogicalObject, spans: Sequence[FrameSpan]) -> AsyncGenerator[bytes, None]:
    container = store.lineage.bases.of_object(found)
    waiting = deque(_runs(spans))
    ahead: deque[tuple[list[FrameSpan], asyncio.Task[bytes]]] = deque()
    try:
        while waiting or ahead:
            while waiting and len(ahead) < READ_RUNS_IN_FLIGHT:
                run = waiting.popleft()
                ahead.append((run, asyncio.create_task(_fetch_run(store, found, run))))
            run, task = ahead.popleft()
            stored = await task
            view = memoryview(stored)
            bases = await store.lineage.bases.for_frames(container, view, run)
            async for body in store.pool.decode(view, run, found.path, bases):
                yield body
    finally:
        for _, task in ahead:
            task.cancel()
        await asyncio.gather(*(task for _, task in ahead), return_exceptions=True)


async def _fetch_run(store: Store, found: LogicalObject, run: Sequence[FrameSpan]) -> bytes:
    first = run[0].stored_start
    return await fetch(store.upstream, found, first, run[-1].stored_start + run[-1].stored_bytes - first)


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


class _WholeBody:
    """Checks the digest of the whole body before its last chunk is given out."""

    def __init__(self, trailer: Trailer) -> None:
        self._trailer = trailer
        self._digest = xxhash.xxh3_128()
        self._seen_bytes = 0

    def update(self, body: bytes, path: str) -> None:
        self._digest.update(body)
        self._seen_bytes += len(body)
        if self._seen_bytes == self._trailer.logical_bytes and self._digest.digest() != self._trailer.digest:
            raise ChecksumMismatch(
                f"{path}: expected XXH3-128 {self._trailer.digest.hex()} of the body, found {self._digest.hexdigest()}"
            )
