"""Every call outside the data path: sent to the bucket as it is, signed by us."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from s4weights.proxy.context import Context
from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.query import write_query
from s4weights.proxy.objects.marker import MARKER, is_container
from s4weights.proxy.upstream.protocol import Forwarded

from .attributes import check_key, check_unmarked, has_customer_key
from .copy_object import parse_source, unambiguous_source

# Between two hops only, or of the client's own signature and framing.
_DROPPED: Final = frozenset(
    {
        "authorization",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-amz-content-sha256",
        "x-amz-date",
        "x-amz-decoded-content-length",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-security-token",
        "x-amz-trailer",
    }
)
_SOURCE: Final = "x-amz-copy-source"
_RENAMED: Final = "x-amz-rename-source"
_SIGNING: Final = "x-amz-"
_ANSWER_DROPPED: Final = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}
)


async def forward(context: Context) -> web.StreamResponse:
    """Pass a call on and its answer back."""
    check_key(context.key)
    if context.key and context.query.keys() & {"select", "torrent"}:
        found = await context.objects.resolve(context.bucket, context.key, version_id=context.version_id)
        if found.is_container:
            raise _stored_body()
    answer = await context.upstream.forward(forwarded(context, await context.read_document()))
    # A server that does not know a call may take it for GetObject; a key of the client's own hides none of our objects.
    shows_body = context.request.method == "GET" or has_customer_key(context.headers)
    if context.key and shows_body and answer.status in (200, 206) and is_container(answer.headers):
        answer.release()
        raise _stored_body()
    return await pass_back(context, answer)


def _stored_body() -> S3Error:
    return S3Error("NotImplemented", "The bucket would answer from the stored container, not from the object.")


async def forward_write(context: Context) -> web.StreamResponse:
    """The same, where it may put another object at the key, or remove it."""
    return await context.objects.store.guard.beside((context.bucket, context.key), lambda: forward(context))


async def rename(context: Context) -> web.StreamResponse:
    """RenameObject. What a container needs is pinned under its name, so that one has to be copied and deleted."""
    source = _renamed(context)
    if source is None:
        raise S3Error("InvalidRequest", f"Missing required header for this request: {_RENAMED}")
    if (await context.objects.resolve(*source)).is_container:
        raise S3Error("NotImplemented", "A checkpoint cannot be renamed on the bucket's side; copy and delete it.")
    return await forward_write(context)


async def forward_if_possible(context: Context) -> web.StreamResponse | None:
    """The bucket store's own answer; None from a directory, which has none."""
    try:
        return await forward(context)
    except S3Error as error:
        if error.code != "NotImplemented":
            raise
    return None


async def forward_stream(context: Context) -> web.StreamResponse:
    """Pass a call on whose body is a client's, of any length, checked on its way."""
    check_key(context.key)
    body = await context.body()
    call = forwarded(context, b"")
    call.body, call.length = aiter(body), body.length
    return await pass_back(context, await context.upstream.forward(call))


def forwarded(context: Context, body: bytes) -> Forwarded:
    """The client's call without its signature and framing. Raises: S3Error where it names what the client may not reach."""
    check_unmarked(context.headers)
    headers = {name: value for name, value in context.headers.items() if name not in _DROPPED}
    # The bucket must find neither another key nor another parameter than was checked.
    for name in (_SOURCE, _RENAMED):
        if name in headers:
            headers[name] = unambiguous_source(headers[name])
    if _SOURCE in headers:
        parse_source(context, headers[_SOURCE])
    _renamed(context)
    encodings = [item.strip() for item in headers.pop("content-encoding", "").split(",")]
    kept = ",".join(item for item in encodings if item and item.lower() != "aws-chunked")
    if kept:
        headers["content-encoding"] = kept
    query = [(name, value) for name, value in context.query.items() if not name.lower().startswith(_SIGNING)]
    return Forwarded(
        context.request.method, context.path, write_query(query), headers=headers, body=body, length=len(body)
    )


def _renamed(context: Context) -> tuple[str, str] | None:
    """Bucket and key that a RenameObject takes away. Raises: as parse_source."""
    name = context.headers.get(_RENAMED)
    if name is None:
        return None
    bucket, key, _ = parse_source(context, f"{context.bucket}/{name.removeprefix('/')}")
    return bucket, key


async def pass_back(context: Context, answer: Forwarded) -> web.StreamResponse:
    """Give the bucket's answer to the client."""
    headers = {name: value for name, value in answer.headers.items() if name not in _ANSWER_DROPPED and name != MARKER}
    context.upstream_request_id = headers.get("x-amz-request-id", "")
    response = web.StreamResponse(status=answer.status, headers={**headers, **context.answer_headers()})
    if answer.length is not None:
        response.content_length = answer.length
    try:
        await context.begin(response)
        if answer.body is not None and not isinstance(answer.body, bytes):
            async for chunk in answer.body:
                await context.write(response, chunk)
        await response.write_eof()
    finally:
        answer.release()
    return response
