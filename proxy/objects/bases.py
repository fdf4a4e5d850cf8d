"""The bytes of bases: from the local cache, or from the bucket, only the frames that are needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from s4weights.codec.container import (
    FRAME_HEADER_BYTES,
    TRAILER_BYTES,
    BaseBody,
    FrameSpan,
    Index,
    read_bases,
)
from s4weights.codec.decode import check_reference, decode_frame, read_reference, read_tail, refers_to_itself
from s4weights.codec.errors import FormatError, MissingBase
from s4weights.codec.types import BaseRange
from s4weights.proxy.errors import S3Error
from s4weights.proxy.limits import BASE_FRAMES_BYTES, OPEN_BASES
from s4weights.proxy.lineage.cache import ContainerCache
from s4weights.proxy.lineage.protocol import find

from .codec_pool import CodecPool
from .fetch import fetch
from .guard import Guard
from .lru import LRU
from .occupants import content_of, need_of, occupant_of
from .resolve import Resolver
from .types import LogicalObject

_PREDICTOR_BYTE = 5
_FIRST_WITH_BASE = 2
# Looks for one base: each but the first because it moved since the one before.
_TRIES: Final = 4
_MOVED: Final = frozenset({"PreconditionFailed", "NoSuchKey", "NoSuchVersion", "MethodNotAllowed"})


@dataclass(frozen=True)
class StoredContainer:
    """A container that frames are read from. name: tells it from all others. bases: those that it needs.

    spans: (first, length) -> the frames that hold these logical bytes. fetch: (first, length) -> stored bytes.
    size: of the body. cached: the file, where it is a local one.
    """

    name: str
    where: str
    bucket: str
    spans: Callable[[int, int], Sequence[FrameSpan]]
    bases: tuple[BaseBody, ...]
    fetch: Callable[[int, int], Awaitable[bytes]]
    size: int
    cached: Path | None = None


class Bases:
    """Finds bases and reads ranges of them."""

    def __init__(self, guard: Guard, resolver: Resolver, pool: CodecPool, cache: ContainerCache) -> None:
        self._guard = guard
        self._resolver = resolver
        self._pool = pool
        self._cache = cache
        self._open: LRU[tuple[str, str, int], StoredContainer] = LRU(OPEN_BASES)
        self._frames: LRU[tuple[str, int], bytes] = LRU(BASE_FRAMES_BYTES)

    def of_object(self, found: LogicalObject) -> StoredContainer:
        """A container of the bucket's. found: with its index. Raises: FormatError."""
        assert found.tail is not None
        assert found.tail.index is not None
        return StoredContainer(
            name=f"{found.path}:{found.stored.etag}:{found.version_id or ''}",
            where=found.path,
            bucket=found.bucket,
            spans=found.tail.index.spans,
            bases=read_bases(found.tail.index.about),
            fetch=lambda first, length: fetch(self._guard.upstream, found, first, length),
            size=found.info.size,
        )

    async def for_frame(self, container: StoredContainer, stored: memoryview, span: FrameSpan) -> bytes | None:
        """What a frame is predicted from; None: nothing. Raises: as read."""
        if not may_need_base(stored):
            return None
        needed = await self._pool.run(partial(read_reference, stored, expected=span, where=container.where))
        return None if needed is None else await self._range(container, needed, span)

    async def read(self, container: StoredContainer, first: int, length: int, *, is_twin: bool = False) -> bytes:
        """Logical bytes of a container. is_twin: for a frame of the same container.

        Raises: FormatError, MissingBase among them, which names the base; S3Error, UpstreamError.
        """
        spans = container.spans(first, length)
        missing = [span for span in spans if self._frames.get((container.name, span.number)) is None]
        decoded: dict[int, bytes] = {}
        if missing:
            decoded = await self._decode(container, missing[0], missing[-1], is_twin=is_twin)
        pieces = [decoded.get(span.number) or self._frames.get((container.name, span.number)) for span in spans]
        if any(piece is None for piece in pieces):  # pushed out by others meanwhile
            decoded = await self._decode(container, spans[0], spans[-1], is_twin=is_twin)
            pieces = [decoded[span.number] for span in spans]
        body = b"".join(piece for piece in pieces if piece is not None)
        skip = first - spans[0].start if spans else 0
        found = body[skip : skip + length] if skip or len(body) != length else body
        if len(found) != length:
            raise FormatError(f"{container.where}: expected {length} bytes at {first}, found {len(found)}")
        return found

    async def open(self, bucket: str, base: BaseBody) -> StoredContainer:
        """Find a base. Raises: MissingBase, which names it."""
        bucket = base.bucket or bucket
        identity = (bucket, str(content_of(base)), base.depth)
        known = self._open.get(identity)
        if known is None:
            known = await self._open_cached(bucket, base) or await self._open_stored(bucket, base)
            self._open.put(identity, known)
        return known

    async def read_base(self, bucket: str, base: BaseBody, first: int, length: int) -> bytes:
        """Logical bytes of a base, wherever it is by now. Raises: as read; MissingBase, too, where it moves all the time."""
        for _ in range(_TRIES):
            container = await self.open(bucket, base)
            try:
                return await self.read(container, first, length)
            except (FormatError, OSError):
                if container.cached is None:
                    raise
                await asyncio.to_thread(self._cache.forget, container.cached)  # the bucket has it
            except S3Error as error:
                if error.code not in _MOVED:
                    raise
                # It was overwritten or removed since it was found; then it was kept aside first.
            self._open.forget((base.bucket or bucket, str(content_of(base)), base.depth))
        raise _missing(base.bucket or bucket, base)

    async def _range(self, container: StoredContainer, needed: BaseRange, span: FrameSpan) -> bytes:
        where = f"{container.where}: frame {span.number} at stored byte {span.stored_start}"
        check_reference(needed, container.bases, frame_start=span.start, where=where)
        start, length = needed.reference.start, needed.length
        if refers_to_itself(needed):
            return await self.read(container, start, length, is_twin=True)
        base = container.bases[needed.reference.number - 1]
        try:
            return await self.read_base(container.bucket, base, start, length)
        except MissingBase as error:
            raise MissingBase(f"{where}: {error}") from None

    async def _decode(
        self, container: StoredContainer, first: FrameSpan, last: FrameSpan, *, is_twin: bool
    ) -> dict[int, bytes]:
        start = first.stored_start
        stored = memoryview(await container.fetch(start, last.stored_start + last.stored_bytes - start))
        spans = container.spans(first.start, last.end - first.start)
        if is_twin:
            await self._pool.run(partial(_check_no_twins, stored, spans, container.where))
        bodies = await asyncio.gather(*(self._decode_frame(container, stored, start, span) for span in spans))
        for span, body in zip(spans, bodies, strict=True):
            self._frames.put((container.name, span.number), body, len(body))
        return {span.number: body for span, body in zip(spans, bodies, strict=True)}

    async def _decode_frame(self, container: StoredContainer, stored: memoryview, start: int, span: FrameSpan) -> bytes:
        piece = stored[span.stored_start - start :][: span.stored_bytes]
        base = await self.for_frame(container, piece, span)
        where = container.where
        return await self._pool.run(
            partial(decode_frame, piece, self._pool.engine, expected=span, where=where, base=base)
        )

    async def _open_cached(self, bucket: str, base: BaseBody) -> StoredContainer | None:
        path = await asyncio.to_thread(self._cache.find, content_of(base), base.depth)
        if path is None:
            return None
        try:
            index = await asyncio.to_thread(_read_index, path)
            bases = read_bases(index.about)
        except (FormatError, OSError):
            await asyncio.to_thread(self._cache.forget, path)
            return None
        return StoredContainer(
            name=f"cache:{path.name}",
            where=f"base {base.key} in the cache",
            bucket=bucket,
            spans=index.spans,
            bases=bases,
            fetch=lambda first, length: asyncio.to_thread(_read_file, path, first, length),
            size=base.size,
            cached=path,
        )

    async def _open_stored(self, bucket: str, base: BaseBody) -> StoredContainer:
        for _ in range(_TRIES):
            key = await self._guard.run(bucket, find(need_of(base)))
            if key is None:
                break
            # It may have made way since it was found, also for another body; then it was kept aside first.
            for version in (base.version, None) if base.version and key == base.key else (None,):
                found = await self._resolved(bucket, key, version, base)
                if found is not None:
                    return self.of_object(found)
        raise _missing(bucket, base)

    async def _resolved(self, bucket: str, key: str, version: str | None, base: BaseBody) -> LogicalObject | None:
        """The object there by now, if it holds the base."""
        try:
            found = await self._resolver.resolve(bucket, key, version_id=version)
        except S3Error as error:
            if error.code in _MOVED:
                return None
            raise
        there = occupant_of(found)
        return found if there.content == content_of(base) and there.depth <= base.depth else None


