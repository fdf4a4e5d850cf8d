"""Listings with the sizes and ETags that clients know."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

from s4weights.proxy.errors import S3Error
from s4weights.proxy.limits import LISTING_CACHE_ENTRIES, LISTING_CALLS, MIN_CONTAINER_BYTES
from s4weights.proxy.upstream.protocol import Entry

from .lru import LRU
from .resolve import Resolver
from .types import LogicalObject

_log = logging.getLogger(__name__)

# Key and upstream ETag name the bytes; the time tells a copy onto itself with another marker.
_Identity: TypeAlias = tuple[str, str, str, datetime, str | None]


class LogicalListing:
    """Looks into every entry that may be a container, once a version."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._known: LRU[_Identity, tuple[int, str]] = LRU(LISTING_CACHE_ENTRIES)
        self._calls = asyncio.Semaphore(LISTING_CALLS)

    async def logical_entries(self, bucket: str, entries: Sequence[Entry]) -> list[Entry]:
        """The same entries with logical size and ETag."""
        return list(await asyncio.gather(*(self._logical_entry(bucket, entry) for entry in entries)))

    async def _logical_entry(self, bucket: str, entry: Entry) -> Entry:
        if entry.size < MIN_CONTAINER_BYTES:
            return entry
        identity = (bucket, entry.key, entry.etag, entry.last_modified, entry.version_id)
        known = self._known.get(identity)
        if known is None:
            async with self._calls:
                found = await self._look(bucket, entry)
            if found is None:
                return entry
            known = found.info.size, found.info.etag
            if found.stored.etag == entry.etag:
                self._known.put(identity, known)
        size, etag = known
        return replace(entry, size=size, etag=etag)

    async def _look(self, bucket: str, entry: Entry) -> LogicalObject | None:
        try:
            return await self._resolver.resolve_briefly(bucket, entry.key, version_id=entry.version_id)
        except S3Error as error:
            # Deleted since, unreadable for us (its class, its key), or damaged: a listing still names it.
            _log.warning("listing shows the stored size of %s/%s: %s", bucket, entry.key, error)
            return None
