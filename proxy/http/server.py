"""aiohttp's server with what S3 needs beyond it: answers after a half-close, bodies as they came."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web
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
# After an error the rest of a body is read so long, so that the client sees the answer instead of a reset.
_LINGER_S: Final = 5.0


class _Protocol(RequestHandler):
    """A client that sends less than it announced and then shuts down its sending side still gets an answer."""

    _newest_body: StreamReader | None = None

    def data_received(self, data: bytes) -> None:
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
        if body is None or body.is_eof():
            return None
        # The body ends here; whoever reads it sees that it is short.
        body.feed_eof()
        self.close()  # once the answer is out
        return self.ssl_context is None  # TLS has no half-close

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
        return S3Error("RequestHeaderSectionTooLarge", "Your request header section is too large.", status=400)
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


async def send_continue(request: web.BaseRequest) -> None:
    """Answer `Expect: 100-continue`; called when nothing stands against the request any more."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # Nothing of the answer itself is out yet.
        request.writer.output_size = 0
