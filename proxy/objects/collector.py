"""`gc` on one bucket: what processes that died left behind goes, what was copied past the proxy is pinned again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from s4weights.codec.errors import FormatError
from s4weights.proxy.limits import MIN_CONTAINER_BYTES
from s4weights.proxy.lineage.calls import Occupant
from s4weights.proxy.lineage.names import ALL_HIDDEN, ALL_PINS, ALL_TOMBS, content_of, is_hidden
from s4weights.proxy.lineage.perform import list_entries
from s4weights.proxy.lineage.protocol import removed
from s4weights.proxy.lineage.sweep import missing_pins, pin_again, sweep_hidden, sweep_pin, sweep_tomb
from s4weights.proxy.lineage.timing import DELAYS
from s4weights.proxy.upstream.protocol import Entry, Upstream

from .guard import Guard

Deed = Literal["pin added", "pin removed", "tombstone removed", "hidden base removed", "unreadable"]


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that was done, or would be. bytes: stored, that are free now."""

    deed: Deed
    key: str
    bytes: int = 0


class Collector:
    """One bucket at a time; may run beside any number of proxies."""

    def __init__(self, upstream: Upstream, guard: Guard, grace: timedelta = DELAYS.grace) -> None:
        self._upstream = upstream
        self._guard = guard
        self._grace = grace

    async def sweep(self, bucket: str, *, dry_run: bool = False) -> AsyncIterator[Found]:
        """Do it, and tell of each deed. Raises: S3Error, UpstreamError."""
        # First what is missing: a pin that is added here holds what would else be swept below.
        async for entry in self.objects(bucket):
            if entry.size < MIN_CONTAINER_BYTES:
                continue
            for one in await self._pin_again(bucket, entry.key, dry_run=dry_run):
                yield one
        async for entry in self._old(bucket, ALL_PINS):
            if (pin := await self._pin(bucket, entry, dry_run=dry_run)) is not None:
                yield pin
        async for entry in self._old(bucket, ALL_TOMBS):
            if await self._guard.run(bucket, sweep_tomb(entry.key, dry_run=dry_run)):
                yield Found("tombstone removed", entry.key)
        async for entry in self._old(bucket, ALL_HIDDEN):
            if await self._hidden(bucket, entry.key, dry_run=dry_run):
                yield Found("hidden base removed", entry.key, entry.size)

    async def objects(self, bucket: str, prefix: str = "") -> AsyncIterator[Entry]:
        """What clients see."""
        async for entry in list_entries(self._upstream, bucket, prefix):
            if not is_hidden(entry.key):
                yield entry

    async def clear_hidden(self, bucket: str) -> None:
        """Remove pins, tombstones and hidden bases where there is nothing else. Raises: S3Error, UpstreamError."""
        hidden: list[str] = []
        async for entry in list_entries(self._upstream, bucket):
            if not is_hidden(entry.key):
                return
            hidden.append(entry.key)
        await self._guard.run(bucket, removed(hidden))

    async def _pin_again(self, bucket: str, key: str, *, dry_run: bool) -> list[Found]:
        found: Occupant | None = await self._guard.look(bucket, key)
        if found is None or not found.needs:
            return []
        unheld = await self._guard.run(bucket, missing_pins(key, found.needs))
        if unheld and not dry_run:
            await self._guard.run(bucket, pin_again(key, unheld))
        return [Found("pin added", key) for _ in unheld]

    async def _pin(self, bucket: str, entry: Entry, *, dry_run: bool) -> Found | None:
        info = await self._upstream.head(bucket, entry.key)
        if "x-amz-version-id" in info.headers:
            return None  # a version of the dependent that is not shown may need the base as well
        try:
            # A container that lost its end may yet get it back: then it needs what it needed.
            done = await self._guard.run(bucket, sweep_pin(entry.key, dry_run=dry_run), surely=True)
        except FormatError:
            return Found("unreadable", entry.key)  # not ours to remove
        return Found("pin removed", entry.key, entry.size) if done else None

    async def _hidden(self, bucket: str, key: str, *, dry_run: bool) -> bool:
        try:
            content = content_of(key)
        except FormatError:
            return False
        return await self._guard.run(bucket, sweep_hidden(content, dry_run=dry_run))

    async def _old(self, bucket: str, prefix: str) -> AsyncIterator[Entry]:
        latest = datetime.now(UTC) - self._grace
        async for entry in list_entries(self._upstream, bucket, prefix):
            if entry.last_modified <= latest:
                yield entry
