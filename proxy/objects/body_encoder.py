"""One recognised body on its way into a container; the first bytes decide whether it gains at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from s4weights.codec.container import HEADER_BYTES, LogicalETag
from s4weights.codec.encode import Encoder
from s4weights.codec.types import Buffer, Frame, Kind
from s4weights.proxy.limits import MIN_GAIN
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.tracing import WorkSpan
from s4weights.proxy.upstream.protocol import Conditions, Stored

from .codec_pool import CodecPool
from .stored_writer import StoredWriter


class BodyEncoder:
    """Encoder and writer of one body. Stored bytes are kept back until `commit`, so that the body may yet pass through."""

    def __init__(self, pool: CodecPool, metrics: Metrics, kind: Kind) -> None:
        self.encoder = Encoder(kind=kind)
        self._pool = pool
        self._metrics = metrics
        self._kept: list[Buffer] = [self.encoder.start()]
        self._tail = b""
        self._writer: StoredWriter | None = None
        self._span = WorkSpan("encode")

    async def feed(self, chunk: bytes) -> None:
        """Encode the next bytes of the body."""
        await self._encode(await self._pool.run(lambda: self.encoder.plan(chunk)))

    async def end(self) -> None:
        """Encode what is left of the body."""
        await self._encode(await self._pool.run(self.encoder.plan_end))

    async def seal(
        self, etag: LogicalETag, *, parts: Sequence[int] = (), checksums: Mapping[str, str] | None = None
    ) -> None:
        """Make index and trailer, after `end`. parts: sizes of the client's parts. checksums: its own by header."""
        self._tail = await self._pool.run(lambda: self.encoder.finish(etag=etag, parts=parts, checksums=checksums))

    def gains(self) -> bool:
        """Whether what there is so far is worth a container."""
        totals = self.encoder.totals
        container_bytes = HEADER_BYTES + totals.stored_bytes + len(self._tail)
        return container_bytes <= totals.logical_bytes * (1 - MIN_GAIN)

    async def commit(self, writer: StoredWriter) -> None:
        """The body becomes a container: send what was kept back, and from now on everything."""
        self._writer = writer
        kept, self._kept = self._kept, []
        for stored in kept:
            await writer.write(stored)

    async def finish(self, conditions: Conditions | None = None) -> Stored:
        """Make the object visible. After `seal` and `commit`; again where an UpstreamError came."""
        assert self._writer is not None
        tail, self._tail = self._tail, b""  # once, also where this is called again
        if tail:
            await self._writer.write(tail)
        stored = await self._writer.finish(conditions)
        totals = self.encoder.totals
        kind = (self.encoder.kind or Kind.UNKNOWN).value
        self._metrics.object_written(totals.logical_bytes, self._writer.stored_bytes, kind)
        self._span.end(kind=kind, logical_bytes=totals.logical_bytes, stored_bytes=self._writer.stored_bytes)
        return stored

    async def abort(self) -> None:
        """Drop everything."""
        self._span.end()
        self._kept.clear()
        if self._writer is not None:
            await self._writer.abort()

    async def _encode(self, frames: Sequence[Frame]) -> None:
        async for encoded in self._pool.encode(frames):
            stored = self.encoder.add(encoded)
            if encoded.fell_back:
                self._metrics.frame_fallback()
            if self._writer is None:
                self._kept.extend(stored)
            else:
                for piece in stored:
                    await self._writer.write(piece)
