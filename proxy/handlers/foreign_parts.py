"""UploadPartCopy into an upload of the bucket's own: it copies by itself, and gets the decoded bytes of a container."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Final

from aiohttp import web

from s4weights.proxy.checksums.algorithms import header_of
from s4weights.proxy.context import Context
from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.query import write_query
from s4weights.proxy.objects.parts import CopiedBody
from s4weights.proxy.objects.store import sent_checksum
from s4weights.proxy.objects.types import LogicalObject
from s4weights.proxy.upstream.document import NS, read_answered
from s4weights.proxy.upstream.protocol import Forwarded

from .copy_object import find_source
from .forward import forwarded, pass_back
from .multipart import part_number
from .part_copies import asked_slice, copied

# A source that is overwritten between its look-up and its copy is looked up again.
_ATTEMPTS: Final = 3
_SOURCE_CONDITIONS: Final = "x-amz-copy-source-if-"


async def copy_into_foreign(context: Context) -> web.StreamResponse:
    """Take a part out of another object, by its logical bytes. Raises: S3Error NotImplemented where there is no bucket."""
    begun = await _begun(context)
    if begun.status != 200:
        return await pass_back(context, begun)
    algorithm = (await read_answered(begun, "ListParts")).findtext(f"{NS}ChecksumAlgorithm")
    for _ in range(_ATTEMPTS):
        source = await find_source(context)
        if source.is_container:
            return await _send_decoded(context, source, header_of(algorithm) if algorithm else None)
        call = forwarded(context, b"")
        is_ours = not any(name.startswith(_SOURCE_CONDITIONS) for name in call.headers)
        if f"{_SOURCE_CONDITIONS}match" not in call.headers:  # it might be a container by now
            call.headers = {**call.headers, f"{_SOURCE_CONDITIONS}match": f'"{source.stored.etag}"'}
        answer = await context.upstream.forward(call)
        if answer.status != 412 or not is_ours:
            return await pass_back(context, answer)
        answer.release()
    raise S3Error("ServiceUnavailable", "Others write the source at the same time.", Key=context.key)


async def _begun(context: Context) -> Forwarded:
    """ListParts, which tells whether there is such an upload, and what checksum its parts need."""
    query = write_query([("max-parts", "1"), ("uploadId", context.query["uploadId"])])
    return await context.upstream.forward(Forwarded("GET", context.path, query, body=b"", length=0))


async def _send_decoded(context: Context, source: LogicalObject, header: str | None) -> web.StreamResponse:
    """header: of the checksum that the upload was begun with."""
    first, length = asked_slice(context, source)
    body = CopiedBody(context.objects.read(source, first, length), header)
    number, upload_id = part_number(context), context.query["uploadId"]
    part = await context.upstream.put_part(
        context.bucket, context.key, upload_id, number, aiter(body), length, sent_checksum(body)
    )
    known = dataclasses.replace(part, last_modified=datetime.now(UTC), checksums=body.checksums)
    return copied(context, known, {})
