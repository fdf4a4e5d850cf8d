"""`gc` on one bucket: what processes that died left behind goes, what was copied past the proxy is pinned again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from s4weights.codec.errors import FormatError
from s4weights.proxy.limits import MIN_CONTAINER_BYTES
from s4weights.proxy.lineage.calls import Occupant
from s4weights.proxy.lineage.names import ALL_HIDDEN, ALL_PINS, ALL_TOMBS, HIDDEN, content_of, is_hidden
from s4weights.proxy.lineage.perform import list_entries
from s4weights.proxy.lineage.protocol import removed
from s4weights.proxy.lineage.rehearsal import Rehearsal
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
        """Do it, and tell of each deed; of a dry run, of those that would be done. Raises: S3Error, UpstreamError."""
        done = Rehearsal(is_dry=dry_run)
        sizes = {entry.key: entry.size async for entry in list_entries(self._upstream, bucket, HIDDEN)}
        # First what is missing: a pin that is added here holds what would else be swept below.
        async for entry in self.objects(bucket):
            for one in await self._pin_again(bucket, entry.key, done):
                yield one
        for prefix, work in ((ALL_PINS, self._pin), (ALL_TOMBS, self._tomb), (ALL_HIDDEN, self._hidden)):
            async for entry in self._old(bucket, prefix):
                try:
                    await work(bucket, entry.key, done)
                except FormatError:
                    yield Found("unreadable", entry.key)  # not ours to remove
                for key in done.removed():
                    if key in sizes:
                        yield Found(_deed(key), key, sizes[key])

    async def objects(
        self, bucket: str, prefix: str = "", *, at_least_bytes: int = MIN_CONTAINER_BYTES
    ) -> AsyncIterator[Entry]:
        """What clients see that may be a container, or (from HEADER_BYTES on) the rest of one."""
        async for entry in list_entries(self._upstream, bucket, prefix):
            if not is_hidden(entry.key) and entry.size >= at_least_bytes:
                yield entry

    async def clear_hidden(self, bucket: str) -> None:
        """Remove pins, tombstones and hidden bases where there is nothing else. Raises: S3Error, UpstreamError."""
        hidden: list[str] = []
        async for entry in list_entries(self._upstream, bucket):
            if not is_hidden(entry.key):
                return
            hidden.append(entry.key)
        await self._guard.run(bucket, removed(hidden))

    async def _pin_again(self, bucket: str, key: str, done: Rehearsal) -> list[Found]:
        found: Occupant | None = await self._guard.look(bucket, key)
        if found is None or not found.needs:
            return []
        unheld = await self._guard.run(bucket, done.over(missing_pins(key, found.needs)))
        if unheld:
            await self._guard.run(bucket, done.over(pin_again(key, unheld)))
        return [Found("pin added", key) for _ in unheld]

    async def _pin(self, bucket: str, pin: str, done: Rehearsal) -> None:
        info = await self._upstream.head(bucket, pin)
        if "x-amz-version-id" in info.headers:
            return  # a version of the dependent that is not shown may need the base as well
        # A container that lost its end may yet get it back: then it needs what it needed.
        await self._guard.run(bucket, done.over(sweep_pin(pin)), surely=True)

    async def _tomb(self, bucket: str, tomb: str, done: Rehearsal) -> None:
        await self._guard.run(bucket, done.over(sweep_tomb(tomb)))

    async def _hidden(self, bucket: str, key: str, done: Rehearsal) -> None:
        await self._guard.run(bucket, done.over(sweep_hidden(content_of(key))))

    async def _old(self, bucket: str, prefix: str) -> AsyncIterator[Entry]:
        latest = datetime.now(UTC) - self._grace
        async for entry in list_entries(self._upstream, bucket, prefix):
            if entry.last_modified <= latest:
                yield entry


def _deed(key: str) -> Deed:
    if key.startswith(ALL_PINS):
        return "pin removed"
    return "tombstone removed" if key.startswith(ALL_TOMBS) else "hidden base removed"
