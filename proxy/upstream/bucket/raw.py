"""Signed requests whose bodies stream, both ways: all of the data path, and calls that are passed on as they are.

botocore takes milliseconds to build a request, and copies and hashes a body on the event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote
from xml.etree import ElementTree

import aiohttp
from yarl import URL

from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.upstream.protocol import Body, Forwarded, SentChecksum

from .faults import CHANGED_ON_THE_WAY, code_of_status, error_headers, is_own_fault
from .framing import framed, framed_bytes, trailer_headers
from .signing import PAYLOAD_HASH, Signer

# Of one write to a socket; and what a connection reads ahead of who takes it.
_CHUNK_BYTES: Final = 1 << 20
_READ_AHEAD_BYTES: Final = 256 << 10
_ERROR_BYTES: Final = 64 << 10
_CONNECT_S: Final = 10.0
# Of silence, not of the whole transfer: a checkpoint takes as long as it takes.
_SILENCE_S: Final = 60.0
_ATTEMPTS: Final = 4
_PAUSE_S: Final = 0.1
_UNREACHABLE: Final = frozenset({500, 502, 503, 504})
# Of that answer, and not of the one that the client is given.
_OF_THE_ANSWER: Final = ("HostId", "RequestId", "Resource")
_T = TypeVar("_T")


class RawClient:
    """One pool of connections beside botocore's."""

    def __init__(
        self, credentials: Any, region: str, endpoint: str, connections: int, *, regional: str | None = None
    ) -> None:
        """See Signer."""
        self._signer = Signer(credentials, region, endpoint, regional)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S),
            auto_decompress=False,
            read_bufsize=_READ_AHEAD_BYTES,
            skip_auto_headers={"User-Agent", "Accept", "Accept-Encoding", "Content-Type"},
        )

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
        source = _Watched(body, length)
        if not length:
            # Nothing would ask the body for its end, where its checks are.
            await source.drain()
        chunks = source.chunks()
        if checksum is not None and (checksum.known or not length):
            headers = {**headers, checksum.header: checksum.value()}
        elif checksum is not None and not isinstance(chunks, bytes):
            headers = {**headers, **trailer_headers(checksum.header, length, headers)}
            chunks, length = framed(chunks, length, checksum), framed_bytes(length, checksum.header)
        try:
            async with await self._request(method, _path(bucket, key), query, headers, chunks, length) as answer:
                if answer.status >= 300:
                    raise await _error(answer)
                return {name.lower(): value for name, value in answer.headers.items()}
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            # aiohttp wraps what the body raised; the client's own fault must reach the client.
            if source.fault is not None:
                raise source.fault from error
            raise UpstreamError(f"{method} {bucket}/{key}: {type(error).__name__}: {error}") from error

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

        async def send() -> Mapping[str, str]:
            try:
                return await self.send("PUT", bucket, key, query, headers, _slices(body), len(body), checksum)
            except S3Error as error:
                if error.code not in CHANGED_ON_THE_WAY:
                    raise
                raise UpstreamError(f"PUT {bucket}/{key}: what arrived is not what was sent: {error}") from error

        return await _again(send)

    async def open(
        self, bucket: str, key: str, query: str, headers: Mapping[str, str]
    ) -> tuple[aiohttp.ClientResponse, AsyncIterator[bytes]]:
        """GET an object: the head of the answer, and its bytes as they come. Raises: as `send`."""

        async def ask() -> aiohttp.ClientResponse:
            try:
                answer = await self._request("GET", _path(bucket, key), query, headers, b"", 0)
                if answer.status < 300:
                    return answer
                async with answer:
                    raise await _error(answer)
            except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
                raise UpstreamError(f"GET {bucket}/{key}: {type(error).__name__}: {error}") from error

        answer = await _again(ask)
        return answer, _chunks(answer)

    async def forward(self, request: Forwarded) -> Forwarded:
        """Send a call as it is, and give its answer unread; again where it may be, and the bucket cannot be reached."""
        again = isinstance(request.body, bytes | None) and request.method != "POST"
        for attempt in range(1, _ATTEMPTS + 1):
            last = attempt == _ATTEMPTS or not again
            try:
                answer = await self._forward_once(request)
            except UpstreamError:
                if last:
                    raise
            else:
                if last or answer.status not in _UNREACHABLE:
                    return answer
                if answer.release is not None:
                    answer.release()
            await asyncio.sleep(_pause_s(attempt))
        raise AssertionError("unreachable")

    async def _forward_once(self, request: Forwarded) -> Forwarded:
        length = request.length or 0
        source = _Watched(request.body if request.body is not None else b"", length)
        if not length:
            await source.drain()
        try:
            answer = await self._request(
                request.method, request.path, request.query, request.headers, source.chunks(), length
            )
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            if source.fault is not None:
                raise source.fault from error
            raise UpstreamError(f"{request.method} {request.path}: {type(error).__name__}: {error}") from error
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
            answer.close,
        )

    async def _request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: Body, length: int
    ) -> aiohttp.ClientResponse:
        url, signed = await self._signer.sign(method, path, query, headers)
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
        if not isinstance(body, bytes):
            # It cannot be sent again from here; the next try will be right.
            raise UpstreamError(f"{method} {path}: the bucket is in another region")
        return await self._request(method, path, query, headers, body, length)


