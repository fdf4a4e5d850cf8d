"""Objects whose base is kept for them alone are written again without it, in the background, where that takes fewer bytes.

So a run that keeps its last two checkpoints does not pay for a third. An earlier one that is still there may take the place of
the base: no deeper than the object was, so it needs nothing of what is to go. A save never waits for this, and an object that
has anything about it that a new write would lose is left as it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from s4weights.codec.errors import FormatError
from s4weights.codec.types import Kind
from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.lineage.calls import ListUnder, Occupant, Read, Steps
from s4weights.proxy.lineage.names import Content, hidden_of, is_hidden, pins_of, read_pin
from s4weights.proxy.lineage.perform import list_keys
from s4weights.proxy.upstream.carried import inherited
from s4weights.proxy.upstream.protocol import Conditions, encryption

from .access import has_no_tags, is_its_owners_alone
from .based_body import BasedBody
from .body_encoder import BodyEncoder
from .marker import container_marker
from .occupants import occupant_of, plain_bytes
from .read import read_object
from .resolve import Resolver
from .store import Store
from .types import PART_CHECKSUMS, LogicalObject

_log = logging.getLogger(__name__)

# What a new write cannot say again, or not by the answer to GET alone.
_LOST: Final = (
    "x-amz-object-lock-",
    "x-amz-storage-class",
    "x-amz-tagging-count",
    "x-amz-version-id",
    "x-amz-website-redirect-location",
)


class Rebaser:
    """One object at a time, while no save is under way."""

    def __init__(self, store: Store, resolver: Resolver) -> None:
        self._store = store
        self._resolver = resolver
        self._waiting: asyncio.Queue[tuple[str, Content]] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to work."""
        self._store.guard.on_gone = self._gone
        self._worker = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Stop; what is under way is dropped, and the objects stay as they are."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    async def idle(self) -> None:
        """Wait until there is nothing to do."""
        await self._waiting.join()

    async def rebase(self, bucket: str, key: str) -> bool:
        """Write one object again, without the base that it has. False: it has none, or cannot be written again as it is.

        Raises: S3Error PreconditionFailed where the client wrote it meanwhile; UpstreamError; FormatError.
        """
        found = await self._resolver.resolve(bucket, key)
        if found.tail is None or found.tail.index is None or not found.tail.index.about.get("bases"):
            return False
        if await self._would_lose(found):
            return False
        async with self._store.writes.hold(self._store.write_hold_bytes):
            based = await self._store.lineage.begin_again((bucket, key), found.info.size, occupant_of(found))
            await self._copy_through(found, based)
        return True

    async def write_again(self, found: LogicalObject) -> bool:
        """Write a container again, without bases and at this proxy's level. found: with its index. As rebase."""
        if await self._would_lose(found):
            return False
        async with self._store.writes.hold(self._store.write_hold_bytes):
            await self._copy_through(found, self._store.lineage.begin_alone((found.bucket, found.key), found.info.size))
        return True

    def _gone(self, bucket: str, key: str, old: Occupant) -> None:
        self._store.lineage.predecessors.removed(bucket, key)
        if old.content is not None:
            self._waiting.put_nowait((bucket, old.content))

    async def _work(self) -> None:
        while True:
            bucket, content = await self._waiting.get()
            try:
                for key in await self._worth_it(bucket, content):
                    await self._store.writes.wait_unused()
                    await self.rebase(bucket, key)
            except (S3Error, UpstreamError, FormatError, OSError) as error:
                _log.info("dependents of a base in %s keep it: %s", bucket, error)
            except Exception:
                # The next one must still be looked after.
                _log.exception("dependents of a base in %s keep it", bucket)
            finally:
                self._waiting.task_done()

    async def _worth_it(self, bucket: str, content: Content) -> list[str]:
        """The dependents of a hidden base, where all of them without it take fewer bytes than it does."""
        hidden = await list_keys(self._store.upstream, bucket, hidden_of(content))
        if not hidden:
            return []
        dependents = await self._store.guard.run(bucket, _dependents(content))
        if not dependents or any(is_hidden(key) for key in dependents):
            return []
        kept_bytes = sum([(await self._store.upstream.head(bucket, key)).size for key in hidden])
        more_bytes = 0
        for key in dependents:
            found = await self._resolver.resolve(bucket, key)
            if found.tail is not None and found.tail.index is not None:
                more_bytes += plain_bytes(found.tail.index.about, found.stored.size) - found.stored.size
        return dependents if more_bytes < kept_bytes else []

    async def _would_lose(self, found: LogicalObject) -> bool:
        """Whether a new write would be seen, or the bucket does not say. Raises: S3Error, UpstreamError."""
        if any(name.startswith(_LOST) for name in found.stored.headers):
            return True
        upstream, bucket, key = self._store.upstream, found.bucket, found.key
        return not await has_no_tags(upstream, bucket, key) or not await is_its_owners_alone(upstream, bucket, key)

    async def _copy_through(self, found: LogicalObject, based: BasedBody) -> None:
        """In memory that is held: who waits for it has claimed no base and begun no file yet."""
        assert found.tail is not None
        assert found.tail.index is not None
        store, target, trailer = self._store, (found.bucket, found.key), found.tail.trailer
        headers = {
            **inherited(found.info.headers),
            **encryption(found.info.headers),
            **container_marker(found.info.last_modified),
        }
        encoder = BodyEncoder(store, _kind(found.tail.index.about), based)
        try:
            await encoder.commit(store.writer(target, headers))
            async for chunk in read_object(store, found, 0, found.info.size):
                await encoder.feed(chunk)
            await encoder.end()
            checksums = {**found.checksums}
            if found.part_checksums:
                checksums[PART_CHECKSUMS] = ",".join(found.part_checksums)
            await encoder.seal(trailer.etag, parts=found.parts, checksums=checksums)
            if encoder.encoder.digest != trailer.digest:
                raise FormatError(f"{found.path}: expected XXH3-128 {trailer.digest.hex()} of what was written again")
            await encoder.finish(Conditions(if_match=f'"{found.stored.etag}"'))
        finally:
            await encoder.abort()


def _kind(about: Mapping[str, object]) -> Kind:
    said = about.get("kind")
    return Kind(said) if said in {kind.value for kind in Kind} else Kind.UNKNOWN


def _dependents(content: Content) -> Steps[list[str]]:
    keys = set()
    for pin in (yield ListUnder(pins_of(content))):
        text = yield Read(pin)
        if text is not None:
            keys.add(read_pin(text))
    return sorted(keys)