def may_need_base(piece: memoryview) -> bool:
    """Whether a frame, by the start of its header, which is checked later, is predicted from a base."""
    return len(piece) > FRAME_HEADER_BYTES and piece[_PREDICTOR_BYTE] >= _FIRST_WITH_BASE


def _missing(bucket: str, base: BaseBody) -> MissingBase:
    return MissingBase(
        f"expected the body of {bucket}/{base.key} ({base.size} bytes, XXH3-128 {base.digest.hex()}), found it "
        "neither there nor among the hidden bases"
    )


def _check_no_twins(stored: memoryview, spans: Sequence[FrameSpan], where: str) -> None:
    first = spans[0].stored_start
    for span in spans:
        piece = stored[span.stored_start - first :][: span.stored_bytes]
        if may_need_base(piece) and refers_to_itself(read_reference(piece, expected=span, where=where)):
            raise FormatError(
                f"{where}: expected a base in this body that needs none of it, found one at byte {span.start}"
            )


def _read_file(path: Path, first: int, length: int) -> bytes:
    with path.open("rb") as file:
        file.seek(first)
        return file.read(length)


def _read_index(path: Path) -> Index:
    size = path.stat().st_size
    tail = read_tail(_read_file(path, max(0, size - TRAILER_BYTES), TRAILER_BYTES), object_bytes=size)
    start = tail.trailer.index_offset
    index = read_tail(_read_file(path, start, size - start), object_bytes=size).index
    if index is None:
        raise FormatError(f"{path.name}: expected an index at stored byte {start}, found none")
    return index
