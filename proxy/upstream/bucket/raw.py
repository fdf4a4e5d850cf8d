"""Signed requests whose bodies stream, both ways: all of the data path, and calls that are passed on as they are.

botocore takes milliseconds to build a request, and copies and hashes a body on the event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Final
from xml.etree import ElementTree

import aiohttp
from yarl import URL

from s4weights.proxy.checksums.algorithms import algorithm_of
from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.upstream.payer import payer_header
from s4weights.proxy.upstream.protocol import Body, Forwarded, SentChecksum, path_of

from .calls import Calls, pause_s
from .faults import CHANGED_ON_THE_WAY, code_of_status, error_headers, upstream_fault
from .framing import framed, framed_bytes, trailer_headers
from .signing import PAYLOAD_HASH, Signer
from .watched import WatchedBody

# What a connection reads ahead of who takes it.
_READ_AHEAD_BYTES: Final = 256 << 10
_ERROR_BYTES: Final = 64 << 10
_CONNECT_S: Final = 10.0
_FORWARD_ATTEMPTS: Final = 4
_UNREACHABLE: Final = frozenset({500, 502, 503, 504})
# Of that answer, and not of the one that the client is given.
_OF_THE_ANSWER: Final = ("HostId", "RequestId", "Resource")


class RawClient:
    """One pool of connections beside botocore's."""

    def __init__(
        self,
        calls: Calls,
        credentials: Any,
        region: str,
        endpoint: str,
        connections: int,
        *,
        regional: Callable[[str], str] | None = None,
    ) -> None:
        """See Signer."""
        self._signer = Signer(credentials, region, endpoint, regional)
        self._calls = calls
        self._circuit = calls.circuit
        self._patience = calls.patience
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=calls.patience.silence_s),
            auto_decompress=False,
            read_bufsize=_READ_AHEAD_BYTES,
            skip_auto_headers={"User-Agent", "Accept", "Accept-Encoding", "Content-Type"},
        )
        # aiohttp would send a PUT again over a new connection, with what is left of a body that it has begun.
        self._session._retry_connection = False

    async def close(self) -> None:
        """Give the connections back."""
        await self._session.close()

    async def send(
        self,
        method: str,
        bucket: str,
        key: str,
        query: str,
        headers: Mapping[str, str],
        body: Body,
        length: int,
        checksum: SentChecksum | None = None,
    ) -> Mapping[str, str]:
        """Send a body of length bytes; returns the answer's headers, lower case.

        Raises: S3Error as the bucket answered; UpstreamError; and what the body raises.
        """
        path = path_of(bucket, key)
        source = WatchedBody(body, length, self._patience)
        if not length:
            # Nothing would ask the body for its end, where its checks are.
            await source.drain()
        chunks = source.chunks()
        if checksum is not None:
            # S3 sees it by the checksum; other servers look for its name.
            headers = {**headers, "x-amz-sdk-checksum-algorithm": algorithm_of(checksum.header)}
            if checksum.known or not length:
                headers[checksum.header] = checksum.value()
            else:
                headers |= trailer_headers(checksum.header, length, headers)
                chunks, length = framed(chunks, length, checksum), framed_bytes(length, checksum.header)
        try:
            async with source.bounded(), await self._request(method, path, query, headers, chunks, length) as answer:
                if answer.status >= 300:
                    raise await _error(answer, source)
                return {name.lower(): value for name, value in answer.headers.items()}
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            # aiohttp wraps what the body raised; the client's own fault must reach the client.
            if source.fault is not None:
                raise source.fault from error
            raise _fault(f"{method} {bucket}/{key}", error) from error

    async def send_whole(
        self,
        bucket: str,
        key: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
        checksum: SentChecksum | None = None,
    ) -> Mapping[str, str]:
        """PUT bytes that may be sent again: where the bucket cannot be reached, or they arrived changed.

        Raises: as `send`.
        """
        if checksum is None and self._signer.endpoint.startswith("http:"):
            # Nothing else would tell the bucket that bytes changed on their way.
            digest = await asyncio.to_thread(hashlib.sha256, body)
            headers = {**headers, PAYLOAD_HASH: digest.hexdigest()}
        return await self._calls.make(
            f"PUT {bucket}/{key}",
            lambda: self.send("PUT", bucket, key, query, headers, body, len(body), checksum),
            size=None,
        )

    async def open(
        self, bucket: str, key: str, query: str, headers: Mapping[str, str]
    ) -> tuple[aiohttp.ClientResponse, AsyncGenerator[bytes, None]]:
        """GET an object: the head of the answer, and its bytes as they come. Raises: as `send`."""

        async def ask() -> aiohttp.ClientResponse:
            answer = await self._request("GET", path_of(bucket, key), query, headers, b"", 0)
            if answer.status < 300:
                return answer
            async with answer:
                raise await _error(answer, None)

        answer = await self._calls.make(f"GET {bucket}/{key}", ask)
        return answer, _chunks(answer)

    async def forward(self, request: Forwarded) -> Forwarded:
        """Send a call as it is, and give its answer unread; again where it may be, and the bucket cannot be reached."""
        if not request.is_signed:
            # Anyone may send these: they neither repeat nor open the circuit.
            return await self._forward_once(request)
        again = isinstance(request.body, bytes | None) and request.method != "POST"
        for attempt in range(1, _FORWARD_ATTEMPTS + 1):
            last = attempt == _FORWARD_ATTEMPTS or not again or self._circuit.is_open
            fault: UpstreamError | None = None
            try:
                answer = await self._forward_once(request)
            except UpstreamError as error:
                self._circuit.failed(str(error))
                if last:
                    raise
                fault = error
            else:
                if answer.status in _UNREACHABLE:
                    fault = upstream_fault(request.path, answer.status, "", "", answer.headers)
                    self._circuit.failed(f"{request.method} {fault}")
                else:
                    self._circuit.answered()
                asked_s = fault.retry_after_s or 0.0 if fault is not None else 0.0
                if last or fault is None or asked_s > self._patience.total_s:
                    return answer
                answer.release()
            await asyncio.sleep(pause_s(attempt, fault))
        raise AssertionError("unreachable")

    async def _forward_once(self, request: Forwarded) -> Forwarded:
        length = request.length or 0
        source = WatchedBody(request.body if request.body is not None else b"", length, self._patience)
        if not length:
            await source.drain()
        try:
            async with source.bounded():
                answer = await self._request(
                    request.method,
                    request.path,
                    request.query,
                    request.headers,
                    source.chunks(),
                    length,
                    is_signed=request.is_signed,
                )
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            if source.fault is not None:
                raise source.fault from error
            raise _fault(f"{request.method} {request.path}", error) from error
        headers = {name.lower(): value for name, value in answer.headers.items()}
        known = headers.get("content-length")
        return Forwarded(
            request.method,
            request.path,
            request.query,
            answer.status,
            headers,
            _chunks(answer),
            int(known) if known is not None else None,
            release=answer.close,
        )

    async def _request(
        self,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body: Body,
        length: int,
        *,
        is_signed: bool = True,
    ) -> aiohttp.ClientResponse:
        headers = {**payer_header(), **headers}
        url, signed = await self._signer.sign(method, path, query, headers, is_signed=is_signed)
        answer = await self._session.request(
            method,
            URL(url, encoded=True),
            data=body if length else None,
            headers={**signed, "Content-Length": str(length)},
            allow_redirects=False,
        )
        if not self._signer.is_elsewhere(path, answer.status, answer.headers):
            return answer
        answer.close()
        if length:
            # It cannot be sent again from here; the next try will be right.
            raise UpstreamError(f"{method} {path}: the bucket is in another region")
        return await self._request(method, path, query, headers, body, length, is_signed=is_signed)