class _Watched:
    """Remembers what a body raised, and raises itself where it ends early: a server would wait for the rest."""

    def __init__(self, body: Body, length: int) -> None:
        self._body = body
        self._length = length
        self.fault: BaseException | None = None

    def chunks(self) -> Body:
        return self._body if isinstance(self._body, bytes) else self._iterate(self._body)

    async def drain(self) -> None:
        """Read a body of no bytes to its end. Raises: what the body raises."""
        if not isinstance(self._body, bytes):
            async for _ in self._iterate(self._body):
                pass

    async def _iterate(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        seen = 0
        try:
            async for chunk in body:
                seen += len(chunk)
                yield chunk
            if seen != self._length:
                raise S3Error("IncompleteBody", f"Expected {self._length} bytes, found {seen}.")
        except Exception as error:
            self.fault = error
            raise


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
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


def _path(bucket: str, key: str) -> str:
    return f"/{quote(bucket, safe='-._~')}" + (f"/{quote(key, safe='/-._~')}" if key else "")


async def _slices(body: bytes) -> AsyncIterator[bytes]:
    """Without a copy: each slice is a view."""
    view = memoryview(body)
    for start in range(0, len(view), _CHUNK_BYTES):
        yield view[start : start + _CHUNK_BYTES]  # type: ignore[misc]


async def _again(call: Callable[[], Awaitable[_T]]) -> _T:
    """Make a call that may be made again, with a pause that grows, where the bucket cannot be reached."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return await call()
        except UpstreamError:
            if attempt == _ATTEMPTS:
                raise
            await asyncio.sleep(_pause_s(attempt))
    raise AssertionError("unreachable")


def _pause_s(attempt: int) -> float:
    return _PAUSE_S * float(2**attempt) * random.uniform(0.5, 1)  # noqa: S311 - jitter


async def _error(answer: aiohttp.ClientResponse) -> Exception:
    text = await answer.content.read(_ERROR_BYTES)
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - the bucket's own answer, bounded
        fields = {child.tag: child.text or "" for child in root if child.tag[:1].isupper()}
    except ElementTree.ParseError:
        fields = {}
    code, message = fields.pop("Code", ""), fields.pop("Message", "")
    for name in _OF_THE_ANSWER:
        fields.pop(name, None)
    if answer.status >= 500 or is_own_fault(code):
        return UpstreamError(
            f"{answer.method} {answer.url.path}: the bucket answered {answer.status} {code}: {message}"
        )
    return S3Error(
        code or code_of_status(answer.status),
        message or None,
        status=answer.status,
        headers=error_headers(answer.headers),
        **fields,
    )
