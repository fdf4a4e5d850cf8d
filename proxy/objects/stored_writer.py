"""Stored bytes on their way into the bucket: parallel parts, visible only when whole."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from pathlib import Path

from s4weights.codec.types import Buffer
from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.limits import MAX_PARTS, PART_GROWTH, PARTS_IN_FLIGHT
from s4weights.proxy.memory import MemoryBudget
from s4weights.proxy.upstream.protocol import Conditions, Headers, Part, Stored, Upstream

from .journal import Journal, OpenUpload

_log = logging.getLogger(__name__)
_COMPLETE_ATTEMPTS = 3
_COMPLETE_PAUSE_S = 0.5


def hold_bytes(part_bytes: int) -> int:
    """What one writer holds at most: the part that fills, and those on their way."""
    return part_bytes * (PARTS_IN_FLIGHT + 1)


class StoredWriter:
    """Bytes of one object, cut into upstream parts; a short object becomes one plain PUT.

    The caller has taken hold_bytes(part_bytes) from the budget; what growing parts need beyond is taken here.
    """

    def __init__(
        self,
        upstream: Upstream,
        journal: Journal,
        budget: MemoryBudget,
        target: tuple[str, str],
        headers: Headers,
        *,
        part_bytes: int,
    ) -> None:
        self._upstream = upstream
        self._journal = journal
        self._budget = budget
        self._bucket, self._key = target
        self._headers = headers
        self._part_bytes = part_bytes
        self._pending: list[Buffer] = []
        self._pending_bytes = 0
        self._tasks: dict[int, asyncio.Task[Part]] = {}
        self._upload: OpenUpload | None = None
        self._beyond_bytes = 0
        self._parked: Path | None = None
        self.stored_bytes = 0

    async def write(self, data: Buffer) -> None:
        """Take the next bytes; waits while enough parts are on their way."""
        self._pending.append(data)
        self._pending_bytes += len(data)
        self.stored_bytes += len(data)
        if self._pending_bytes >= self._next_part_bytes():
            await self._send_part()

    async def finish(self, conditions: Conditions | None = None) -> Stored:
        """Send the rest and make the object visible."""
        if self._upload is None:
            body = self._take_pending()
            return await self._upstream.put(self._bucket, self._key, body, len(body), self._headers, conditions)
        if self._pending_bytes:
            await self._send_part()
        parts = [await task for _, task in sorted(self._tasks.items())]
        stored = await self._complete(self._upload, parts, conditions)
        self._journal.remove(self._upload)
        self._upload = None
        return stored

    async def abort(self) -> None:
        """Drop everything sent; the object at the key stays as it was. Harmless after finish."""
        self._pending.clear()
        if self._parked is not None:
            self._parked.unlink(missing_ok=True)
            self._parked = None
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()
        self._budget.release(self._beyond_bytes)
        self._beyond_bytes = 0
        if self._upload is None:
            return
        try:
            await self._upstream.abort_upload(self._bucket, self._key, self._upload.upload_id)
        except (S3Error, UpstreamError) as error:
            # The journal keeps its record: the next start tries again.
            _log.warning("upload of %s/%s could not be aborted upstream: %s", self._bucket, self._key, error)
        else:
            self._journal.remove(self._upload)
        self._upload = None

    async def drain(self) -> None:
        """Wait until nothing is on its way; what is left is less than a part."""
        for task in list(self._tasks.values()):
            await task

    async def park(self) -> None:
        """Move what is left to disk, after `drain`; `unpark` brings it back."""
        if self._pending_bytes and self._parked is None:
            self._parked = self._journal.new_spill_file()
            await asyncio.to_thread(self._parked.write_bytes, self._take_pending())

    async def unpark(self) -> None:
        """Bring back what `park` moved to disk."""
        if self._parked is None:
            return
        parked, self._parked = self._parked, None
        body = await asyncio.to_thread(parked.read_bytes)
        parked.unlink()
        self._pending.append(body)
        self._pending_bytes = len(body)

    def _next_part_bytes(self) -> int:
        number = len(self._tasks) + 1
        return self._part_bytes * max(times for first, times in PART_GROWTH if number >= first)

    def _take_pending(self) -> bytes:
        body = b"".join(self._pending)
        self._pending.clear()
        self._pending_bytes = 0
        return body

    async def _send_part(self) -> None:
        part_bytes = self._next_part_bytes()
        self._account(part_bytes)
        if self._upload is None:
            upload_id = await self._upstream.create_upload(self._bucket, self._key, self._headers)
            self._upload = self._journal.add(self._bucket, self._key, upload_id)
        await self._wait_for_room(part_bytes)
        number = len(self._tasks) + 1
        if number > MAX_PARTS:
            raise S3Error("EntityTooLarge", f"The stored object would need more than {MAX_PARTS} parts.", Key=self._key)
        body = self._take_pending()
        self._tasks[number] = asyncio.create_task(
            self._upstream.put_part(self._bucket, self._key, self._upload.upload_id, number, body, len(body))
        )

    async def _wait_for_room(self, part_bytes: int) -> None:
        on_their_way = [task for task in self._tasks.values() if not task.done()]
        room = max(1, PARTS_IN_FLIGHT * self._part_bytes // part_bytes)
        while len(on_their_way) >= room:
            await asyncio.wait(on_their_way, return_when=asyncio.FIRST_COMPLETED)
            on_their_way = [task for task in on_their_way if not task.done()]
        for task in self._tasks.values():
            if task.done():
                task.result()

    def _account(self, part_bytes: int) -> None:
        beyond = max(0, 3 * part_bytes - hold_bytes(self._part_bytes))
        if beyond > self._beyond_bytes:
            self._budget.exceed(beyond - self._beyond_bytes)
            self._beyond_bytes = beyond

    async def _complete(self, upload: OpenUpload, parts: list[Part], conditions: Conditions | None) -> Stored:
        answer_lost = False
        for attempt in range(1, _COMPLETE_ATTEMPTS + 1):
            try:
                return await self._upstream.complete_upload(
                    self._bucket, self._key, upload.upload_id, parts, conditions
                )
            except UpstreamError:
                answer_lost = True
                if attempt == _COMPLETE_ATTEMPTS:
                    raise
                await asyncio.sleep(_COMPLETE_PAUSE_S * attempt)
            except S3Error as error:
                if error.code == "NoSuchUpload" and answer_lost:
                    return await self._find_completed(parts, error)
                raise
        raise AssertionError("unreachable")

    async def _find_completed(self, parts: list[Part], error: S3Error) -> Stored:
        """The upload is gone after an answer was lost: it was completed if the object has its ETag."""
        info = await self._upstream.head(self._bucket, self._key)
        md5s = b"".join(bytes.fromhex(part.etag) for part in parts)
        if info.etag != f"{hashlib.md5(md5s, usedforsecurity=False).hexdigest()}-{len(parts)}":
            raise error
        return Stored(info.etag, info.headers, info.last_modified)
