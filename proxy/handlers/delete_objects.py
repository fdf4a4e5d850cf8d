"""DeleteObjects: up to a thousand keys in one call."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from s4weights.proxy.context import Context
from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.http.xml import DeleteTarget, Tree, parse_delete

from .attributes import check_key, delete_headers

_AT_ONCE: Final = 32


async def delete_objects(context: Context) -> web.StreamResponse:
    """Remove the keys of the document; the answer names each one."""
    asked = parse_delete(await context.read_document())
    await context.upstream.head_bucket(context.bucket)
    asked_headers = delete_headers(context.headers)
    calls = asyncio.Semaphore(_AT_ONCE)

    async def remove(target: DeleteTarget) -> tuple[str, dict[str, Tree | None]]:
        key, version_id = target.key, target.version_id
        async with calls:
            try:
                check_key(key)
                context.grant.check_object(context.bucket, key)
                headers = await context.objects.delete(
                    context.bucket, key, version_id=version_id, conditions=target.conditions, headers=asked_headers
                )
            except (S3Error, UpstreamError) as error:
                told = error if isinstance(error, S3Error) else S3Error("ServiceUnavailable")
                return "Error", {"Key": key, "VersionId": version_id, "Code": told.code, "Message": told.message}
        marker = headers.get("x-amz-delete-marker")
        return "Deleted", {
            "Key": key,
            "VersionId": version_id,
            "DeleteMarker": marker,
            "DeleteMarkerVersionId": headers.get("x-amz-version-id") if marker else None,
        }

    results = await asyncio.gather(*(remove(target) for target in asked.objects))
    tree: dict[str, Tree | None] = {
        "Deleted": [row for kind, row in results if kind == "Deleted" and not asked.quiet],
        "Error": [row for kind, row in results if kind == "Error"],
    }
    return context.xml("DeleteResult", tree)
