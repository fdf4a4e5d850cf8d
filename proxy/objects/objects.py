"""The objects of the bucket as clients know them: what the handlers call."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import os
from collections.abc import AsyncGenerator, Sequence

from s4weights.codec.engines import choose_engine
from s4weights.codec.types import Level
from s4weights.proxy.checksums.algorithms import HEADER_PREFIX, TYPE_HEADER
from s4weights.proxy.checksums.plan import FULL_OBJECT
from s4weights.proxy.config import Settings
from s4weights.proxy.errors import S3Error
from s4weights.proxy.limits import LISTING_CACHE_ROWS
from s4weights.proxy.lineage.cache import ContainerCache
from s4weights.proxy.memory import MemoryBudget
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.upstream.protocol import (
    NO_CONDITIONS,
    Conditions,
    Entry,
    Headers,
    Part,
    Stored,
    Upstream,
    names_etag,
)

from .bases import Bases
from .codec_pool import CodecPool
from .collector import Collector
from .copy import copy_object, depends_on_others, write_anew
from .delete import delete_object
from .guard import Guard
from .journal import Journal
from .lineage import Lineage
from .listing import LogicalListing
from .listing_cache import ListingCache
from .predecessors import Predecessors
from .put import put_object
from .read import read_object
from .rebase import Rebaser
from .resolve import Resolver
from .store import Store, VerifiedBody
from .types import LogicalObject
from .uploads import Uploads


def _names_one(condition: str | None) -> bool:
    """Whether a condition is about an ETag, and not about there being an object at all."""
    return condition is not None and condition.strip() != "*"


class Objects:
    """One bucket store, seen through the codec."""

    def __init__(self, upstream: Upstream, settings: Settings, metrics: Metrics) -> None:
        threads = settings.threads or os.cpu_count() or 1
        quarter = settings.memory_bytes // 4
        engine = choose_engine(settings.engine, gpu_memory_bytes=settings.gpu_memory_bytes, entropy=settings.entropy)
        metrics.watch(engine)
        pool = CodecPool(engine, threads, Level(settings.level))
        self._resolver = Resolver(upstream)
        guard = Guard(upstream, self._resolver)
        self._cache = ContainerCache(
            settings.state_dir / "containers", settings.cache_bytes if settings.cache_bytes >= 0 else None
        )
        bases = Bases(guard, self._resolver, pool, self._cache)
        predecessors = Predecessors(upstream, self._resolver, settings)
        self.store = Store(
            upstream=upstream,
            settings=settings,
            metrics=metrics,
            pool=pool,
            guard=guard,
            lineage=Lineage(settings, guard, pool, bases, predecessors, self._cache),
            journal=Journal(settings.state_dir),
            writes=MemoryBudget(2 * quarter, on_pressure=self._relieve),
            reads=MemoryBudget(quarter),
            parts=MemoryBudget(quarter),
        )
        self.uploads = Uploads(self.store)
        self.collector = Collector(upstream, guard)
        self.rebaser = Rebaser(self.store, self._resolver)
        self._listed = ListingCache(settings.state_dir / "listings.sqlite", LISTING_CACHE_ROWS)
        self._listing = LogicalListing(self._resolver, self._listed)
        self._relieving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take the state directory and end what an earlier run left behind. Raises: ConfigError."""
        await asyncio.to_thread(self.store.journal.open)
        await asyncio.to_thread(self._cache.open)
        await self._listed.open()
        await self.uploads.start()
        if self.store.settings.rebase:
            self.rebaser.start()

    async def close(self) -> None:
        """Abort what is open and give everything back."""
        try:
            await self.rebaser.close()
            await self.uploads.close()
        finally:
            await asyncio.to_thread(self.store.pool.close)
            await self._listed.close()
            self.store.journal.close()

    async def resolve(self, bucket: str, key: str, *, version_id: str | None = None) -> LogicalObject:
        """Find an object. Raises: S3Error NoSuchKey, NoSuchBucket, ..."""
        return await self._resolver.resolve(bucket, key, version_id=version_id)

    async def resolve_surely(self, bucket: str, key: str) -> LogicalObject:
        """As `resolve`, where one call more may show that it is a container that was cut off."""
        return await self._resolver.resolve_surely(bucket, key)

    async def logical_entries(self, bucket: str, entries: Sequence[Entry]) -> list[Entry]:
        """Rows of a listing with logical sizes and ETags."""
        return await self._listing.logical_entries(bucket, entries)

    def read(self, found: LogicalObject, first: int, length: int) -> AsyncGenerator[bytes, None]:
        """Logical bytes first to first + length; see read_object."""
        return read_object(self.store, found, first, length)

    async def put(
        self,
        bucket: str,
        key: str,
        body: VerifiedBody,
        length: int,
        headers: Headers,
        conditions: Conditions | None = None,
    ) -> Stored:
        """Store a body of length bytes; visible when it is whole and verified."""
        stored_conditions = await self._stored_conditions(bucket, key, conditions)
        return await put_object(self.store, (bucket, key), body, length, headers, stored_conditions)

    async def complete(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        parts: Sequence[Part],
        conditions: Conditions | None,
        announced: Headers | None = None,
    ) -> Stored:
        """Make a multipart upload's object visible. announced: see MultipartUpload.complete."""
        stored_conditions = await self._stored_conditions(bucket, key, conditions)
        return await self.uploads.complete(bucket, key, upload_id, parts, stored_conditions, announced)

    async def checksums(self, found: LogicalObject) -> Headers:
        """The whole object's checksum and its type by header, where there is one."""
        if found.is_container:
            return found.checksums
        try:
            info = await self.store.upstream.head(found.bucket, found.key, version_id=found.version_id, checksums=True)
        except S3Error:
            return {}  # gone by now
        if info.etag != found.stored.etag:
            return {}  # another object by now
        return {name: value for name, value in info.headers.items() if name.startswith(HEADER_PREFIX)}

    async def copy(
        self,
        source: LogicalObject,
        bucket: str,
        key: str,
        headers: Headers,
        *,
        replace: bool,
        conditions: Conditions | None = None,
    ) -> Stored:
        """Copy on the bucket's side, without a byte of the body passing here."""
        asked = await self._stored_conditions(bucket, key, conditions)
        if bucket != source.bucket and depends_on_others(source):
            return await write_anew(self.store, source, (bucket, key), headers, asked, replace=replace)
        stored = await copy_object(self.store.guard, source, (bucket, key), headers, asked, replace=replace)
        if not source.is_container:
            return stored
        is_whole = source.checksums.get(TYPE_HEADER) == FULL_OBJECT
        return Stored(source.info.etag, stored.headers, stored.last_modified, source.checksums if is_whole else {})

    async def delete(
        self,
        bucket: str,
        key: str,
        *,
        version_id: str | None = None,
        conditions: Conditions | None = None,
        headers: Headers | None = None,
    ) -> Headers:
        """Remove an object. headers: see Upstream.delete."""
        asked = conditions or NO_CONDITIONS
        return await delete_object(self.store.guard, self._resolver, (bucket, key), version_id, asked, headers or {})

    async def _stored_conditions(self, bucket: str, key: str, conditions: Conditions | None) -> Conditions | None:
        """The bucket compares its own ETags: a logical one is looked up, and the bucket then checks, atomically, that the
        version which has it is still there.

        Raises: S3Error PreconditionFailed.
        """
        if conditions is None or not (_names_one(conditions.if_match) or _names_one(conditions.if_none_match)):
            return conditions
        try:
            found = await self._resolver.resolve_briefly(bucket, key)
        except S3Error:
            return conditions  # not there, or not to be read without its key: the bucket's own answer
        if not found.is_container:
            return conditions
        if conditions.if_match is not None and not names_etag(conditions.if_match, found.info.etag):
            raise S3Error("PreconditionFailed", Condition="If-Match")
        if conditions.if_none_match is not None and names_etag(conditions.if_none_match, found.info.etag):
            raise S3Error("PreconditionFailed", Condition="If-None-Match")
        return dataclasses.replace(conditions, if_match=f'"{found.stored.etag}"', if_none_match=None)

    def _relieve(self) -> None:
        if self._relieving is None or self._relieving.done():
            self._relieving = asyncio.get_running_loop().create_task(
                self.uploads.relieve(), context=contextvars.Context()
            )
