"""UploadPart and UploadPartCopy."""

from __future__ import annotations

import re
from typing import Final

from aiohttp import web

from s4weights.proxy.checksums.algorithms import elements
from s4weights.proxy.checksums.plan import check_part
from s4weights.proxy.context import Context, iso_date
from s4weights.proxy.errors import S3Error
from s4weights.proxy.limits import MAX_PUT_BYTES
from s4weights.proxy.upstream.protocol import Headers, Part, encryption

from .attributes import check_key
from .copy_object import find_source
from .foreign_uploads import forward_upload, is_foreign
from .forward import forward_stream
from .multipart import check_found, part_number

_COPY_RANGE: Final = re.compile(r"bytes=(\d{1,19})-(\d{1,19})")


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
    source = await find_source(context)
    upload = context.objects.uploads.find(context.bucket, context.key, context.query["uploadId"])
    first, length = 0, source.info.size
    asked = asked_range(context)
    if asked is not None:
        first, length = asked
        check_found(source, first, length)
    part = await context.objects.uploads.put_part_copy(
        context.bucket, context.key, context.query["uploadId"], number, source, first, length
    )
    return copied(context, part, upload.headers)


def asked_range(context: Context) -> tuple[int, int] | None:
    """First byte and length of x-amz-copy-source-range; None: all. Raises: S3Error InvalidArgument."""
    asked = context.headers.get("x-amz-copy-source-range")
    if asked is None:
        return None
    match = _COPY_RANGE.fullmatch(asked)
    if match is None or int(match[2]) < int(match[1]):
        raise S3Error("InvalidArgument", "The x-amz-copy-source-range value must be of the form bytes=first-last.")
    return int(match[1]), int(match[2]) - int(match[1]) + 1


def copied(context: Context, part: Part, begun_with: Headers) -> web.Response:
    """The answer to UploadPartCopy. begun_with: the upload's headers."""
    modified = iso_date(part.last_modified) if part.last_modified else None
    tree = {"LastModified": modified, "ETag": f'"{part.etag}"', **elements(part.checksums)}
    return context.xml("CopyPartResult", tree, headers=encryption(begun_with))
