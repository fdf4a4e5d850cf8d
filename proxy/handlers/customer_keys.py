"""SSE-C: with a key that only the client has, an object can be neither listed by its trailer nor read ahead.

So its body is never encoded, and every call about it is the bucket's own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from s4weights.proxy.context import Context
from s4weights.proxy.errors import S3Error
from s4weights.proxy.objects.parts import CopiedBody
from s4weights.proxy.upstream.protocol import Forwarded, path_of, version_query

from .attributes import check_key
from .copy_object import find_source, parse_source
from .foreign_uploads import is_foreign
from .forward import forward, forward_stream, forward_write, pass_back
from .multipart import part_number
from .part_copies import asked_range, copied

Handler = Callable[[Context], Awaitable[web.StreamResponse]]
_SOURCE: Final = "x-amz-copy-source-"
_SOURCE_KEY: Final = f"{_SOURCE}server-side-encryption-customer-algorithm"


def with_customer_key(found: tuple[str, Handler]) -> tuple[str, Handler]:
    """The handler of a call that brings such a key."""
    operation, handler = found
    return operation, _HANDLERS.get(operation, handler)


async def _copy(context: Context) -> web.StreamResponse:
    """On the bucket's side, where the source's stored bytes are its body."""
    check_key(context.key)
    if _SOURCE_KEY in context.headers:
        parse_source(context, context.headers["x-amz-copy-source"])
    elif (await find_source(context)).is_container:
        # The copy would be a container that only its own key can open, and would be given back as one.
        raise S3Error("NotImplemented", "A checkpoint cannot be copied to SSE-C on the bucket's side; put it again.")
    return await forward_write(context)


async def _copy_part(context: Context) -> web.StreamResponse:
    """The bucket does not know an upload of ours by its id: such a part is read with the source's key, and sent."""
    if _SOURCE_KEY not in context.headers or is_foreign(context):
        return await _copy(context)
    check_key(context.key)
    number, asked = part_number(context), asked_range(context)
    upload = context.objects.uploads.find(context.bucket, context.key, context.query["uploadId"])
    source = await context.upstream.forward(_read_source(context, asked))
    try:
        length = source.length or 0
        if source.status == 304:
            raise S3Error("PreconditionFailed")
        if source.status not in (200, 206):
            return await pass_back(context, source)
        if asked is not None and length != asked[1]:
            raise S3Error("InvalidRange", "The requested range is not satisfiable.")
        assert source.body is not None
        assert not isinstance(source.body, bytes)
        body = CopiedBody(source.body, upload.plan.header if upload.plan else None)
        part = await context.objects.uploads.put_part(
            context.bucket, context.key, upload.upload_id, number, body, length
        )
    finally:
        source.release()
    return copied(context, part, upload.headers)


def _read_source(context: Context, asked: tuple[int, int] | None) -> Forwarded:
    """GetObject of a copy's source, with its key and its conditions."""
    bucket, key, version_id = parse_source(context, context.headers["x-amz-copy-source"])
    headers = {}
    for name, value in context.headers.items():
        rest = name.removeprefix(_SOURCE)
        if rest != name and rest.startswith("if-"):
            headers[rest] = value
        elif rest != name and rest.startswith("server-side-encryption-customer-"):
            headers[f"x-amz-{rest}"] = value
    if asked is not None:
        headers["range"] = f"bytes={asked[0]}-{asked[0] + asked[1] - 1}"
    return Forwarded("GET", path_of(bucket, key), version_query(version_id), headers=headers, body=b"", length=0)


# PutObject is not among them: its own handler streams the body, and stores it as it is.
_HANDLERS: Final[dict[str, Handler]] = {
    "GetObject": forward,
    "HeadObject": forward,
    "GetObjectAttributes": forward,
    "CreateMultipartUpload": forward,
    "UploadPart": forward_stream,
    "CopyObject": _copy,
    "UploadPartCopy": _copy_part,
    "CompleteMultipartUpload": forward_write,
    "ListParts": forward,
}
