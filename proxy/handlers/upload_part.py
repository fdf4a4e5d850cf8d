"""UploadPart and UploadPartCopy."""

from __future__ import annotations

from aiohttp import web

from s4weights.proxy.checksums.plan import check_part
from s4weights.proxy.context import Context
from s4weights.proxy.errors import S3Error
from s4weights.proxy.limits import MAX_PUT_BYTES
from s4weights.proxy.upstream.protocol import encryption

from .attributes import check_key
from .copy_object import find_source
from .foreign_parts import copy_into_foreign
from .foreign_uploads import forward_upload, is_foreign
from .forward import forward_stream
from .multipart import part_number
from .part_copies import asked_slice, copied


async def upload_part(context: Context) -> web.StreamResponse:
    """Take one part."""
    check_key(context.key)
    number = part_number(context)
    if is_foreign(context):
        return await forward_upload(context, forward_stream)
    # An upload that is not there is refused before its bytes are sent.
    upload = context.objects.uploads.find(context.bucket, context.key, context.query["uploadId"])
    body = await context.body(computed=upload.plan.header if upload.plan else None)
    check_part(upload.plan, body.announced)
    if body.length > MAX_PUT_BYTES:
        raise S3Error("EntityTooLarge", ProposedSize=str(body.length), MaxSizeAllowed=str(MAX_PUT_BYTES))
    part = await context.objects.uploads.put_part(
        context.bucket, context.key, context.query["uploadId"], number, body, body.length
    )
    return context.empty(200, {"ETag": f'"{part.etag}"', **encryption(upload.headers), **body.checksums})


async def upload_part_copy(context: Context) -> web.StreamResponse:
    """Take a part out of another object, by its logical bytes."""
    check_key(context.key)
    number = part_number(context)
    if is_foreign(context):
        return await forward_upload(context, copy_into_foreign)
    source = await find_source(context)
    upload = context.objects.uploads.find(context.bucket, context.key, context.query["uploadId"])
    first, length = asked_slice(context, source)
    part = await context.objects.uploads.put_part_copy(
        context.bucket, context.key, context.query["uploadId"], number, source, first, length
    )
    return copied(context, part, upload.headers)
