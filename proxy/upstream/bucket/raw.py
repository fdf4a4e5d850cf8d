"""Signed requests whose bodies stream: bodies that cannot be sent twice, and calls that are passed on as they are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

import aiohttp
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from yarl import URL

from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.upstream.protocol import Body, Forwarded, SentChecksum

from .calls import Calls, Patience, pause_s
from .faults import CHANGED_ON_THE_WAY, error_headers, upstream_fault
from .framing import STREAMING, framed, framed_bytes, trailer_headers

_CHUNK_BYTES: Final = 1 << 20
_ERROR_BYTES: Final = 64 << 10
_CONNECT_S: Final = 10.0
_FORWARD_ATTEMPTS: Final = 4
_UNREACHABLE: Final = frozenset({500, 502, 503, 504})


class _UnsignedBody(S3SigV4Auth):  # type: ignore[misc]
    """Signs everything but the body, which is not known beforehand; TLS or a private network protects it."""

    def payload(self, request: AWSRequest) -> str:
        return "UNSIGNED-PAYLOAD"


class _TrailingBody(S3SigV4Auth):  # type: ignore[misc]
    """The same, with a checksum behind the body."""

    def payload(self, request: AWSRequest) -> str:
        return STREAMING


class RawClient:
    """One pool of connections beside botocore's."""

    def __init__(self, calls: Calls, credentials: Any, region: str, endpoint: str, connections: int) -> None:
        """credentials: aiobotocore's, refreshed as they age. endpoint: scheme, host and port."""
        self._circuit = calls.circuit
        self._patience = calls.patience
        self._credentials = credentials
        self._region = region
        self._endpoint = endpoint
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=calls.patience.silence_s),
            auto_decompress=False,
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
        path = f"/{quote(bucket, safe='-._~')}" + (f"/{quote(key, safe='/-._~')}" if key else "")
        source = _Watched(body, length, self._patience)
        if not length:
            # Nothing would ask the body for its end, where its checks are.
            await source.drain()
        chunks = source.chunks()
        if checksum is not None and (checksum.known or not length):
            headers = {**headers, checksum.header: checksum.value()}
        elif checksum is not None:
            headers = {**headers, **trailer_headers(checksum.header, length, headers)}
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

    async def forward(self, request: Forwarded) -> Forwarded:
        """Send a call as it is, and give its answer unread; again where it may be, and the bucket cannot be reached."""
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
                if answer.release is not None:
                    answer.release()
            await asyncio.sleep(pause_s(attempt, fault))
        raise AssertionError("unreachable")

    async def _forward_once(self, request: Forwarded) -> Forwarded:
        length = request.length or 0
        source = _Watched(request.body if request.body is not None else b"", length, self._patience)
        if not length:
            await source.drain()
        try:
            async with source.bounded():
                answer = await self._request(
                    request.method, request.path, request.query, request.headers, source.chunks(), length
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
            answer.close,
        )

    async def _request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: Body, length: int
    ) -> aiohttp.ClientResponse:
        url = f"{self._endpoint}{path}" + (f"?{query}" if query else "")
        signed = AWSRequest(method=method, url=url, headers={**headers, "host": urlsplit(self._endpoint).netloc})
        frozen = await self._credentials.get_frozen_credentials()
        signer = _TrailingBody if "x-amz-trailer" in headers else _UnsignedBody
        signer(frozen, "s3", self._region).add_auth(signed)
        sent = {**dict(signed.headers.items()), "Content-Length": str(length)}
        return await self._session.request(
            method,
            URL(url, encoded=True),
            data=body if length else None,
            headers=sent,
            allow_redirects=False,
        )


def _fault(what: str, error: Exception) -> UpstreamError:
    return UpstreamError(f"{what}: {type(error).__name__}: {str(error) or 'no answer in time'}")


class _Watched:
    """Remembers what a body raised, and raises itself where it ends early: a server would wait for the rest.

    aiohttp bounds how long an answer is waited for, but not how long a server may take no bytes: that is watched here, and
    rests while it is the client that keeps the body waiting.
    """

    def __init__(self, body: Body, length: int, patience: Patience) -> None:
        self._body = body
        self._length = length
        self._patience = patience
        self._bound: asyncio.Timeout | None = None
        self.fault: BaseException | None = None
        self.is_whole = False
        """Whether the body came to its end, and with it its checks."""

    @contextlib.asynccontextmanager
    async def bounded(self) -> AsyncIterator[None]:
        """The length of a request. Raises: TimeoutError where the server takes no more bytes, or gives no answer."""
        async with asyncio.timeout(None if self._length else self._patience.deadline_s()) as self._bound:
            yield

    def _expect(self, seconds: float | None) -> None:
        if self._bound is not None and not self._bound.expired():
            self._bound.reschedule(None if seconds is None else asyncio.get_running_loop().time() + seconds)

    def chunks(self) -> AsyncIterator[bytes]:
        return self._iterate(_slices(self._body) if isinstance(self._body, bytes) else self._body)

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
                self._expect(self._patience.silence_s)
                yield chunk
                self._expect(None)
            if seen != self._length:
                raise S3Error("IncompleteBody", f"Expected {self._length} bytes, found {seen}.")
            self.is_whole = True
            self._expect(self._patience.long_silence_s)
        except Exception as error:
            self.fault = error
            raise


async def _slices(body: bytes) -> AsyncIterator[bytes]:
    view = memoryview(body)
    for at in range(0, len(body), _CHUNK_BYTES):
        yield view[at : at + _CHUNK_BYTES]  # type: ignore[misc]  # as good as bytes to who sends them


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
            yield chunk
    except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
        raise UpstreamError(f"{answer.method} {answer.url.path}: {type(error).__name__}: {error}") from error
    finally:
        answer.close()


async def _error(answer: aiohttp.ClientResponse, sent: _Watched) -> Exception:
    text = await answer.content.read(_ERROR_BYTES)
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - the bucket's own answer, bounded
        code, message = root.findtext("Code") or "", root.findtext("Message") or ""
    except ElementTree.ParseError:
        code, message = "", ""
    what = f"{answer.method} {answer.url.path}"
    fault = upstream_fault(what, answer.status, code, message, answer.headers)
    if fault is not None:
        return fault
    if code in CHANGED_ON_THE_WAY and sent.is_whole:
        # What the client sent was compared here, so what the bucket got was changed behind us: the client may try again.
        return UpstreamError(f"{what}: what arrived is not what was sent: {code}: {message}")
    return S3Error(
        code or "InternalError", message or None, status=answer.status, headers=error_headers(answer.headers)
    )
