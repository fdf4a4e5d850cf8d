"""Every call outside the data path: sent to the bucket as it is, signed by us."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from s4weights.proxy.context import Context
from s4weights.proxy.upstream.protocol import Forwarded

from .attributes import check_key

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
        "x-amz-security-token",
        "x-amz-trailer",
    }
)
_QUERY_AUTH: Final = "x-amz-"
_ANSWER_DROPPED: Final = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}
)


async def forward(context: Context) -> web.StreamResponse:
    """Pass a call on and its answer back."""
    check_key(context.key)
    body = await context.read_document()
    headers = {name: value for name, value in context.headers.items() if name not in _DROPPED}
    encodings = [item.strip() for item in headers.pop("content-encoding", "").split(",")]
    kept = ",".join(item for item in encodings if item and item.lower() != "aws-chunked")
    if kept:
        headers["content-encoding"] = kept
    query = "&".join(item for item in context.raw_query.split("&") if not item.lower().startswith(_QUERY_AUTH))
    answer = await context.upstream.forward(
        Forwarded(context.request.method, context.path, query, headers=headers, body=body, length=len(body))
    )
    return await _pass_back(context, answer)


async def _pass_back(context: Context, answer: Forwarded) -> web.StreamResponse:
    headers = {name: value for name, value in answer.headers.items() if name not in _ANSWER_DROPPED}
    response = web.StreamResponse(status=answer.status, headers={**context.answer_headers(), **headers})
    if answer.length is not None:
        response.content_length = answer.length
    await context.begin(response)
    if answer.body is not None and not isinstance(answer.body, bytes):
        async for chunk in answer.body:
            await response.write(chunk)
    await response.write_eof()
    return response
