"""One recognised body on its way into a container; the first bytes decide whether it gains at all."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial

from s4weights.codec.container import HEADER_BYTES, LogicalETag
from s4weights.codec.encode import Encoder
from s4weights.codec.types import BaseRange, Buffer, EncodedFrame, Frame, Kind
from s4weights.proxy.limits import MIN_GAIN
from s4weights.proxy.lineage.calls import NewObject
from s4weights.proxy.lineage.protocol import is_refusal
from s4weights.proxy.tracing import WorkSpan
from s4weights.proxy.upstream.protocol import Conditions, Stored

from .afterwards import logged
from .based_body import BasedBody
from .occupants import content
from .store import Store
from .stored_writer import StoredWriter


class BodyEncoder:
    """Encoder and writer of one body. Stored bytes are kept back until `commit`, so that the body may yet pass through.

    Where a method raises UpstreamError what it was given is taken all the same: `resume`, and then the next call, go on from
    there.
    """

    def __init__(self, store: Store, kind: Kind, based: BasedBody | None = None) -> None:
        """based: where the body may be coded against others."""
        self.encoder = Encoder(kind=kind, bases=based.bases if based else ())
        self._store = store
        self._pool = store.pool
        self._metrics = store.metrics
        self._based = based
        self._kept: list[Buffer] = [self.encoder.start()]
        self._tail = b""
        self._planned: deque[Frame] = deque()
        self._is_planned = False
        self._offers: tuple[BaseRange, ...] | None = None
        self._writer: StoredWriter | None = None
        self._coding: deque[asyncio.Future[EncodedFrame]] = deque()
        self._span = WorkSpan("encode")

    async def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the body; their frames may still be under way."""
        self._planned += await self._pool.run(partial(self.encoder.plan, chunk))
        await self._encode()

    async def resume(self) -> None:
        """Catch up, before anything new is taken, with what the bucket could not be reached for. After `commit`."""
        assert self._writer is not None
        await self._writer.resume()
        await self._encode()

    async def end(self) -> None:
        """Encode what is left of the body."""
        if not self._is_planned:
            self._planned += await self._pool.run(self.encoder.plan_end)
            self._is_planned = True
        await self._encode()
        await self._take_coded(0)

    async def seal(
        self, etag: LogicalETag | None, *, parts: Sequence[int] = (), checksums: Mapping[str, str] | None = None
    ) -> None:
        """Make index and trailer, after `end`. parts: sizes of the client's parts. checksums: its own by header."""
        totals = self.encoder.totals
        more = self._based.members(totals.stored_bytes, totals.logical_bytes) if self._based else {}
        self._tail = await self._pool.run(
            lambda: self.encoder.finish(etag=etag, parts=parts, checksums=checksums, more=more)
        )

    async def gains(self) -> bool:
        """Whether what there is so far is worth a container."""
        await self._take_coded(0)
        totals = self.encoder.totals
        container_bytes = HEADER_BYTES + totals.stored_bytes + len(self._tail)
        return container_bytes <= totals.logical_bytes * (1 - MIN_GAIN)

    async def commit(self, writer: StoredWriter) -> None:
        """The body becomes a container: send what was kept back, and from now on everything."""
        self._writer = writer
        kept, self._kept = self._kept, []
        await writer.write(*kept)

    async def finish(self, conditions: Conditions | None = None) -> Stored:
        """Make the object visible. After `seal` and `commit`; again where an UpstreamError or a refusal came."""
        assert self._writer is not None
        tail, self._tail = self._tail, b""  # once, also where this is called again
        if tail:
            if self._based is not None:
                await self._based.keep([tail])
            await self._writer.write(tail)
        new = self._new_object()
        try:
            stored = await self._store.guard.replace(self._writer.target, new, conditions, self._writer.finish)
        except BaseException as error:
            if self._based is not None and not is_refusal(error):
                self._based.may_be_visible = True
            raise
        with logged("what follows a visible object failed", *self._writer.target):
            await self._written(self._writer.stored_bytes)
        return stored

    async def _written(self, stored_bytes: int) -> None:
        logical_bytes = self.encoder.totals.logical_bytes
        kind = (self.encoder.kind or Kind.UNKNOWN).value
        self._metrics.object_written(logical_bytes, stored_bytes, kind)
        if self._based is not None:
            await self._based.finish()
        self._span.end(kind=kind, logical_bytes=logical_bytes, stored_bytes=stored_bytes)

    def _new_object(self) -> NewObject:
        totals = self.encoder.totals
        if self._based is not None:
            return self._based.needs(self.encoder.digest, totals.logical_bytes)
        return NewObject(content(self.encoder.digest, totals.logical_bytes))

    async def abort(self) -> None:
        """Drop everything; what cannot be dropped is logged. Harmless after finish."""
        self._span.end()
        for frame in self._coding:
            frame.cancel()
        await asyncio.gather(*self._coding, return_exceptions=True)
        self._coding.clear()
        self._kept.clear()
        if self._writer is not None:
            with logged("what was sent could not be dropped", *self._writer.target):
                await self._writer.abort()
        if self._based is not None:
            with logged("what was kept could not be dropped", *self._based.target):
                await self._based.drop()

    async def _encode(self) -> None:
        await self._take_coded(self._pool.frames_ahead)
        while self._planned:
            self._coding.append(await self._begin(self._planned[0]))
            self._planned.popleft()
            await self._take_coded(self._pool.frames_ahead)

    async def _begin(self, frame: Frame) -> asyncio.Future[EncodedFrame]:
        if self._based is None:
            return self._pool.encode(frame)
        if self._offers is None:
            self._offers = self._based.offers(frame)
        if self._based.must_be_written(self._offers):
            await self._take_coded(0)
        offers, self._offers = self._offers, None
        return asyncio.create_task(self._based.encode(frame, offers)) if offers else self._pool.encode(frame)

    async def _take_coded(self, left: int) -> None:
        """Take frames in order until so many are left under way."""
        while len(self._coding) > left:
            encoded = await self._coding[0]
            self._coding.popleft()
            stored = self.encoder.add(encoded)
            if self._based is not None:
                await self._based.added(encoded, stored)
            if encoded.fell_back:
                self._metrics.frame_fallback()
            if self._writer is None:
                self._kept.extend(stored)
            else:
                await self._writer.write(*stored)
