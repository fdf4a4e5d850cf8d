"""SSE-C: with a key that only the client has, an object can be neither listed by its trailer nor read ahead.

So its body is never encoded, and every call about it is the bucket's own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from s4weights.proxy.context import Context
from s4weights.proxy.errors import S3Error

from .attributes import check_key
from .copy_object import find_source, parse_source
from .forward import forward, forward_stream, forward_write

Handler = Callable[[Context], Awaitable[web.StreamResponse]]
_SOURCE_KEY: Final = "x-amz-copy-source-server-side-encryption-customer-algorithm"


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


# PutObject is not among them: its own handler streams the body, and stores it as it is.
_HANDLERS: Final[dict[str, Handler]] = {
    "GetObject": forward,
    "HeadObject": forward,
    "GetObjectAttributes": forward,
    "CreateMultipartUpload": forward,
    "UploadPart": forward_stream,
    "CopyObject": _copy,
    "UploadPartCopy": _copy,
    "CompleteMultipartUpload": forward_write,
    "ListParts": forward,
}
