"""GetObject's body: parallel upstream ranges, frames decoded in order, nothing unverified."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import xxhash

from s4weights.codec.container import HEADER_BYTES, Trailer
from s4weights.codec.errors import ChecksumMismatch
from s4weights.proxy.errors import S3Error
from s4weights.proxy.limits import MIB, READ_RUN_BYTES, READ_WINDOW_BYTES

from .codec_pool import CodecPool
from .cut_off import checked_start, may_be_cut_off
from .fetch import stream
from .frame_runs import frame_runs
from .occupants import kept_version
from .read_ahead import ReadAhead
from .store import Store
from .stored_runs import stored_runs
from .types import LogicalObject

_FORBIDDEN: Final = 403
# Beside the window: frames being decoded, those whose hash is behind, and what the socket has not taken.
_BESIDE_BYTES = 8 * MIB
# Of one turn in a thread: a turn costs as much as hashing half a mebibyte.
_HASHED_AT_ONCE_BYTES = 4 * MIB


async def read_object(store: Store, found: LogicalObject, first: int, length: int) -> AsyncGenerator[bytes, None]:
    """Yield logical bytes first to first + length of the version that was found.

    Raises: S3Error PreconditionFailed where the object is another one by now (before the first chunk, as a rule);
    UpstreamError; FormatError where the container is damaged. Never a wrong byte, never a short end.
    """
    if not length:
        return
    chunks = _read_container(store, found, first, length) if found.tail else _read_checked(store, found, first, length)
    async with contextlib.aclosing(chunks):
        async for chunk in chunks:
            yield chunk


def _read_checked(store: Store, found: LogicalObject, first: int, length: int) -> AsyncGenerator[bytes, None]:
    """What begins within the header that a container would have is read from its start: no call more, and it may be one."""
    if first >= HEADER_BYTES or not may_be_cut_off(found) or len(found.last_bytes) == found.stored.size:
        return _read_stored(store, found, first, length)
    return checked_start(found, _read_stored(store, found, 0, max(first + length, HEADER_BYTES)), first, length)


async def _read_stored(store: Store, found: LogicalObject, first: int, length: int) -> AsyncGenerator[bytes, None]:
    known_from = found.stored.size - len(found.last_bytes)
    if first >= known_from:
        yield found.last_bytes[first - known_from : first - known_from + length]
        return
    version = kept_version(found)
    if length > READ_RUN_BYTES and (version is not None or store.settings.split_reads):
        sent_bytes = 0
        try:
            chunks = _read_split(store, replace(found, version_id=version or found.version_id), first, length)
            async with contextlib.aclosing(chunks):
                async for chunk in chunks:
                    sent_bytes += len(chunk)
                    yield chunk
        except S3Error as error:
            # Who may read the object may not always name its versions.
            if error.status != _FORBIDDEN or version is None or version == found.version_id or sent_bytes:
                raise
        if sent_bytes:
            return
    # One answer of the bucket is one body, whatever is written meanwhile.
    chunks = stream(store.upstream, found, first, length)
    async with contextlib.aclosing(chunks):
        async for chunk in chunks:
            yield chunk


async def _read_split(store: Store, found: LogicalObject, first: int, length: int) -> AsyncGenerator[bytes, None]:
    """By several ranges at once; nothing where there is no memory for them: no body that passed through waits for it."""
    held_bytes = min(READ_WINDOW_BYTES + READ_RUN_BYTES, length)
    if not store.reads.try_acquire(held_bytes):
        return
    ahead = ReadAhead(store.reads, stored_runs(store.upstream, found, first, length))
    try:
        async for chunk in ahead.bodies():
            yield chunk
    finally:
        await ahead.close()
        store.reads.release(held_bytes)


async def _read_container(store: Store, found: LogicalObject, first: int, length: int) -> AsyncGenerator[bytes, None]:
    assert found.tail is not None
    whole = _WholeBody(store.pool, found.tail.trailer, found.path) if length == found.info.size else None
    end = first + length
    async with store.reads.hold(min(READ_WINDOW_BYTES + _BESIDE_BYTES, 2 * length + 2 * MIB)):
        while first < end:
            frames = _read_frames(store, found, first, end, whole)
            try:
                async with contextlib.aclosing(frames):
                    async for chunk in frames:
                        first += len(chunk)
                        yield chunk
            except S3Error as error:
                found = await _same_body(store, found, error)


async def _read_frames(
    store: Store, found: LogicalObject, first: int, end: int, whole: _WholeBody | None
) -> AsyncGenerator[bytes, None]:
    assert found.tail is not None
    assert found.tail.index is not None
    spans = found.tail.index.spans(first, end - first)
    ahead = ReadAhead(store.reads, frame_runs(store, found, spans))
    position = spans[0].start
    try:
        async for body in ahead.bodies():
            chunk = body[max(0, first - position) : end - position]
            if whole is not None:
                await whole.take(chunk)
            yield chunk
            position += len(body)
    finally:
        await ahead.close()


async def _same_body(store: Store, found: LogicalObject, error: S3Error) -> LogicalObject:
    """Where the same body is by now: under its version, or at the key, only written again (rebase.py); else raises error."""
    assert found.tail is not None
    if error.code not in ("PreconditionFailed", "NoSuchKey") or found.version_id is not None:
        raise error
    version = kept_version(found)
    if version is not None:
        return replace(found, version_id=version)
    try:
        now = await store.guard.resolver.resolve(found.bucket, found.key)
    except S3Error:
        raise error from None
    if now.tail is None or now.tail.trailer.digest != found.tail.trailer.digest or now.stored.etag == found.stored.etag:
        raise error
    return now


class _WholeBody:
    """Checks the digest of the whole body before its last chunk is given out; until then it may lag behind."""

    def __init__(self, pool: CodecPool, trailer: Trailer, path: str) -> None:
        self._pool = pool
        self._trailer = trailer
        self._path = path
        self._digest = xxhash.xxh3_128()
        self._untaken: list[bytes] = []
        self._untaken_bytes = 0
        self._missing_bytes = trailer.logical_bytes
        self._hashing: asyncio.Future[None] | None = None

    async def take(self, body: bytes) -> None:
        """Take the next bytes. Raises: ChecksumMismatch with the last ones."""
        self._untaken.append(body)
        self._untaken_bytes += len(body)
        self._missing_bytes -= len(body)
        if self._untaken_bytes >= _HASHED_AT_ONCE_BYTES or not self._missing_bytes:
            await self._hash()
        if not self._missing_bytes:
            await self._hash()
            if self._digest.digest() != self._trailer.digest:
                raise ChecksumMismatch(
                    f"{self._path}: expected XXH3-128 {self._trailer.digest.hex()} of the body, "
                    f"found {self._digest.hexdigest()}"
                )

    async def _hash(self) -> None:
        """Wait for the bytes before, in their order, and begin with those that were taken."""
        if self._hashing is not None:
            await self._hashing
        bodies, self._untaken, self._untaken_bytes = self._untaken, [], 0
        self._hashing = self._pool.submit(partial(_update, self._digest, bodies))


def _update(digest: xxhash.xxh3_128, bodies: Sequence[bytes]) -> None:
    for body in bodies:
        digest.update(body)
