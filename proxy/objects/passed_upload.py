"""A multipart upload whose body is no checkpoint: the client's parts are the bucket's parts."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Self

from s4weights.codec.types import Kind
from s4weights.proxy.checksums.plan import ChecksumPlan
from s4weights.proxy.errors import S3Error
from s4weights.proxy.limits import PARTS_IN_FLIGHT
from s4weights.proxy.upstream.protocol import Body, Conditions, Headers, Part, SentChecksum, Stored

from .afterwards import logged
from .journal import OpenUpload
from .open_upload import abort_recorded, begin_upload, complete_recorded
from .parts import ReceivedPart
from .store import Store, VerifiedBody, passed_headers, sent_checksum


class PassedUpload:
    """One upload open upstream, its parts numbered as the client's."""

    def __init__(self, store: Store, upload: OpenUpload, plan: ChecksumPlan | None) -> None:
        self._store = store
        self._plan = plan
        self._upload = upload
        self._connections = asyncio.Semaphore(PARTS_IN_FLIGHT)
        self._is_aborted = False
        self._sends: Counter[int] = Counter()
        self._streaming: Counter[int] = Counter()
        self._sending: dict[int, asyncio.Event] = {}

    @classmethod
    async def open(
        cls, store: Store, target: tuple[str, str], headers: Headers, kind: Kind, plan: ChecksumPlan | None
    ) -> Self:
        """Begin it upstream."""
        bucket, key = target
        upload = await begin_upload(
            store.upstream,
            store.journal,
            bucket,
            key,
            passed_headers(kind, {**headers, **(plan.headers if plan else {})}),
        )
        return cls(store, upload, plan)

    async def put_part(self, number: int, body: VerifiedBody, size: int) -> ReceivedPart:
        """Stream one part to the bucket."""
        while (earlier := self._sending.get(number)) is not None:
            await earlier.wait()  # or it might get there behind this one
        checksum = sent_checksum(body, self._plan.header) if self._plan else None
        self._streaming[number] += 1
        try:
            stored = await self._send(number, aiter(body), size, checksum)
        finally:
            self._streaming[number] -= 1
        return ReceivedPart(number, body.md5, size, body.checksums, stored_etag=stored.etag)

    async def send_on(self, parts: Iterable[ReceivedPart]) -> None:
        """Send the parts that were kept until it was known that this body passes through."""

        async def send(part: ReceivedPart) -> None:
            async with self._connections:
                if part.body is None or self._streaming[part.number]:
                    return  # a later form is on its way: it takes the place of this one, or this one is sent after all
                self._sending[part.number] = sent = asyncio.Event()
                try:
                    stored = await self._send(part.number, part.body.chunks(), part.size, self._known(part))
                finally:
                    del self._sending[part.number]
                    sent.set()
                part.stored_etag = stored.etag
                part.drop()

        sent = await asyncio.gather(
            *(send(part) for part in list(parts) if part.body is not None), return_exceptions=True
        )
        for one in sent:
            if isinstance(one, BaseException):
                raise one

    async def complete(
        self, chosen: Sequence[ReceivedPart], conditions: Conditions | None, checksums: Headers
    ) -> Stored:
        """Make the object visible. checksums: the object's own."""
        parts = [
            Part(
                part.number,
                part.stored_etag or part.etag,
                part.size,
                checksums={self._plan.header: part.checksums[self._plan.header]} if self._plan else {},
            )
            for part in chosen
        ]
        upload = self._upload
        stored = await complete_recorded(
            self._store.journal,
            upload,
            lambda: self._store.upstream.complete_upload(
                upload.bucket, upload.key, upload.upload_id, parts, conditions, checksums
            ),
            lambda: self._find_completed(chosen),
            sent_again=lambda: any(self._sends[part.number] > 1 for part in chosen),
        )
        size = sum(part.size for part in chosen)
        with logged("what follows a visible object failed", upload.bucket, upload.key):
            self._store.metrics.object_written(size, size, "passed-through")
        return stored

    async def abort(self) -> None:
        """Drop the parts upstream."""
        self._is_aborted = True
        await abort_recorded(self._store.upstream, self._store.journal, self._upload)

    def _known(self, part: ReceivedPart) -> SentChecksum | None:
        if self._plan is None:
            return None
        value = part.checksums[self._plan.header]
        return SentChecksum(self._plan.header, lambda: value, known=True)

    async def _send(self, number: int, body: Body, size: int, checksum: SentChecksum | None) -> Part:
        upload = self._upload
        self._sends[number] += 1
        try:
            return await self._store.upstream.put_part(
                upload.bucket, upload.key, upload.upload_id, number, body, size, checksum
            )
        finally:
            if self._is_aborted:
                # A part that arrives behind the abort would stay, and cost, for ever.
                await self.abort()

    async def _find_completed(self, chosen: Sequence[ReceivedPart]) -> Stored | None:
        """The object at the key, where it has the ETag that these parts make."""
        try:
            info = await self._store.upstream.head(self._upload.bucket, self._upload.key)
        except S3Error:
            return None
        md5s = hashlib.md5(b"".join(part.md5 for part in chosen), usedforsecurity=False)
        if info.etag != f"{md5s.hexdigest()}-{len(chosen)}":
            return None
        versions = {name: info.headers[name] for name in info.headers if name == "x-amz-version-id"}
        return Stored(info.etag, versions, info.last_modified)
