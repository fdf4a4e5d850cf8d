"""PutObject."""

from __future__ import annotations

from aiohttp import web

from s4weights.proxy.checksums.algorithms import TYPE_HEADER
from s4weights.proxy.checksums.plan import FULL_OBJECT
from s4weights.proxy.context import Context
from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.conditions import read_conditions
from s4weights.proxy.limits import MAX_PUT_BYTES

from .attributes import check_key, object_headers


async def put_object(context: Context) -> web.StreamResponse:
    """Store a body; the answer comes when the object is visible."""
    check_key(context.key)
    headers = object_headers(context.headers)
    body = await context.body()
    if body.length > MAX_PUT_BYTES:
        raise S3Error("EntityTooLarge", ProposedSize=str(body.length), MaxSizeAllowed=str(MAX_PUT_BYTES))
    stored = await context.objects.put(
        context.bucket, context.key, body, body.length, headers, read_conditions(context.headers)
    )
    kind = {TYPE_HEADER: FULL_OBJECT} if body.checksums else {}
    return context.empty(200, {"ETag": f'"{stored.etag}"', **stored.headers, **body.checksums, **kind})
