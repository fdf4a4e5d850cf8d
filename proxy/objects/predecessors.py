"""Which object a new one is coded against. Names are hints: what does not gain is not used (codec/bases)."""

from __future__ import annotations

import contextlib
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from s4weights.codec.errors import FormatError
from s4weights.proxy.config import Settings
from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.limits import LISTED_FOR_S, LISTED_PAGES, MOST_CANDIDATES, RECENT_OBJECTS
from s4weights.proxy.lineage.calls import Occupant
from s4weights.proxy.lineage.names import is_hidden
from s4weights.proxy.lineage.steps import StepKey, is_pointer, parse_step, with_part
from s4weights.proxy.upstream.protocol import Entry, Upstream

from .occupants import MIN_BASE_BYTES, is_replaceable, occupant_of, plain_bytes, restore_bytes
from .resolve import Resolver
from .types import LogicalObject

# Bodies of one run differ little in size; a base of another size has other tensors.
_SIZE_SPREAD = 0.25


@dataclass(frozen=True, slots=True)
class _Listed:
    at_s: float
    keys: tuple[str, ...]


class Predecessors:
    """Looks among what was written here lately, then in the bucket."""

    def __init__(self, upstream: Upstream, resolver: Resolver, settings: Settings) -> None:
        self._upstream = upstream
        self._resolver = resolver
        self._settings = settings
        self._recent: OrderedDict[tuple[str, str], int] = OrderedDict()  # logical sizes, the last written at the end
        self._listed: dict[tuple[str, str, str], _Listed] = {}

    def written(self, bucket: str, key: str, size: int) -> None:
        """A container has become visible."""
        self._recent.pop((bucket, key), None)
        self._recent[bucket, key] = size
        while len(self._recent) > RECENT_OBJECTS:
            self._recent.popitem(last=False)

    def removed(self, bucket: str, key: str) -> None:
        """An object is gone."""
        self._recent.pop((bucket, key), None)

    async def find(
        self, bucket: str, key: str, size: int | None, instead: Occupant | None = None
    ) -> LogicalObject | None:
        """The object that the body to be written at key probably came from, with its index; never the one at key itself.

        size: of the body, where it is known. instead: what is at key, where it is to have another base than it has, of a depth
        that leaves it no deeper.
        """
        tried = 0
        async with contextlib.aclosing(self._candidates(bucket, key, size)) as candidates:
            async for candidate in candidates:
                found = await self._usable(bucket, candidate, size, instead)
                if found is not None:
                    return found
                tried += 1
                if tried == MOST_CANDIDATES:
                    break
        return None

    async def _candidates(self, bucket: str, key: str, size: int | None) -> AsyncGenerator[str, None]:
        step = parse_step(key)
        seen = {key}
        # As it is now: others write and remove meanwhile.
        recent = {
            one: self._recent[there, one] for there, one in reversed(self._recent) if there == bucket and one != key
        }
        if step is not None:
            earlier = step.before(recent)
            earlier += [one for one in await self._earlier_steps(bucket, step) if one not in earlier]
            for one in sorted(earlier, key=lambda one: step.order_of(one) or (), reverse=True):
                seen.add(one)
                yield one
        folder, _, name = key.rpartition("/")
        if is_pointer(key):
            # Often an exact copy of what was written just now.
            for one in list(recent) or await self._newest(bucket, folder):
                if one not in seen and one.rpartition("/")[0] == folder:
                    seen.add(one)
                    yield one
        if step is None and not is_pointer(key):
            return
        for one, other_size in recent.items():
            is_alike = one.rpartition("/")[2] == name and size is not None and _alike(other_size, size)
            if one not in seen and is_alike and (step is None or step.order_of(one) is None):
                yield one  # the same file of another run

    async def _earlier_steps(self, bucket: str, step: StepKey) -> list[str]:
        keys = await self._list(bucket, step.listed, "/")
        if step.folder:
            parts = [key.removeprefix(step.listed).rstrip("/") for key in keys if key.endswith("/")]
            keys = [key for part in parts if (key := with_part(step, part)) is not None]
        return step.before(keys)

    async def _newest(self, bucket: str, folder: str) -> list[str]:
        try:
            page = await self._upstream.list_objects(bucket, prefix=f"{folder}/" if folder else "", delimiter="/")
        except (S3Error, UpstreamError):
            return []
        large = [entry for entry in page.entries if entry.size >= MIN_BASE_BYTES // 4]
        return [entry.key for entry in sorted(large, key=_age, reverse=True)]

    async def _list(self, bucket: str, prefix: str, delimiter: str) -> list[str]:
        """Names in one folder; kept for a moment, since all files of a checkpoint come at once."""
        identity = (bucket, prefix, delimiter)
        now_s = time.monotonic()
        known = self._listed.get(identity)
        if known is not None and now_s - known.at_s < LISTED_FOR_S:
            return list(known.keys)
        keys: list[str] = []
        after, token = "", None
        try:
            for _ in range(LISTED_PAGES):
                page = await self._upstream.list_objects(
                    bucket, prefix=prefix, delimiter=delimiter, after=after, token=token
                )
                keys += [*page.prefixes, *(entry.key for entry in page.entries)]
                if page.next_after is None:
                    break
                after, token = page.next_after, page.next_token
        except (S3Error, UpstreamError):
            pass  # a right that is missing costs bytes, and never a save
        self._listed = {one: listed for one, listed in self._listed.items() if now_s - listed.at_s < LISTED_FOR_S}
        self._listed[identity] = _Listed(now_s, tuple(keys))
        return keys

    async def _usable(self, bucket: str, key: str, size: int | None, instead: Occupant | None) -> LogicalObject | None:
        if is_hidden(key):
            return None
        try:
            found = await self._resolver.resolve(bucket, key)
            occupant = occupant_of(found)
        except (S3Error, UpstreamError, FormatError):
            return None
        if occupant.content is None or occupant.depth + 1 > self._settings.max_chain or is_replaceable(found):
            return None
        if instead is not None and (
            occupant.depth >= instead.depth or occupant.content in [need.content for need in instead.needs]
        ):
            return None
        if size is not None and not _alike(found.info.size, size):
            return None
        return found if self._is_cheap(found) else None

    def _is_cheap(self, found: LogicalObject) -> bool:
        """Whether a read of the new object stays within max_restore_ratio, even where no frame gains."""
        assert found.tail is not None
        assert found.tail.index is not None
        about, stored_bytes = found.tail.index.about, found.stored.size
        plain = plain_bytes(about, stored_bytes)
        return restore_bytes(about, stored_bytes) + plain <= self._settings.max_restore_ratio * plain


def _alike(one: int, other: int) -> bool:
    return abs(one - other) <= _SIZE_SPREAD * max(one, other)


def _age(entry: Entry) -> float:
    return entry.last_modified.timestamp()
