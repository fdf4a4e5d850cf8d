"""A client that falls silent holds memory that others wait for: it is given up."""

from __future__ import annotations

import asyncio
import os
import socket
import time

import pytest

from .conftest import BUCKET

MIB = 1 << 20


@pytest.mark.parametrize("service_settings", [{"body_timeout_s": 0.3}])
async def test_a_client_that_stops_sending_is_told_so(service):
    path = f"/{BUCKET}/k"
    headers = {**service.signed("PUT", path), "content-length": "1000"}
    status, _, document = await service.send("PUT", path, headers, b"x" * 999)
    assert (status, b"<Code>RequestTimeout</Code>" in document) == (400, True)
    assert service.stored() == []


@pytest.mark.parametrize("service_settings", [{"body_timeout_s": 1.0}])
async def test_a_slow_client_that_goes_on_is_not(service):
    path = service.presigned("PUT", f"/{BUCKET}/k")

    def send_slowly() -> bytes:
        with socket.create_connection(("127.0.0.1", service.running.port), timeout=20) as wire:
            host = service.endpoint.removeprefix("http://")
            wire.sendall(
                f"PUT {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 8\r\nConnection: close\r\n\r\n".encode()
            )
            for _ in range(8):
                time.sleep(0.25)
                wire.sendall(b"x")
            return wire.recv(1000)

    assert b" 200 " in (await asyncio.to_thread(send_slowly))[:20]


@pytest.mark.parametrize("service_settings", [{"send_timeout_s": 0.5}])
async def test_a_client_that_stops_reading_loses_its_connection(service):
    await service.call("put_object", Bucket=BUCKET, Key="big", Body=os.urandom(24 * MIB))
    path = service.presigned("GET", f"/{BUCKET}/big")

    def read_late() -> int:
        with socket.socket() as wire:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
            wire.settimeout(20)
            wire.connect(("127.0.0.1", service.running.port))
            wire.sendall(f"GET {path} HTTP/1.1\r\nHost: {service.endpoint.removeprefix('http://')}\r\n\r\n".encode())
            time.sleep(2)
            seen = 0
            while piece := wire.recv(1 << 20):
                seen += len(piece)
            return seen

    try:
        seen = await asyncio.to_thread(read_late)
    except ConnectionResetError:
        seen = 0
    assert seen < 24 * MIB


@pytest.mark.parametrize(
    "line", [b"Authorization: AWS4 Signature=hush\x00hush", b"X-Amz-Signature-hush hush", b"hush: hush\xff\x00"]
)
async def test_a_line_that_is_no_header_is_not_logged(service, caplog, line):
    def send() -> bytes:
        with socket.create_connection(("127.0.0.1", service.running.port), timeout=20) as wire:
            wire.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" + line + b"\r\n\r\n")
            return wire.recv(1000)

    assert b" 400 " in (await asyncio.to_thread(send))[:20]
    assert "hush" not in caplog.text
