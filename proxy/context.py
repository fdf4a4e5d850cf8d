"""One request on its way through the handlers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime

from aiohttp import web

from s4weights.proxy.auth.credentials import CredentialStore
from s4weights.proxy.auth.grants import EVERYTHING, Grant
from s4weights.proxy.auth.sigv4 import Verified
from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.body import CheckedBody, checked_body
from s4weights.proxy.http.server import send_continue
from s4weights.proxy.http.xml import MAX_DOCUMENT_BYTES, Tree, document
from s4weights.proxy.logs import new_request_id
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.protocol import Upstream


@dataclass(slots=True)
class Context:
    """What a handler is given. headers: lower case, duplicates joined; query: decoded, the last value of a name."""

    request: web.BaseRequest
    objects: Objects
    bucket: str
    key: str
    raw_path: str
    raw_query: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    credentials: CredentialStore = field(default_factory=CredentialStore)
    """What clients may sign with; empty: nobody signs."""
    verified: Verified | None = None
    request_id: str = field(default_factory=new_request_id)
    host_id: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    cross_origin: Mapping[str, str] = field(default_factory=dict)
    """What every answer tells a browser, where the request names its origin."""
    upstream_request_id: str = ""
    """What the bucket calls a call that was passed on."""
    path: str = ""
    """raw_path in path style: with the bucket in it."""
    operation: str = "Unknown"
    is_reading: bool = False
    """Whether the first bytes of an object that was found are being read."""
    has_begun: bool = False
    """Whether the head of an answer is out, after which an error can only break the connection."""

    @property
    def grant(self) -> Grant:
        """What the client's key may reach."""
        return self.verified.grant if self.verified is not None else EVERYTHING

    @property
    def upstream(self) -> Upstream:
        """The bucket store."""
        return self.objects.store.upstream

    @property
    def origin(self) -> str:
        """Scheme and host that the client asked."""
        return f"{self.request.scheme}://{self.headers.get('host', '')}"

    @property
    def version_id(self) -> str | None:
        """The versionId of the query."""
        return self.query.get("versionId")

    def answer_headers(self) -> dict[str, str]:
        """What every answer carries."""
        named = {"x-amz-request-id": self.request_id, "x-amz-id-2": self.host_id, "Server": "s4weights"}
        return {**self.cross_origin, **named}

    async def body(self, *, computed: str | None = None) -> CheckedBody:
        """The request's body, checked. Sends 100-continue: nothing stands against the request any more.

        computed: the header of a checksum that is wanted where the request brings none.
        """
        body = checked_body(self.headers, self.verified, self._pieces(), computed=computed)
        await send_continue(self.request)
        return body

    async def stream(self) -> AsyncIterator[bytes]:
        """The request's body as it comes, for who checks it itself. Sends 100-continue."""
        await send_continue(self.request)
        return self._pieces()

    async def _pieces(self) -> AsyncIterator[bytes]:
        content, taken = self.request.content, 0
        # What readchunk() says of an end is not to be relied on where there was no body at all.
        while not content.at_eof():
            # As it was read; readany() would join what is there, and CheckedBody joins it once more.
            if content.total_bytes > taken:
                piece, _ = await content.readchunk()
            else:
                try:
                    async with asyncio.timeout(self.objects.store.settings.body_timeout_s):
                        piece, _ = await content.readchunk()
                except TimeoutError:
                    raise S3Error("RequestTimeout") from None
            if piece:
                taken += len(piece)
                yield piece

    async def read_document(self, *, without: str | None = None) -> bytes:
        """A small body as a whole. without: start of the names of headers that say nothing of it.

        Raises: S3Error MaxMessageLengthExceeded, and what CheckedBody raises."""
        headers = {name: value for name, value in self.headers.items() if not without or not name.startswith(without)}
        if headers.get("transfer-encoding", "").lower() == "chunked" and "content-length" not in headers:
            await send_continue(self.request)
            data = await _read_bounded(self._pieces())
            headers["content-length"] = str(len(data))
            return b"".join([chunk async for chunk in checked_body(headers, self.verified, _one(data))])
        headers.setdefault("content-length", "0")
        body = checked_body(headers, self.verified, self._pieces())
        if body.length > MAX_DOCUMENT_BYTES:
            raise S3Error("MaxMessageLengthExceeded", MaxMessageLengthBytes=str(MAX_DOCUMENT_BYTES))
        await send_continue(self.request)
        return b"".join([chunk async for chunk in body])

    async def begin(self, response: web.StreamResponse) -> None:
        """Send the head of an answer whose body follows."""
        self.has_begun = True
        await response.prepare(self.request)

    async def write(self, response: web.StreamResponse, data: bytes) -> None:
        """Send some of a body. Raises: ConnectionResetError where the client is gone, or has stopped reading."""
        try:
            async with asyncio.timeout(self.objects.store.settings.send_timeout_s):
                await response.write(data)
        except TimeoutError:
            if self.request.transport is not None:
                self.request.transport.abort()  # close() would wait for what the client does not take
            raise ConnectionResetError("the client has stopped reading") from None

    def xml(
        self,
        name: str,
        tree: Mapping[str, Tree | None],
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> web.Response:
        """An answer with a document."""
        return self.empty(status, {"Content-Type": "application/xml", **(headers or {})}, document(name, tree))

    def empty(self, status: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> web.Response:
        """An answer that is whole."""
        return web.Response(status=status, headers={**self.answer_headers(), **(headers or {})}, body=body or None)


async def _one(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _read_bounded(pieces: AsyncIterator[bytes]) -> bytes:
    data = bytearray()
    async for piece in pieces:
        data += piece
        if len(data) > MAX_DOCUMENT_BYTES:
            raise S3Error("MaxMessageLengthExceeded", MaxMessageLengthBytes=str(MAX_DOCUMENT_BYTES))
    return bytes(data)


def read_headers(request: web.BaseRequest) -> dict[str, str]:
    """Header names in lower case; values of a name that comes twice joined, as HTTP allows."""
    joined: dict[str, str] = {}
    for name, value in request.headers.items():
        lower = name.lower()
        joined[lower] = f"{joined[lower]},{value}" if lower in joined else value
    return joined


def http_date(moment: datetime) -> str:
    """As in Last-Modified."""
    return format_datetime(moment.astimezone(UTC), usegmt=True)


def iso_date(moment: datetime) -> str:
    """As in S3's documents."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
