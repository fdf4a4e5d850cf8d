"""aiohttp's server with what S3 needs beyond it: answers after a half-close, bodies as they came."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from s4weights.proxy.errors import S3Error
from s4weights.proxy.logs import new_request_id, request_id

from .xml import error_document

_log = logging.getLogger(__name__)
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# iter_any() then gives pieces of up to this, and the socket is not read beyond it.
_READ_BYTES: Final = 1 << 20
# A key of 1,024 bytes percent-encoded, with a presigned query and a session token.
_MAX_LINE_BYTES: Final = 32 << 10
_MAX_FIELD_BYTES: Final = 16 << 10
_MAX_HEADERS: Final = 256
# All of a head; S3 itself takes 8 KiB. A head that is larger still is not even read to its end.
_MAX_HEAD_BYTES: Final = 64 << 10
_MAX_UNREAD_HEAD_BYTES: Final = 512 << 10
# After an error the rest of a body is read so long, so that the client sees the answer instead of a reset.
_LINGER_S: Final = 5.0


class _Protocol(RequestHandler):
    """A client that shuts down its sending side, even within a body, still gets an answer; a head has an end."""

    _newest_body: StreamReader | None = None
    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        known = self._request_count
        self._take(data)
        if self._request_count != known or not self._is_between_bodies():
            self._head_bytes = 0
            return
        self._head_bytes += len(data)
        if self._head_bytes > _MAX_UNREAD_HEAD_BYTES:
            _log.warning("a request whose head does not end is cut off")
            self.force_close()

    def _is_between_bodies(self) -> bool:
        return self._newest_body is None or self._newest_body.is_eof()

    def _take(self, data: bytes) -> None:
        body, closing = self._newest_body, (self._close, self._force_close)
        if any(closing) and body is not None and not body.is_eof():
            # While it drains aiohttp waits for requests under way, but drops what their bodies still lack.
            self._close = self._force_close = False
            super().data_received(data)
            self._close |= closing[0]
            self._force_close |= closing[1]
            return
        super().data_received(data)
        if self._messages:
            # Remembered here: between the queue and its handler a request is nowhere to be found.
            self._newest_body = self._messages[-1][1]

    def eof_received(self) -> bool | None:  # type: ignore[override]
        body = self._newest_body
        if body is not None and not body.is_eof():
            # The body ends here; whoever reads it sees that it is short.
            body.feed_eof()
        elif self._is_idle():
            return None
        self.close()  # once the answer is out
        return self.ssl_context is None  # TLS has no half-close

    def _is_idle(self) -> bool:
        """Whether no request is queued, between queue and handler, or with it."""
        return self._request_count == 0 or (self._waiter is not None and not self._waiter.done())

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what never reached the handler, or broke it, as S3 does."""
        if isinstance(exc, ConnectionError):
            raise exc  # the client is gone
        identity = new_request_id()
        request_id.set(identity)
        if isinstance(exc, HttpProcessingError):
            # aiohttp would log the line that it could not read, and that may be a signature.
            _log.warning("a request from %s cannot be read: %s", request.remote, type(exc).__name__)
            error = _unreadable(exc)
        else:
            _log.error("a request from %s failed", request.remote, exc_info=exc)
            error = S3Error("InternalError")
        if request.writer.output_size > 0:
            raise ConnectionResetError("response broken off")
        response = web.Response(
            status=error.status,
            body=error_document(error, resource="", request_id=identity, host_id=""),
            headers={"Content-Type": "application/xml", "Server": "s4weights", "x-amz-request-id": identity},
        )
        response.force_close()
        return response


def _unreadable(fault: HttpProcessingError) -> S3Error:
    if isinstance(fault, LineTooLong):
        return _head_too_large()
    return S3Error("BadRequest", "An error occurred when parsing the HTTP request.", status=400)


class S3Server(web.Server):
    """Speaks HTTP for a handler that does everything itself, 100-continue included."""

    def __init__(self, handler: Handler, *, header_timeout_s: float) -> None:
        """header_timeout_s: for the head of a request, from the start of a connection or the end of the answer before."""
        super().__init__(handler)
        self._header_timeout_s = header_timeout_s

    def __call__(self) -> RequestHandler:
        options: dict[str, Any] = {
            "access_log": None,
            "keepalive_timeout": self._header_timeout_s,
            "lingering_time": _LINGER_S,
            "max_line_size": _MAX_LINE_BYTES,
            "max_field_size": _MAX_FIELD_BYTES,
            "max_headers": _MAX_HEADERS,
            "read_bufsize": _READ_BYTES,
            # Content-Encoding is the object's, not the transfer's.
            "auto_decompress": False,
        }
        return _Protocol(self, loop=self._loop, **options)


def check_head(request: web.BaseRequest) -> None:
    """What the parser lets pass. Raises: S3Error RequestHeaderSectionTooLarge, NotImplemented."""
    size = len(request.raw_path) + sum(len(name) + len(value) for name, value in request.raw_headers)
    if size > _MAX_HEAD_BYTES:
        raise _head_too_large()
    encoding = request.headers.get("Transfer-Encoding", "chunked")
    if encoding.strip().lower() != "chunked":
        raise S3Error(
            "NotImplemented", "A transfer encoding other than chunked is not supported.", Header="Transfer-Encoding"
        )


def _head_too_large() -> S3Error:
    return S3Error("RequestHeaderSectionTooLarge", "Your request header section is too large.", status=400)


async def send_continue(request: web.BaseRequest) -> None:
    """Answer `Expect: 100-continue`; called when nothing stands against the request any more."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.version >= HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # Nothing of the answer itself is out yet.
        request.writer.output_size = 0
