"""The table of open multipart uploads, as clients know them."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import OrderedDict
from collections.abc import Sequence

from s4weights.proxy.checksums.plan import ChecksumPlan
from s4weights.proxy.errors import S3Error
from s4weights.proxy.limits import COMPLETED_KEPT, MAX_OPEN_UPLOADS
from s4weights.proxy.upstream.protocol import Conditions, Headers, Part, Stored, Upload

from .afterwards import unheard
from .leftovers import abort_left_open, abort_unanswered
from .parts import CopiedBody
from .read import read_object
from .store import Store, VerifiedBody
from .types import LogicalObject
from .upload import MultipartUpload

_log = logging.getLogger(__name__)
_EXPIRY_PERIOD_S = 60.0
# Of a Complete: the number and the ETag of each part; and with them its conditions.
_Listed = list[tuple[int, str]]
_Asked = tuple[_Listed, Conditions | None, Headers | None]


class Uploads:
    """Uploads live in this process: a restart ends them, and the client begins again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: dict[str, MultipartUpload] = {}
        self._last_used_s: dict[str, float] = {}
        self._completing: dict[str, tuple[_Asked, asyncio.Task[Stored]]] = {}
        self._completed: OrderedDict[str, tuple[tuple[str, str], _Listed, Stored]] = OrderedDict()
        self._expiry: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Abort what an earlier run left open upstream, and watch for uploads that nobody ends."""
        await abort_left_open(self._store.upstream, self._store.journal)
        self._expiry = asyncio.create_task(self._expire())

    async def close(self) -> None:
        """Abort every open upload."""
        if self._expiry is not None:
            self._expiry.cancel()
            await asyncio.gather(self._expiry, return_exceptions=True)
        for upload in list(self._open.values()):
            await upload.abort()
        self._open.clear()

    async def create(self, bucket: str, key: str, headers: Headers, plan: ChecksumPlan | None = None) -> str:
        """Begin an upload; nothing goes upstream before its first part shows what it is."""
        if len(self._open) >= MAX_OPEN_UPLOADS:
            raise S3Error("SlowDown", f"{MAX_OPEN_UPLOADS} multipart uploads are open.")
        await self._store.upstream.head_bucket(bucket)
        upload_id = uuid.uuid4().hex
        self._open[upload_id] = MultipartUpload(self._store, upload_id, (bucket, key), headers, plan)
        self._last_used_s[upload_id] = time.monotonic()
        return upload_id

    async def put_part(
        self, bucket: str, key: str, upload_id: str, number: int, body: VerifiedBody, length: int
    ) -> Part:
        """Take one part."""
        return await self._put_part(self._find(bucket, key, upload_id), number, body, length)

    async def put_part_copy(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        number: int,
        source: LogicalObject,
        first: int,
        length: int,
    ) -> Part:
        """Take logical bytes of another object as a part."""
        upload = self._find(bucket, key, upload_id)
        header = upload.plan.header if upload.plan else None
        body = CopiedBody(read_object(self._store, source, first, length), header)
        return await self._put_part(upload, number, body, length)

    async def _put_part(self, upload: MultipartUpload, number: int, body: VerifiedBody, length: int) -> Part:
        try:
            return await upload.put_part(number, body, length)
        finally:
            self._touch(upload.upload_id)

    async def complete(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        parts: Sequence[Part],
        conditions: Conditions | None,
        announced: Headers | None = None,
    ) -> Stored:
        """Make the object visible; the same answer where a client asks for the same again because the first one was lost."""
        listed = [(part.number, part.etag) for part in parts]
        asked: _Asked = listed, conditions, announced
        while (running := self._completing.get(upload_id)) is not None and running[0] != asked:
            await asyncio.wait([running[1]])
        done = self._completed.get(upload_id)
        if done is not None and done[:2] == ((bucket, key), listed):
            return done[2]
        upload = self._find(bucket, key, upload_id)
        if running is None:
            task = asyncio.create_task(self._complete(upload, parts, asked))
            self._completing[upload_id] = running = asked, task
            task.add_done_callback(lambda _: self._completing.pop(upload_id, None))
            task.add_done_callback(unheard)
        return await asyncio.shield(running[1])

    async def _complete(self, upload: MultipartUpload, parts: Sequence[Part], asked: _Asked) -> Stored:
        listed, conditions, announced = asked
        try:
            stored = await upload.complete(parts, conditions, announced)
        finally:
            self._touch(upload.upload_id)
        self._forget(upload.upload_id)
        self._completed[upload.upload_id] = (upload.target, listed, stored)
        while len(self._completed) > COMPLETED_KEPT:
            self._completed.popitem(last=False)
        return stored

    async def abort(self, bucket: str, key: str, upload_id: str) -> None:
        """Drop an upload, also one that was begun past this proxy."""
        if upload_id not in self._open:
            await self._store.upstream.abort_upload(bucket, key, upload_id)
            return
        upload = self._find(bucket, key, upload_id)
        self._forget(upload_id)
        await upload.abort()

    @property
    def open_count(self) -> int:
        """How many are open."""
        return len(self._open)

    def knows(self, upload_id: str) -> bool:
        """Whether an upload was begun here, and did not end long ago."""
        return upload_id in self._open or upload_id in self._completed

    def find(self, bucket: str, key: str, upload_id: str) -> MultipartUpload:
        """An open upload. Raises: S3Error NoSuchUpload."""
        return self._find(bucket, key, upload_id)

    def list_parts(self, bucket: str, key: str, upload_id: str) -> list[Part]:
        """The client's parts by number."""
        upload = self._find(bucket, key, upload_id)
        return [
            Part(number, part.etag, part.size, part.last_modified, part.checksums)
            for number, part in sorted(upload.received.items())
        ]

    async def list_uploads(self, bucket: str, *, prefix: str = "") -> list[Upload]:
        """The open uploads of a bucket by key and age; our own upstream uploads are not shown beside them."""
        await self._store.upstream.head_bucket(bucket)
        ours = [
            Upload(upload.target[1], upload.upload_id, upload.initiated)
            for upload in self._open.values()
            if upload.target[0] == bucket and upload.target[1].startswith(prefix)
        ]
        return sorted(ours, key=lambda upload: (upload.key.encode(), upload.initiated))

    async def relieve(self) -> None:
        """Others wait for memory: idle uploads give back what they hold."""
        for upload in list(self._open.values()):
            await upload.relieve()

    def _find(self, bucket: str, key: str, upload_id: str) -> MultipartUpload:
        upload = self._open.get(upload_id)
        if upload is None or upload.target != (bucket, key):
            raise S3Error("NoSuchUpload", UploadId=upload_id)
        self._touch(upload_id)
        return upload

    def _touch(self, upload_id: str) -> None:
        # After a call, too: one may take longer than an upload may be idle.
        if upload_id in self._open:
            self._last_used_s[upload_id] = time.monotonic()

    def _forget(self, upload_id: str) -> None:
        self._open.pop(upload_id, None)
        self._last_used_s.pop(upload_id, None)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(min(_EXPIRY_PERIOD_S, self._store.settings.upload_max_age_s))
            oldest_s = time.monotonic() - self._store.settings.upload_max_age_s
            for upload_id in list(self._open):
                await self._end_idle(upload_id, oldest_s)
            try:
                await abort_left_open(self._store.upstream, self._store.journal)
                await abort_unanswered(self._store.upstream, self._store.journal, self._store.settings.upload_max_age_s)
            except Exception:
                # What is left must be looked for again.
                _log.exception("leftover uploads could not be aborted")

    async def _end_idle(self, upload_id: str, oldest_s: float) -> None:
        upload = self._open.get(upload_id)
        if upload is None or upload.calls or upload_id in self._completing:
            return  # ended while another one was aborted, or in use
        if self._last_used_s[upload_id] >= oldest_s:
            return
        _log.warning("upload of %s/%s was idle for too long and is aborted", *upload.target)
        self._forget(upload_id)
        try:
            await upload.abort()
        except Exception:
            # The next one must still be looked after.
            _log.exception("upload of %s/%s could not be aborted", *upload.target)
