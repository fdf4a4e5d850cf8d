"""The calls of a multipart upload, but its parts' bodies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from aiohttp import web

from s4weights.proxy.checksums.algorithms import HEADER_PREFIX, TYPE_HEADER, elements
from s4weights.proxy.checksums.plan import read_plan
from s4weights.proxy.context import Context, iso_date
from s4weights.proxy.errors import ProxyError, S3Error
from s4weights.proxy.http.conditions import read_conditions
from s4weights.proxy.http.xml import Tree, error_document, parse_complete
from s4weights.proxy.upstream.protocol import Stored

from .attributes import check_key, object_headers
from .bucket import OWNER
from .foreign_uploads import forward_upload, is_foreign
from .forward import forward_write
from .list_objects import read_max

_MAX_ROWS: Final = 1_000
# S3 keeps a long Complete alive with white space; clients give up after 60 s of silence.
_KEEP_ALIVE_S: Final = 10.0


async def create_multipart_upload(context: Context) -> web.StreamResponse:
    """CreateMultipartUpload."""
    check_key(context.key)
    headers, plan = object_headers(context.headers), read_plan(context.headers)
    upload_id = await context.objects.uploads.create(context.bucket, context.key, headers, plan)
    tree = {"Bucket": context.bucket, "Key": context.key, "UploadId": upload_id}
    encryption = {name: value for name, value in headers.items() if name.startswith("x-amz-server-side-encryption")}
    answer = {**encryption, **(plan.headers if plan else {})}
    return context.xml("InitiateMultipartUploadResult", tree, headers=answer)


async def complete_multipart_upload(context: Context) -> web.StreamResponse:
    """CompleteMultipartUpload: quick answers with their real status, slow ones within a 200 that has begun."""
    check_key(context.key)
    if is_foreign(context):
        return await forward_upload(context, forward_write)
    # Checksums in its headers are the object's, not the document's.
    parts = parse_complete(await context.read_document(without=HEADER_PREFIX))
    work = asyncio.ensure_future(
        context.objects.complete(
            context.bucket,
            context.key,
            context.query["uploadId"],
            parts,
            read_conditions(context.headers),
            context.headers,
        )
    )
    done, _ = await asyncio.wait([work], timeout=_KEEP_ALIVE_S)
    if done:
        completed = work.result()
        return context.xml("CompleteMultipartUploadResult", _completed(context, completed), headers=completed.headers)
    return await _answer_slowly(context, work)


async def _answer_slowly(context: Context, work: asyncio.Future[Stored]) -> web.StreamResponse:
    response = web.StreamResponse(headers={**context.answer_headers(), "Content-Type": "application/xml"})
    await context.begin(response)
    # White space may stand before a document, but not before its declaration: that goes out first.
    await response.write(b'<?xml version="1.0" encoding="UTF-8"?>\n')
    while not (await asyncio.wait([work], timeout=_KEEP_ALIVE_S))[0]:
        await response.write(b" ")
    try:
        body = context.xml("CompleteMultipartUploadResult", _completed(context, work.result())).body
    except S3Error as error:
        body = _error(context, error)
    except ProxyError as error:
        body = _error(context, S3Error("InternalError", str(error)))
    assert isinstance(body, bytes)
    await response.write(body.partition(b"\n")[2])
    await response.write_eof()
    return response


def _error(context: Context, error: S3Error) -> bytes:
    return error_document(error, resource=context.raw_path, request_id=context.request_id, host_id=context.host_id)


def _completed(context: Context, completed: Stored) -> dict[str, Tree | None]:
    return {
        "Location": f"{context.origin}{context.raw_path}",
        "Bucket": context.bucket,
        "Key": context.key,
        "ETag": f'"{completed.etag}"',
        **elements(completed.checksums),
        "ChecksumType": completed.checksums.get(TYPE_HEADER),
    }


async def abort_multipart_upload(context: Context) -> web.StreamResponse:
    """AbortMultipartUpload."""
    await context.objects.uploads.abort(context.bucket, context.key, context.query["uploadId"])
    return context.empty(204)


async def list_parts(context: Context) -> web.StreamResponse:
    """ListParts: the client's parts, not the bucket's."""
    query = context.query
    if is_foreign(context):
        return await forward_upload(context)
    max_parts = read_max(query, "max-parts", _MAX_ROWS)
    marker = read_max(query, "part-number-marker", 10_000) if query.get("part-number-marker") else 0
    upload = context.objects.uploads.find(context.bucket, context.key, query["uploadId"])
    parts = context.objects.uploads.list_parts(context.bucket, context.key, query["uploadId"])
    waiting = [part for part in parts if part.number > marker]
    page = waiting[:max_parts]
    rows: list[Mapping[str, Tree | None]] = [
        {
            "PartNumber": str(part.number),
            "LastModified": iso_date(part.last_modified) if part.last_modified else None,
            "ETag": f'"{part.etag}"',
            "Size": str(part.size),
            **elements(part.checksums),
        }
        for part in page
    ]
    tree: dict[str, Tree | None] = {
        "Bucket": context.bucket,
        "Key": context.key,
        "UploadId": query["uploadId"],
        "Initiator": OWNER,
        "Owner": OWNER,
        "StorageClass": upload.headers.get("x-amz-storage-class", "STANDARD"),
        "PartNumberMarker": str(marker),
        "NextPartNumberMarker": str(page[-1].number) if page else None,
        "MaxParts": str(max_parts),
        "IsTruncated": "true" if len(waiting) > len(page) else "false",
        "ChecksumAlgorithm": upload.plan.algorithm if upload.plan else None,
        "ChecksumType": upload.plan.type if upload.plan else None,
        "Part": rows,
    }
    return context.xml("ListPartsResult", tree)


def part_number(context: Context) -> int:
    """Raises: S3Error InvalidArgument."""
    text = context.query.get("partNumber", "")
    if not text.isascii() or not text.isdigit() or len(text) > 10 or not 1 <= int(text) <= 10_000:
        raise S3Error("InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive.")
    return int(text)
