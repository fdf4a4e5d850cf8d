"""Listings with the sizes and ETags that clients know."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from s4weights.proxy.errors import S3Error
from s4weights.proxy.limits import LISTING_CALLS, MIN_CONTAINER_BYTES
from s4weights.proxy.upstream.protocol import Entry

from .listing_cache import ListingCache, Logical
from .resolve import Resolver
from .types import LogicalObject

_log = logging.getLogger(__name__)


class LogicalListing:
    """Looks into every entry that may be a container, once a version."""

    def __init__(self, resolver: Resolver, cache: ListingCache) -> None:
        self._resolver = resolver
        self._cache = cache
        self._calls = asyncio.Semaphore(LISTING_CALLS)

    async def logical_entries(self, bucket: str, entries: Sequence[Entry]) -> list[Entry]:
        """The same entries with logical size and ETag."""
        candidates = [entry for entry in entries if entry.size >= MIN_CONTAINER_BYTES]
        known = dict(await self._cache.find(bucket, candidates))
        missing = [entry for entry in candidates if entry not in known]
        found = dict(zip(missing, await asyncio.gather(*(self._look(bucket, one) for one in missing)), strict=True))
        fresh = {entry: _logical(one) for entry, one in found.items() if one is not None}
        # Another object by now: shown as it is, but not kept under the name of the one that was listed.
        await self._cache.add(bucket, {one: fresh[one] for one in fresh if _is_still(one, found[one])})
        known |= fresh
        return [_shown(one, known[one]) if one in known else one for one in entries]

    async def _look(self, bucket: str, entry: Entry) -> LogicalObject | None:
        async with self._calls:
            try:
                return await self._resolver.resolve_briefly(bucket, entry.key, version_id=entry.version_id)
            except S3Error as error:
                # Deleted since, unreadable for us (its class, its key), or damaged: a listing still names it.
                _log.warning("listing shows the stored size of %s/%s: %s", bucket, entry.key, error)
                return None


def _logical(found: LogicalObject) -> Logical:
    written, stored = found.info.last_modified, found.stored.last_modified
    return Logical(found.info.size, found.info.etag, 0 if written == stored else int(written.timestamp()))


def _shown(entry: Entry, logical: Logical) -> Entry:
    written = datetime.fromtimestamp(logical.written_s, UTC) if logical.written_s else entry.last_modified
    return replace(entry, size=logical.size, etag=logical.etag, last_modified=written)


def _is_still(entry: Entry, found: LogicalObject | None) -> bool:
    return found is not None and (found.stored.etag, found.stored.size) == (entry.etag, entry.size)
