"""The relay that benchmarks and tests measure behind: a connection never carries more than it says."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest

from tests.shaping_relay import ShapingRelay

BYTES_PER_S = 20e6
BYTES = 16_000_000


def pour(source: socket.socket) -> None:
    source.sendall(bytes(BYTES))
    source.shutdown(socket.SHUT_WR)


def seconds_of(sink: socket.socket) -> float:
    """Until all of it is there."""
    target = bytearray(1 << 20)
    began_s, seen = time.perf_counter(), 0
    while count := sink.recv_into(target):
        seen += count
    assert seen == BYTES
    return time.perf_counter() - began_s


async def carried(bytes_per_s: float, towards: str) -> float:
    """Bytes a second of one connection, sent towards "server" or "client"."""

    def carry(endpoint: str) -> float:
        with socket.create_connection(("127.0.0.1", urlsplit(endpoint).port or 0)) as client, server.accept()[0] as far:
            source, sink = (client, far) if towards == "server" else (far, client)
            pouring = threading.Thread(target=pour, args=(source,))
            pouring.start()
            seconds = seconds_of(sink)
            pouring.join()
            return BYTES / seconds

    with socket.create_server(("127.0.0.1", 0)) as server:
        relay = ShapingRelay(server.getsockname()[:2], bytes_per_s)
        async with relay.listening() as endpoint:
            return await asyncio.to_thread(carry, endpoint)


@pytest.mark.parametrize("towards", ["server", "client"])
async def test_a_connection_carries_no_more_than_its_rate_either_way(towards: str) -> None:
    # A busy machine carries less, never more; what it carries unbounded shows that the bound is the relay's.
    assert await carried(BYTES_PER_S, towards) <= 1.1 * BYTES_PER_S < await carried(100 * BYTES_PER_S, towards)


async def test_a_relay_that_ends_cuts_what_is_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with ShapingRelay(server.getsockname()[:2], BYTES_PER_S).listening() as endpoint:
            client = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", urlsplit(endpoint).port or 0))
            far, _ = await asyncio.to_thread(server.accept)
        with client, far:
            assert client.recv(1) == b""
            assert far.recv(1) == b""
