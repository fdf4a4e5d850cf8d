"""DeleteObject."""

from __future__ import annotations

from dataclasses import replace

from aiohttp import web

from s4weights.proxy.context import Context
from s4weights.proxy.http.conditions import read_conditions

from .attributes import check_key, delete_headers


async def delete_object(context: Context) -> web.StreamResponse:
    """Remove an object; 204 also where there is none."""
    check_key(context.key)
    headers = await context.objects.delete(
        context.bucket,
        context.key,
        version_id=context.version_id,
        headers=delete_headers(context.headers),
        conditions=replace(
            read_conditions(context.headers),
            if_match_size=context.headers.get("x-amz-if-match-size"),
            if_match_modified=context.headers.get("x-amz-if-match-last-modified-time"),
        ),
    )
    return context.empty(204, headers)
