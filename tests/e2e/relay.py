"""A relay in front of a server that looks at whole requests, and may refuse them as S3 would and the server does not."""

from __future__ import annotations

from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final, Self
from urllib.parse import urlsplit

from tests.e2e.differential import Request

_DENIED: Final = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


class Relay(ThreadingHTTPServer):
    """Hands everything on to one server, for the length of a block."""

    daemon_threads = True

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server = urlsplit(endpoint).netloc

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def denies(self, request: Request) -> bool:
        """Whether it goes no further. request: its path as on the wire, its headers in lower case."""
        return False

    def answered(self, request: Request, status: int, content: bytes) -> None:
        """After each."""

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Relay

    def _relay(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, self._body())
        if self.server.denies(request):
            self._answer(403, [("content-type", "application/xml")], _DENIED)
            return
        wire = HTTPConnection(self.server.server, timeout=120)
        sent = {name: value for name, value in headers.items() if name not in ("transfer-encoding", "expect")}
        wire.request(self.command, self.path, request.body, {**sent, "content-length": str(len(request.body))})
        answer = wire.getresponse()
        content = answer.read()
        self.server.answered(request, answer.status, content)
        self._answer(answer.status, answer.getheaders(), content)
        wire.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        kept = [(name, value) for name, value in headers if name.lower() not in ("transfer-encoding", "connection")]
        for name, value in kept:
            self.send_header(name, value)
        if status not in (204, 304) and not any(name.lower() == "content-length" for name, _ in kept):
            self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else content)

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", "0")))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _relay
