"""Stand-ins for AWS that speak real HTTP: the metadata services, and the metering service behind TLS."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding

from tests.proxy.entitlement.keys import certificate, private_pem, rsa_key

TOKEN = "AQAEAA-token=="
DROP = object()
"""An answer: the connection ends without one."""


class Handler(BaseHTTPRequestHandler):
    """Answers that a function makes: (status, body), or DROP."""

    protocol_version = "HTTP/1.1"
    answer: Callable[[BaseHTTPRequestHandler, bytes], Any]

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        made = type(self).answer(self, body)
        if made is DROP:
            self.close_connection = True
            return
        status, content = made
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_POST = _answer

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Metadata:
    """169.254.169.254 and 169.254.170.2. pages: by path below the address; a float delays them all."""

    pages: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    token_status: int = 200

    def answer(self, request: BaseHTTPRequestHandler, _: bytes) -> Any:
        time.sleep(self.delay_s)
        if request.command == "PUT":
            assert request.path == "/latest/api/token"
            assert int(request.headers["X-aws-ec2-metadata-token-ttl-seconds"]) > 0
            return self.token_status, TOKEN.encode()
        if request.path.startswith("/latest/") and request.headers["X-aws-ec2-metadata-token"] != TOKEN:
            return 401, b"version 1 is not spoken here"
        page = self.pages.get(request.path)
        return (404, b"") if page is None else (200, page.encode())

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        with serving(type("MetadataHandler", (Handler,), {"answer": staticmethod(self.answer)})) as address:
            yield address


class Metering:
    """An HTTP proxy that ends TLS itself, as metering.marketplace.REGION.amazonaws.com for whoever trusts the test's CA.

    answers: one a call, the last for ever; each takes the call's fields. asked: hosts and fields, in their order.
    """

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.hosts: list[str] = []
        self.asked: list[dict[str, Any]] = []

    def answer(self, fields: dict[str, Any]) -> Any:
        self.asked.append(fields)
        one = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return one(fields) if callable(one) else one

    @contextlib.contextmanager
    def serving(self, folder: Path, *regions: str) -> Iterator[str]:
        """The proxy's address; `folder/ca.pem` is what to trust."""
        context = server_context(folder, *(f"metering.marketplace.{one}.amazonaws.com" for one in regions))
        stub = self

        class Tunnel(Handler):
            @staticmethod
            def answer(request: BaseHTTPRequestHandler, body: bytes) -> Any:
                assert request.headers["X-Amz-Target"] == "AWSMPMeteringService.RegisterUsage"
                assert "/aws-marketplace/aws4_request" in request.headers["Authorization"]
                return stub.answer(json.loads(body))

            def do_CONNECT(self) -> None:
                stub.hosts.append(self.path)
                self.wfile.write(b"HTTP/1.1 200 ok\r\n\r\n")
                with contextlib.suppress(OSError):
                    wire = context.wrap_socket(self.connection, server_side=True)
                    self.rfile, self.wfile = wire.makefile("rb"), wire.makefile("wb", buffering=0)
                    self.handle_one_request()
                    with contextlib.suppress(OSError):
                        wire.unwrap()
                    wire.close()
                self.close_connection = True

        with serving(Tunnel) as address:
            yield address


def server_context(folder: Path, *hosts: str) -> ssl.SSLContext:
    """TLS for these hosts; `folder/ca.pem` is what a client must trust."""
    chain, key = folder / "ca.pem", folder / "tls.key"
    chain.write_bytes(certificate("tls", *hosts).public_bytes(Encoding.PEM))
    key.write_bytes(private_pem(rsa_key("tls")))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    return context


def fault(code: str, status: int = 400) -> tuple[int, bytes]:
    """An error as services of this protocol write it."""
    return status, json.dumps({"__type": code, "message": f"as told: {code}"}).encode()