def _fault(what: str, error: Exception) -> UpstreamError:
    return UpstreamError(f"{what}: {type(error).__name__}: {str(error) or 'no answer in time'}")


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    try:
        # What iter_chunks() says of an end is not to be relied on where there was no body at all.
        while not answer.content.at_eof():
            # As it was read: iter_any() would join what is there, and whoever takes it joins it once more.
            chunk, _ = await answer.content.readchunk()
            if chunk:
                yield chunk
    except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
        raise UpstreamError(f"{answer.method} {answer.url.path}: {type(error).__name__}: {error}") from error
    finally:
        answer.close()


async def _error(answer: aiohttp.ClientResponse, sent: WatchedBody | None) -> Exception:
    text = await answer.content.read(_ERROR_BYTES)
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - the bucket's own answer, bounded
        fields = {child.tag: child.text or "" for child in root if child.tag[:1].isupper()}
    except ElementTree.ParseError:
        fields = {}
    code, message = fields.pop("Code", ""), fields.pop("Message", "")
    for name in _OF_THE_ANSWER:
        fields.pop(name, None)
    what = f"{answer.method} {answer.url.path}"
    fault = upstream_fault(what, answer.status, code, message, answer.headers)
    if fault is not None:
        return fault
    if code in CHANGED_ON_THE_WAY and sent is not None and sent.is_whole:
        # What the client sent was compared here, so what the bucket got was changed behind us: the client may try again.
        return UpstreamError(f"{what}: what arrived is not what was sent: {code}: {message}")
    return S3Error(
        code or code_of_status(answer.status),
        message or None,
        status=answer.status,
        headers=error_headers(answer.headers),
        **fields,
    )
