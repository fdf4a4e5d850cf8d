"""Bytes on the wire, just as an attacker would send them."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from dataclasses import dataclass

from tests.proxy.handlers.conftest import Service

WAIT_S = 20.0
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n")


@dataclass(frozen=True)
class Exchange:
    """Everything that came back until the server closed. statuses: of every answer in it."""

    data: bytes

    @property
    def statuses(self) -> list[int]:
        return [int(match[1]) for match in _STATUS.finditer(self.data)]

    def header(self, name: str) -> str | None:
        """Of the first answer."""
        match = _STATUS.search(self.data)
        lines = match[2].decode("latin-1").split("\r\n") if match else []
        found = [line.partition(":")[2].strip() for line in lines if line.lower().startswith(f"{name}:")]
        return found[0] if found else None

    @property
    def code(self) -> str | None:
        match = re.search(rb"<Code>(\w+)</Code>", self.data)
        return match[1].decode() if match else None


async def exchange(service: Service, *pieces: bytes, pause_s: float = 0.0, half_close: bool = False) -> Exchange:
    """Send pieces and read to the end; what the server no longer takes is not sent."""

    def work() -> bytes:
        with socket.create_connection(("127.0.0.1", service.running.port), timeout=WAIT_S) as wire:
            received = bytearray()
            try:
                for number, piece in enumerate(pieces):
                    if number and pause_s:
                        wire.settimeout(pause_s)
                        with contextlib.suppress(TimeoutError):
                            received += wire.recv(1 << 16)
                        wire.settimeout(WAIT_S)
                    wire.sendall(piece)
                if half_close:
                    wire.shutdown(socket.SHUT_WR)
                while more := wire.recv(1 << 16):
                    received += more
            except ConnectionError:
                pass
            return bytes(received)

    return Exchange(await asyncio.to_thread(work))


def request(service: Service, method: str, path: str, *lines: bytes, body: bytes = b"", version: str = "1.1") -> bytes:
    """A request with a right Host and the given header lines."""
    host = service.endpoint.removeprefix("http://").encode()
    head = [f"{method} {path} HTTP/{version}".encode(), b"Host: " + host, *lines]
    return b"\r\n".join(head) + b"\r\n\r\n" + body
