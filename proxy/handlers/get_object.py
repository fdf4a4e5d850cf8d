"""GetObject and HeadObject: the same headers, with and without the body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Final

from aiohttp import web

from s4weights.proxy.checksums.algorithms import HEADER_PREFIX
from s4weights.proxy.context import Context, http_date
from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.conditions import check_read, read_conditions
from s4weights.proxy.http.fields import check_header
from s4weights.proxy.http.ranges import Slice, parse_range
from s4weights.proxy.objects.types import LogicalObject

from .archived import find_unless_archived
from .attributes import check_key
from .forward import forward, forward_if_possible
from .multipart import part_number

_OVERRIDES: Final = {
    "response-cache-control": "cache-control",
    "response-content-disposition": "content-disposition",
    "response-content-encoding": "content-encoding",
    "response-content-language": "content-language",
    "response-content-type": "content-type",
    "response-expires": "expires",
}
# An object that is overwritten between its headers and its first byte is looked up again.
_ATTEMPTS: Final = 3


async def get_object(context: Context) -> web.StreamResponse:
    """Stream the body or a slice of it; the connection breaks where a byte could be wrong."""
    check_key(context.key)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return await _get(context)
        except S3Error as error:
            replaced = error.code == "PreconditionFailed" and context.is_reading
            if not replaced or attempt == _ATTEMPTS:
                raise
            context.is_reading = False
    raise AssertionError("unreachable")


async def head_object(context: Context) -> web.StreamResponse:
    """Headers only."""
    check_key(context.key)
    found = await find_unless_archived(context)
    if found is None:
        return await forward(context)
    if (answer := await _part_that_passed_through(context, found)) is not None:
        return answer
    if not check_read(read_conditions(context.headers), found.info):
        return context.empty(304, _identity(found))
    wanted = _wanted(context, found)
    checksums = await context.objects.checksums(found) if _wants_checksums(context, wanted) else {}
    response = _response(context, found, wanted, checksums)
    await context.begin(response)
    return response


async def _get(context: Context) -> web.StreamResponse:
    found = await context.objects.resolve(context.bucket, context.key, version_id=context.version_id)
    if (answer := await _part_that_passed_through(context, found)) is not None:
        return answer
    if not check_read(read_conditions(context.headers), found.info):
        return context.empty(304, _identity(found))
    wanted = _wanted(context, found)
    first, length = (wanted.first, wanted.length) if wanted else (0, found.info.size)
    context.is_reading = True
    chunks = context.objects.read(found, first, length)
    try:
        # Nothing is promised before the first chunk is there and verified.
        start, checksums = await _begin(context, found, wanted, chunks)
        context.is_reading = False
        response = _response(context, found, wanted, checksums)
        await context.begin(response)
        await _send(context, response, start, chunks, length)
    finally:
        await chunks.aclose()
    return response


async def _part_that_passed_through(context: Context, found: LogicalObject) -> web.StreamResponse | None:
    """One part of a body that is none of ours: the bucket alone knows where it lies. None: it is to be answered here."""
    if found.is_container or "partNumber" not in context.query:
        return None
    return await forward_if_possible(context)


async def _begin(
    context: Context, found: LogicalObject, wanted: Slice | None, chunks: AsyncIterator[bytes]
) -> tuple[bytes, Mapping[str, str]]:
    """The first chunk, and the checksums where the answer carries them."""
    if not _wants_checksums(context, wanted):
        return await anext(chunks, b""), {}
    asked = asyncio.create_task(context.objects.checksums(found))
    try:
        start = await anext(chunks, b"")
        return start, await asked
    finally:
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)


def _wants_checksums(context: Context, wanted: Slice | None) -> bool:
    """Whether the answer carries the whole object's checksum: never where it is a slice of it."""
    return wanted is None and context.headers.get("x-amz-checksum-mode", "").upper() == "ENABLED"


async def _send(
    context: Context, response: web.StreamResponse, start: bytes, chunks: AsyncIterator[bytes], length: int
) -> None:
    sent = len(start)
    if start:
        await context.write(response, start)
    async for chunk in chunks:
        await context.write(response, chunk)
        sent += len(chunk)
    if sent != length:
        raise S3Error("InternalError", f"The body ended at byte {sent} of {length}.")
    await response.write_eof()


def _wanted(context: Context, found: LogicalObject) -> Slice | None:
    if "partNumber" not in context.query:
        return parse_range(context.headers.get("range"), found.info.size)
    if "range" in context.headers:
        raise S3Error("InvalidRequest", "Cannot specify both Range header and partNumber query parameter.")
    number = part_number(context)
    sizes = found.parts or (found.info.size,)
    if number > len(sizes):
        raise S3Error("InvalidPartNumber", "The requested partnumber is not satisfiable.", status=416)
    first = sum(sizes[: number - 1])
    return Slice(first, sizes[number - 1], found.info.size) if found.info.size else None


def _overrides(context: Context) -> dict[str, str]:
    found = {known: context.query[name] for name, known in _OVERRIDES.items() if name in context.query}
    for name, value in found.items():
        check_header(name, value)
    return found


def _identity(found: LogicalObject) -> dict[str, str]:
    return {"ETag": f'"{found.info.etag}"', "Last-Modified": http_date(found.info.last_modified)}


def _response(
    context: Context, found: LogicalObject, wanted: Slice | None, checksums: Mapping[str, str]
) -> web.StreamResponse:
    headers = {
        "content-type": "binary/octet-stream",
        **{name: value for name, value in found.info.headers.items() if not name.startswith(HEADER_PREFIX)},
        **_overrides(context),
        **_identity(found),
        "Accept-Ranges": "bytes",
        "Content-Length": str(wanted.length if wanted else found.info.size),
    }
    if wanted:
        headers["Content-Range"] = wanted.content_range
    headers |= checksums
    if "partNumber" in context.query and found.parts:
        headers["x-amz-mp-parts-count"] = str(len(found.parts))
    response = web.StreamResponse(status=206 if wanted else 200, headers={**context.answer_headers(), **headers})
    response.content_length = wanted.length if wanted else found.info.size
    return response
