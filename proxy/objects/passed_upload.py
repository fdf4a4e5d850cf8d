"""A multipart upload whose body is no checkpoint: the client's parts are the bucket's parts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Self

from s4weights.codec.types import Kind
from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.limits import PARTS_IN_FLIGHT
from s4weights.proxy.upstream.protocol import Body, Conditions, Headers, Part, Stored

from .journal import OpenUpload
from .parts import ReceivedPart
from .store import Store, VerifiedBody, passed_headers

_log = logging.getLogger(__name__)


class PassedUpload:
    """One upload open upstream, its parts numbered as the client's."""

    def __init__(self, store: Store, upload: OpenUpload) -> None:
        self._store = store
        self._upload = upload
        self._connections = asyncio.Semaphore(PARTS_IN_FLIGHT)

    @classmethod
    async def open(cls, store: Store, target: tuple[str, str], headers: Headers, kind: Kind) -> Self:
        """Begin it upstream."""
        bucket, key = target
        upload_id = await store.upstream.create_upload(bucket, key, passed_headers(kind, headers))
        return cls(store, store.journal.add(bucket, key, upload_id))

    async def put_part(self, number: int, body: VerifiedBody, size: int) -> ReceivedPart:
        """Stream one part to the bucket."""
        stored = await self._send(number, aiter(body), size)
        return ReceivedPart(number, body.md5, size, body.checksums, stored_etag=stored.etag)

    async def send_on(self, parts: Iterable[ReceivedPart]) -> None:
        """Send the parts that were kept until it was known that this body passes through."""

        async def send(part: ReceivedPart) -> None:
            if part.body is not None:
                async with self._connections:
                    stored = await self._send(part.number, part.body.chunks(), part.size)
                part.stored_etag = stored.etag
                part.drop()

        await asyncio.gather(*(send(part) for part in list(parts) if part.body is not None))

    async def complete(self, chosen: Sequence[ReceivedPart], conditions: Conditions | None) -> Stored:
        """Make the object visible."""
        parts = [Part(part.number, part.stored_etag or part.etag, part.size) for part in chosen]
        upload = self._upload
        stored = await self._store.upstream.complete_upload(
            upload.bucket, upload.key, upload.upload_id, parts, conditions
        )
        self._store.journal.remove(upload)
        size = sum(part.size for part in chosen)
        self._store.metrics.object_written(size, size, "passed-through")
        return stored

    async def abort(self) -> None:
        """Drop the parts upstream; where that fails the journal keeps the record for the next start."""
        upload = self._upload
        try:
            await self._store.upstream.abort_upload(upload.bucket, upload.key, upload.upload_id)
        except (S3Error, UpstreamError) as error:
            _log.warning("upload of %s/%s could not be aborted upstream: %s", upload.bucket, upload.key, error)
        else:
            self._store.journal.remove(upload)

    async def _send(self, number: int, body: Body, size: int) -> Part:
        upload = self._upload
        return await self._store.upstream.put_part(upload.bucket, upload.key, upload.upload_id, number, body, size)
