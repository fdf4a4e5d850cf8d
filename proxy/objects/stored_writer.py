"""Stored bytes on their way into the bucket: parallel parts, visible only when whole."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path

from s4weights.codec.container import TRAILER_BYTES
from s4weights.codec.types import Buffer
from s4weights.proxy.checksums.algorithms import encode, new_hasher
from s4weights.proxy.checksums.plan import ChecksumPlan
from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.limits import MAX_PARTS, PART_GROWTH, PARTS_IN_FLIGHT
from s4weights.proxy.memory import MemoryBudget
from s4weights.proxy.threads import in_thread
from s4weights.proxy.upstream.protocol import ByteRange, Conditions, Headers, Part, SentChecksum, Stored, Upstream

from .afterwards import logged
from .journal import Journal, OpenUpload
from .open_upload import abort_recorded, begin_upload, complete_recorded

_Sent = Part | UpstreamError


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
        plan: ChecksumPlan | None = None,
        resumes: bool = False,
    ) -> None:
        """plan: the checksum that goes with the stored bytes. resumes: whether the owner may call `resume`."""
        self._upstream = upstream
        self._journal = journal
        self._budget = budget
        self.target = target
        self._bucket, self._key = target
        self._headers = headers
        self._part_bytes = part_bytes
        self._plan = plan
        self._resumes = resumes
        self._pending: list[Buffer] = []
        self._pending_bytes = 0
        self._tasks: dict[int, asyncio.Task[_Sent]] = {}
        self._unsent: dict[int, Path] = {}
        self._upload: OpenUpload | None = None
        self._beyond_bytes = 0
        self._parked: Path | None = None
        self._end = b""
        self.stored_bytes = 0

    async def write(self, *pieces: Buffer) -> None:
        """Take the next bytes; waits while enough parts are on their way.

        Raises: UpstreamError, also of an earlier part; the bytes are taken all the same.
        """
        for data in pieces:
            self._pending.append(data)
            self._pending_bytes += len(data)
            self.stored_bytes += len(data)
            self._end = (self._end + data[-TRAILER_BYTES:])[-TRAILER_BYTES:]
        if self._pending_bytes >= self._next_part_bytes():
            await self._send_part()

    async def finish(self, conditions: Conditions | None = None) -> Stored:
        """Send the rest and make the object visible. Where the bucket cannot be reached it may be called again."""
        if self._upload is None:
            body, checksum = await asyncio.to_thread(self._join, self._pending)
            self._check_whole(len(body))
            try:
                stored = await self._upstream.put(
                    self._bucket, self._key, body, len(body), self._headers, conditions, checksum
                )
            except S3Error as error:
                # An earlier try was carried out, its answer lost, and its own object is what the condition met.
                found = await self._find_completed() if error.after_fault else None
                if found is None or error.code != "PreconditionFailed":
                    raise
                stored = found
            self._pending.clear()
            return stored
        if self._pending_bytes:
            await self._send_part()
        parts = [_told(await task) for _, task in sorted(self._tasks.items())]
        self._check_whole(sum(part.size for part in parts))
        upload = self._upload
        stored = await complete_recorded(
            self._journal,
            upload,
            lambda: self._upstream.complete_upload(
                self._bucket, self._key, upload.upload_id, parts, conditions, self._joined(parts)
            ),
            self._find_completed,
        )
        self._upload = None
        return stored

    async def resume(self) -> None:
        """Send again, to the end, the parts for which the bucket could not be reached. Raises: UpstreamError."""
        if self._unsent:
            self._account(self._next_part_bytes())
        for number in self._unsent:
            assert self._upload is not None
            self._tasks[number] = asyncio.create_task(self._put_unsent(self._upload.upload_id, number))
        for sent in await asyncio.gather(*(self._tasks[number] for number in self._unsent)):
            _told(sent)
        await self.write()

    async def abort(self) -> None:
        """Drop everything sent; the object at the key stays as it was. Harmless after finish."""
        self._take_pending()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()
        self._release_beyond()
        upload, self._upload = self._upload, None
        files = [*self._unsent.values(), *([self._parked] if self._parked is not None else [])]
        self._unsent.clear()
        self._parked = None
        for path in files:
            with logged("a file of parts stays until the next start", *self.target):
                path.unlink(missing_ok=True)
        if upload is not None:
            await abort_recorded(self._upstream, self._journal, upload)

    async def settle(self) -> None:
        """Wait until nothing is on its way. A part that failed is an error of the next `write` or of `finish`."""
        on_their_way = self._on_their_way()
        if on_their_way:
            await asyncio.wait(on_their_way)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is on its way; what is left is less than a part."""
        return not self._on_their_way()

    async def park(self) -> None:
        """Move what is left to disk, after `settle`; `unpark` brings it back. Raises: OSError, and then it is still here."""
        if self._pending_bytes and self._parked is None:
            self._parked = await self._spill(self._pending)
            self._take_pending()
        # Or its owner, who waits for memory, would wait for just this.
        self._release_beyond()

    async def unpark(self) -> None:
        """Bring back what `park` moved to disk."""
        if self._parked is None:
            return
        self._account(self._next_part_bytes())
        body = await asyncio.to_thread(self._parked.read_bytes)
        self._parked.unlink()
        self._parked = None
        self._pending.append(body)
        self._pending_bytes = len(body)

    def _next_part_bytes(self) -> int:
        number = len(self._tasks) + 1
        return self._part_bytes * max(times for first, times in PART_GROWTH if number >= first)

    def _take_pending(self) -> list[Buffer]:
        pieces, self._pending, self._pending_bytes = self._pending, [], 0
        return pieces

    async def _send_part(self) -> None:
        part_bytes = self._next_part_bytes()
        self._account(part_bytes)
        if self._upload is None:
            headers = {**self._headers, **(self._plan.headers if self._plan else {})}
            self._upload = await begin_upload(self._upstream, self._journal, self._bucket, self._key, headers)
        await self._wait_for_room(part_bytes)
        number = len(self._tasks) + 1
        if number > MAX_PARTS:
            raise S3Error("EntityTooLarge", f"The stored object would need more than {MAX_PARTS} parts.", Key=self._key)
        pieces = self._take_pending()
        self._tasks[number] = asyncio.create_task(self._put_part(self._upload.upload_id, number, pieces))

    async def _put_part(self, upload_id: str, number: int, pieces: list[Buffer]) -> _Sent:
        body, checksum = await asyncio.to_thread(self._join, pieces)
        pieces.clear()
        try:
            part = await self._upstream.put_part(self._bucket, self._key, upload_id, number, body, len(body), checksum)
        except UpstreamError as error:
            if not self._resumes:
                raise
            if number not in self._unsent:
                self._unsent[number] = await self._spill([body])
            # As a value, and a fresh one: by its traceback one that was raised would hold the body in memory.
            return copy(error)
        return replace(part, checksums={checksum.header: checksum.value()}) if checksum is not None else part

    async def _put_unsent(self, upload_id: str, number: int) -> _Sent:
        path = self._unsent[number]
        sent = await self._put_part(upload_id, number, [await asyncio.to_thread(path.read_bytes)])
        if isinstance(sent, Part):
            await asyncio.to_thread(path.unlink)
            del self._unsent[number]
        return sent

    async def _spill(self, pieces: Sequence[Buffer]) -> Path:
        path = self._journal.new_spill_file()
        try:
            await in_thread(lambda: path.write_bytes(b"".join(pieces)))
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path

    def _join(self, pieces: Sequence[Buffer]) -> tuple[bytes, SentChecksum | None]:
        """One body out of the pieces, with its checksum; in a thread."""
        body = b"".join(pieces)
        if self._plan is None:
            return body, None
        hasher = new_hasher(self._plan.header)
        hasher.update(body)
        value = encode(hasher.digest())
        return body, SentChecksum(self._plan.header, lambda: value, known=True)

    def _joined(self, parts: Sequence[Part]) -> Headers:
        if self._plan is None:
            return {}
        return self._plan.join([(part.checksums[self._plan.header], part.size) for part in parts])

    async def _wait_for_room(self, part_bytes: int) -> None:
        room = max(1, PARTS_IN_FLIGHT * self._part_bytes // part_bytes)
        while len(on_their_way := self._on_their_way()) >= room:
            await asyncio.wait(on_their_way, return_when=asyncio.FIRST_COMPLETED)
        for task in self._tasks.values():
            if task.done():
                _told(task.result())

    def _on_their_way(self) -> list[asyncio.Task[_Sent]]:
        return [task for task in self._tasks.values() if not task.done()]

    def _account(self, part_bytes: int) -> None:
        beyond = max(0, 3 * part_bytes - hold_bytes(self._part_bytes))
        if beyond > self._beyond_bytes:
            self._budget.exceed(beyond - self._beyond_bytes)
            self._beyond_bytes = beyond

    def _release_beyond(self) -> None:
        self._budget.release(self._beyond_bytes)
        self._beyond_bytes = 0

    def _check_whole(self, sent_bytes: int) -> None:
        if sent_bytes != self.stored_bytes:
            raise S3Error("InternalError", f"Expected {self.stored_bytes} stored bytes to be sent, found {sent_bytes}.")

    async def _find_completed(self) -> Stored | None:
        """The object at the key, where it ends in our own trailer: that holds the digest of the whole body."""
        try:
            found = await self._upstream.get(self._bucket, self._key, byte_range=ByteRange(-TRAILER_BYTES))
            end = b"".join([chunk async for chunk in found.chunks])
        except S3Error:
            return None
        if (found.info.size, end) != (self.stored_bytes, self._end):
            return None
        versions = {name: found.info.headers[name] for name in found.info.headers if name == "x-amz-version-id"}
        return Stored(found.info.etag, versions, found.info.last_modified)


def _told(sent: _Sent) -> Part:
    if isinstance(sent, UpstreamError):
        raise copy(sent)
    return sent
