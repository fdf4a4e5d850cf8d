"""One body on its way into a container, coded against a base and against itself."""

from __future__ import annotations

import asyncio
import bisect
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from s4weights.codec.bases import BasePlanner, BaseTable
from s4weights.codec.container import HEADER_BYTES, BaseBody, FrameSpan, depth_on, make_header
from s4weights.codec.errors import FormatError
from s4weights.codec.types import Base, BaseRange, Buffer, EncodedFrame, Frame
from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.limits import KEPT_AT_ONCE_BYTES
from s4weights.proxy.lineage.cache import CachedContainer
from s4weights.proxy.lineage.calls import NewObject
from s4weights.proxy.lineage.names import new_nonce
from s4weights.proxy.lineage.protocol import unclaim
from s4weights.proxy.lineage.timing import DELAYS
from s4weights.proxy.threads import in_thread

from .bases import Bases, StoredContainer
from .codec_pool import CodecPool
from .guard import Guard
from .occupants import content, need_of, plain_bytes, restore_bytes
from .types import LogicalObject

_log = logging.getLogger(__name__)


class BasedBody:
    """Reads what frames may be predicted from, and knows what the container comes to need.

    base: pinned already; found: the object that it is. cached: where the container is kept beside the bucket, also for its
    own later frames; None: nowhere, and then frames are not predicted from their own body.
    """

    def __init__(
        self,
        guard: Guard,
        pool: CodecPool,
        bases: Bases,
        target: tuple[str, str],
        size: int | None,
        base: tuple[BaseBody, LogicalObject] | None,
        cached: CachedContainer | None,
    ) -> None:
        self.bases: tuple[BaseBody, ...] = () if base is None else (base[0],)
        self._found = None if base is None else base[1]
        self._guard = guard
        self._pool = pool
        self._reader = bases
        self.target = target
        self._bucket, self.key = target
        self._cached = cached
        if cached is not None:
            cached.write([make_header()])
        tables = []
        if self._found is not None and self._found.tail is not None and self._found.tail.index is not None:
            rows = self._found.tail.index.about.get("segments")
            tables.append(BaseTable.of_rows(1, self._found.info.size, rows))
        self._planner = BasePlanner(tables, size=size, twins=cached is not None)
        self._written = _Written()
        self._unkept: list[Buffer] = []
        self._unkept_bytes = 0
        self._keeping = asyncio.Lock()
        self._twin_bytes = 0
        self._name = f"own:{new_nonce()}"
        self._new: NewObject | None = None
        self._started_s = time.monotonic()
        self._is_done = False
        self.uses_base = False
        self.may_be_visible = False
        """Whether the call that makes the object visible was begun and not answered: its pins stay, for `gc`."""

    def offers(self, frame: Frame) -> tuple[BaseRange, ...]:
        """What the frame may be predicted from. frame: the next one, in order."""
        return self._planner.offers(frame)

    def must_be_written(self, offers: Sequence[BaseRange]) -> bool:
        """Whether frames that are under way have to be added first, since these are ranges of them."""
        own_end = max((_end(one) for one in offers if one.reference.number == 0), default=0)
        return own_end > self._written.logical_bytes

    async def encode(self, frame: Frame, offers: Sequence[BaseRange]) -> EncodedFrame:
        """Read what is offered, and encode the frame."""
        read = await asyncio.gather(*(self._read(one) for one in offers))
        bases = [
            Base(one.reference, one.kind, data) for one, data in zip(offers, read, strict=True) if data is not None
        ]
        return await self._pool.encode(replace(frame, bases=tuple(bases)))

    async def added(self, encoded: EncodedFrame, stored: Sequence[Buffer]) -> None:
        """A frame is in the container, as these pieces."""
        self._planner.added(encoded)
        self._written.add(encoded.logical_bytes, encoded.stored_bytes)
        if encoded.base is not None:
            self.uses_base = self.uses_base or encoded.base.number > 0
            if encoded.base.number == 0:
                self._twin_bytes += self._written.stored_bytes_of(encoded.base.start, encoded.logical_bytes)
        await self.keep(stored)

    async def keep(self, stored: Sequence[Buffer]) -> None:
        """Stored bytes, in order, for the cache; written some frames at a time, or when they are read."""
        if self._cached is not None:
            self._unkept += stored
            self._unkept_bytes += sum(map(len, stored))
            if self._unkept_bytes >= KEPT_AT_ONCE_BYTES:
                await self._write_kept(self._cached)

    async def _write_kept(self, cached: CachedContainer) -> None:
        async with self._keeping:
            pieces, self._unkept, self._unkept_bytes = self._unkept, [], 0
            if pieces:
                await in_thread(partial(cached.write, pieces))

    def needs(self, digest: bytes, size: int) -> NewObject:
        """What the object is, once its body has ended. Raises: S3Error where its pins may be too old by now."""
        if time.monotonic() - self._started_s > DELAYS.write.total_seconds():
            raise S3Error("RequestTimeout", f"The upload took more than {DELAYS.write}.", Key=self.key)
        used = self.bases if self.uses_base else ()
        self._new = NewObject(content(digest, size), depth_on(used), tuple(need_of(base) for base in used))
        return self._new

    def members(self, stored_bytes: int, size: int) -> dict[str, Any]:
        """What the index says of reading it. stored_bytes: of the container so far. size: of the body."""
        restore = stored_bytes + self._twin_bytes
        if not self.uses_base or self._found is None or self._found.tail is None or self._found.tail.index is None:
            return {"restore": restore} if self._twin_bytes else {}
        about, base_bytes = self._found.tail.index.about, self._found.stored.size
        plain = plain_bytes(about, base_bytes) * size // max(self._found.info.size, 1)
        return {"restore": restore + restore_bytes(about, base_bytes), "plain": max(plain, stored_bytes)}

    async def finish(self) -> None:
        """The object is visible, as `needs` said."""
        self._is_done = True
        if self._cached is not None:
            new = self._new
            if new is None or new.content is None:
                await asyncio.to_thread(self._cached.drop)
            else:
                await self._write_kept(self._cached)
                await asyncio.to_thread(self._cached.keep, new.content, new.depth)
        if not self.uses_base:
            await self._unclaim()

    async def drop(self) -> None:
        """It came to nothing. Harmless after finish."""
        if self._is_done:
            return
        self._is_done = True
        self._unkept.clear()
        if self._cached is not None:
            await asyncio.to_thread(self._cached.drop)
        if not self.may_be_visible:
            await self._unclaim()

    async def _unclaim(self) -> None:
        if not self.bases:
            return
        try:
            await self._guard.run(self._bucket, unclaim([need_of(base) for base in self.bases], self.key))
        except (S3Error, UpstreamError) as error:
            _log.info("pins of %s/%s are left to gc: %s", self._bucket, self.key, error)

    async def _read(self, wanted: BaseRange) -> bytes | None:
        """None where it cannot be read: the frame is stored without it."""
        start, length = wanted.reference.start, wanted.length
        try:
            if wanted.reference.number:
                return await self._reader.read_base(self._bucket, self.bases[0], start, length)
            return await self._reader.read(self._own(), start, length, is_twin=True)
        except (FormatError, S3Error, UpstreamError, OSError):
            return None

    def _own(self) -> StoredContainer:
        """What is written of this very container."""
        cached = self._cached
        assert cached is not None

        async def fetch(first: int, length: int) -> bytes:
            await self._write_kept(cached)
            data = await asyncio.to_thread(cached.read, first, length)
            if data is None:
                raise FormatError("container: its first bytes are not kept")
            return data

        return StoredContainer(
            name=self._name,
            where=f"{self._bucket}/{self.key}",
            bucket=self._bucket,
            spans=self._written.spans,
            bases=self.bases,
            fetch=fetch,
            size=self._written.logical_bytes,
        )


class _Written:
    """Where the frames lie that were written so far."""

    def __init__(self) -> None:
        self._starts: list[int] = [0]
        self._stored: list[int] = [HEADER_BYTES]

    @property
    def logical_bytes(self) -> int:
        return self._starts[-1]

    def add(self, logical_bytes: int, stored_bytes: int) -> None:
        self._starts.append(self._starts[-1] + logical_bytes)
        self._stored.append(self._stored[-1] + stored_bytes)

    def spans(self, first: int, length: int) -> list[FrameSpan]:
        low = bisect.bisect_right(self._starts, first) - 1
        high = bisect.bisect_left(self._starts, first + length)
        return [
            FrameSpan(
                number,
                self._starts[number],
                self._starts[number + 1] - self._starts[number],
                self._stored[number],
                self._stored[number + 1] - self._stored[number],
            )
            for number in range(max(low, 0), min(high, len(self._starts) - 1))
        ]

    def stored_bytes_of(self, first: int, length: int) -> int:
        return sum(span.stored_bytes for span in self.spans(first, length))


def _end(wanted: BaseRange) -> int:
    return wanted.reference.start + wanted.length
