"""DeleteObject."""

from __future__ import annotations

from aiohttp import web

from s4weights.proxy.context import Context
from s4weights.proxy.http.conditions import read_conditions

from .attributes import check_key


async def delete_object(context: Context) -> web.StreamResponse:
    """Remove an object; 204 also where there is none."""
    check_key(context.key)
    headers = await context.objects.delete(
        context.bucket,
        context.key,
        version_id=context.version_id,
        conditions=read_conditions(context.headers),
    )
    return context.empty(204, headers)
