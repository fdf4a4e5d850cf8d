"""CopyObject: on the bucket's side, whatever the size."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs, unquote_to_bytes

from aiohttp import web

from s4weights.proxy.checksums.algorithms import ALGORITHM_HEADER, elements
from s4weights.proxy.context import Context, iso_date
from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.address import check_bucket
from s4weights.proxy.http.conditions import check_copy_source, read_conditions
from s4weights.proxy.objects.copy import SourceChanged
from s4weights.proxy.objects.types import LogicalObject
from s4weights.proxy.upstream.protocol import Conditions, Stored

from .attributes import check_key, object_headers

# A source that is overwritten between its look-up and its copy is looked up again.
_ATTEMPTS: Final = 3
_SOURCE_CONDITIONS: Final = "x-amz-copy-source-"


async def copy_object(context: Context) -> web.StreamResponse:
    """Copy an object, with its metadata or with the request's."""
    check_key(context.key)
    directive = context.headers.get("x-amz-metadata-directive", "COPY").upper()
    if directive not in ("COPY", "REPLACE"):
        raise S3Error("InvalidArgument", "Unknown metadata directive.")
    if context.headers.get("x-amz-tagging-directive", "COPY").upper() not in ("COPY", "REPLACE"):
        raise S3Error("InvalidArgument", "Unknown tagging directive.")
    conditions = read_conditions(context.headers)
    for attempt in range(1, _ATTEMPTS + 1):
        source = await find_source(context)
        try:
            stored = await _copy(context, source, conditions, replace=directive == "REPLACE")
            break
        except S3Error as error:
            # The source was written since it was looked up; without a condition of the client's own any of them was ours.
            is_ours = error.code == "PreconditionFailed" and conditions.asks_for_nothing()
            if attempt == _ATTEMPTS or not (is_ours or isinstance(error, SourceChanged)):
                raise
    modified = stored.last_modified or source.info.last_modified
    tree = {"LastModified": iso_date(modified), "ETag": f'"{stored.etag}"', **elements(stored.checksums)}
    return context.xml("CopyObjectResult", tree, headers=stored.headers)


async def _copy(context: Context, source: LogicalObject, conditions: Conditions, *, replace: bool) -> Stored:
    headers = object_headers(context.headers)
    onto_itself = (source.bucket, source.key, source.version_id) == (context.bucket, context.key, None)
    changes = replace or any(
        name.startswith(("x-amz-storage-class", "x-amz-server-side", "x-amz-website")) for name in headers
    )
    if onto_itself and not changes:
        raise S3Error(
            "InvalidRequest",
            "This copy request is illegal because it is trying to copy an object to itself without changing the object's "
            "metadata, storage class, website redirect location or encryption attributes.",
        )
    if ALGORITHM_HEADER in context.headers and not source.is_container:
        headers[ALGORITHM_HEADER] = context.headers[ALGORITHM_HEADER]
    return await context.objects.copy(
        source, context.bucket, context.key, headers, replace=replace, conditions=conditions
    )


async def find_source(context: Context) -> LogicalObject:
    """The object that x-amz-copy-source names, its conditions checked. Raises: S3Error."""
    bucket, key, version_id = parse_source(context, context.headers["x-amz-copy-source"])
    source = await context.objects.resolve(bucket, key, version_id=version_id)
    check_copy_source(read_conditions(context.headers, _SOURCE_CONDITIONS), source.info)
    return source


def parse_source(context: Context, header: str) -> tuple[str, str, str | None]:
    """Bucket, key and version id that a copy source names. Raises: S3Error where the client may not reach it."""
    raw, _, query = unambiguous_source(header).partition("?")
    try:
        text = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise S3Error("InvalidArgument", "Copy Source must be encoded in UTF-8.") from None
    bucket, slash, key = text.removeprefix("/").partition("/")
    if not bucket or not slash or not key:
        raise S3Error("InvalidArgument", "Copy Source must mention the source bucket and key: sourcebucket/sourcekey")
    check_bucket(bucket)
    check_key(key)
    context.grant.check_object(bucket, key)
    return bucket, key, parse_qs(query).get("versionId", [None])[0]


def unambiguous_source(header: str) -> str:
    """A copy source whose blanks are `%20`: S3 reads `+` as a blank here (s5cmd sends it so), other servers do not."""
    raw, mark, query = header.partition("?")
    return raw.replace("+", "%20") + mark + query
