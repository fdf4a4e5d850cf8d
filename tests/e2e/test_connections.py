"""Where each connection to the bucket has little bandwidth, one client's stream takes several of them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from s4weights.proxy.config import Settings
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.bucket import BucketUpstream
from tests.e2e.conftest import BUCKET
from tests.proxy.objects.conftest import MIB, body, read_all, safetensors
from tests.shaping_relay import ShapingRelay

BYTES_PER_S = 20e6


@contextlib.asynccontextmanager
async def layer(endpoint: str, state: Path) -> AsyncIterator[Objects]:
    upstream = BucketUpstream(endpoint=endpoint)
    await upstream.start()
    if BUCKET not in [bucket.name for bucket in await upstream.list_buckets()]:
        await upstream.create_bucket(BUCKET)
    objects = Objects(upstream, Settings(upstream=endpoint, state_dir=state, part_bytes=5 * MIB), Metrics())
    await objects.start()
    yield objects
    await objects.close()
    await upstream.close()


@pytest.mark.e2e
async def test_a_stream_in_and_a_stream_out_take_several_connections(seaweedfs, monkeypatch, tmp_path):
    for name, value in seaweedfs.environment().items():
        monkeypatch.setenv(name, value)
    url = urlsplit(seaweedfs.endpoint)
    data = safetensors(np.random.default_rng(0).normal(0, 0.02, 20 * MIB))
    most: list[int] = []
    for work in ("write", "read"):
        relay = ShapingRelay((url.hostname or "", url.port or 0), BYTES_PER_S)
        async with relay.listening() as endpoint, layer(endpoint, tmp_path / work) as objects:
            if work == "write":
                await objects.put(BUCKET, "k", body(data), len(data), {})
            else:
                assert await read_all(objects, "k") == data
            most.append(relay.most_at_once)
    assert min(most) >= 3


async def test_the_relay_gives_a_connection_no_more_than_its_bandwidth():
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    relay = ShapingRelay(server.sockets[0].getsockname()[:2], 4e6)
    data = bytes(range(256)) * 8192
    async with server, relay.listening() as endpoint:
        started = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(endpoint).port)
        writer.write(data)
        writer.write_eof()
        assert await reader.read() == data
        assert time.monotonic() - started > 0.8 * len(data) / 4e6
        writer.close()
    assert relay.connections == 1
