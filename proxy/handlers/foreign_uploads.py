"""Multipart uploads that were begun past this proxy, or with a key of the client's own: the bucket's own business."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from s4weights.proxy.context import Context
from s4weights.proxy.errors import S3Error

from .forward import forward


def is_foreign(context: Context) -> bool:
    """Whether the upload that a call names is none of ours."""
    return not context.objects.uploads.knows(context.query["uploadId"])


async def forward_upload(
    context: Context, send: Callable[[Context], Awaitable[web.StreamResponse]] = forward
) -> web.StreamResponse:
    """Pass a call on. Raises: S3Error NoSuchUpload where there is no bucket that could know the upload."""
    try:
        return await send(context)
    except S3Error as error:
        if error.code != "NotImplemented":
            raise
    raise S3Error("NoSuchUpload", UploadId=context.query["uploadId"])
