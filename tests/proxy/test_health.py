"""The health port: alive at once, ready while the bucket answers, counts and totals."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import aiohttp
import numpy as np
import pytest
from aiohttp.test_utils import TestClient, TestServer

from s4weights.codec.errors import EngineUnavailable
from s4weights.codec.gpu import usable
from s4weights.proxy import app
from s4weights.proxy.app import running
from s4weights.proxy.config import Settings
from s4weights.proxy.health import Health
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.directory import DirectoryUpstream
from s4weights.version import __version__
from tests.proxy.objects.conftest import safetensors


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "buckets" / "training").mkdir(parents=True)
    return Settings(
        upstream=str(tmp_path / "buckets"),
        state_dir=tmp_path / "state",
        listen="127.0.0.1:0",
        health="127.0.0.1:0",
        access_key="AKIATEST",
        secret_key="secret",
    )


@pytest.fixture
async def health(settings):
    """A health port whose S3 port opens, and closes, when the test says so: (health, objects, ask)."""
    upstream = DirectoryUpstream(Path(settings.upstream))
    await upstream.start()
    objects = Objects(upstream, settings, Metrics())
    await objects.start()
    health = Health(objects.store.metrics)
    async with TestClient(TestServer(health.app())) as client:

        async def ask(path):
            answer = await client.get(path)
            return answer.status, await answer.text()

        yield health, objects, ask
    await objects.close()
    await upstream.close()


async def test_alive_from_the_start_and_ready_only_while_s3_is_served(health):
    health, objects, ask = health
    assert await ask("/healthz") == (200, "ok\n")
    assert await ask("/readyz") == (503, "the S3 port is not open\n")
    health.serve(objects)
    assert await ask("/readyz") == (200, "ready\n")
    health.drain()
    assert (await ask("/readyz"))[0] == 503
    assert await ask("/healthz") == (200, "ok\n")


async def test_alive_while_a_device_is_proved(settings, monkeypatch):
    proving, go_on = threading.Event(), threading.Event()

    def shared_engine(*_):
        proving.set()
        assert go_on.wait(10)
        raise EngineUnavailable("gpu: none")

    monkeypatch.setattr(usable, "may_be_usable", lambda: True)
    monkeypatch.setattr(usable, "shared_engine", shared_engine)
    monkeypatch.setattr(app, "Health", lambda metrics: shown.append(Health(metrics)) or shown[0])
    shown = []

    async def serve():
        async with app.running(replace(settings, engine="auto")):
            return True

    starting = asyncio.create_task(serve())
    try:
        assert await asyncio.to_thread(proving.wait, 8)
        # The loop runs: what the health port gives out is asked of it.
        async with asyncio.timeout(2), TestClient(TestServer(shown[0].app())) as client:
            assert (await client.get("/healthz")).status == 200
            assert (await client.get("/readyz")).status == 503
        assert not starting.done()
    finally:
        go_on.set()
    assert await starting


async def test_not_ready_while_the_upstream_is_gone(health, settings):
    health, objects, ask = health
    health.serve(objects)
    shutil.rmtree(os.path.join(settings.upstream, ".s4weights"))
    assert await ask("/readyz") == (503, f"{objects.store.upstream.name}: cannot be written\n")
    assert await ask("/healthz") == (200, "ok\n")


async def test_probes_ask_the_upstream_once_in_five_seconds(health, settings):
    health, objects, ask = health
    health.serve(objects)
    assert (await ask("/readyz"))[0] == 200
    shutil.rmtree(os.path.join(settings.upstream, ".s4weights"))
    assert (await ask("/readyz"))[0] == 200


async def test_status_and_metrics_count_what_was_written(settings):
    body = safetensors(np.random.default_rng(0).normal(0, 0.02, 1 << 20))
    settings = Settings(
        upstream=settings.upstream, state_dir=settings.state_dir, listen=settings.listen, health=settings.health
    )
    async with running(settings) as service, aiohttp.ClientSession() as session:
        for key in ("a", "b"):
            async with session.put(f"{service.endpoint}/training/{key}", data=io.BytesIO(body)) as answer:
                assert answer.status == 200, await answer.text()
        async with session.get(f"{service.endpoint}/training/missing") as answer:
            assert answer.status == 404
        port = f"http://127.0.0.1:{service.health_port}"
        async with session.get(f"{port}/status") as answer:
            status = await answer.json()
        async with session.get(f"{port}/metrics") as answer:
            lines = [line.rpartition(" ") for line in (await answer.text()).splitlines() if line[0] != "#"]
    assert (status["version"], status["ready"], status["objects_written"]) == (__version__, True, 2)
    assert status["logical_bytes_written"] == 2 * len(body)
    assert status["ratio"] == pytest.approx(2 * len(body) / status["stored_bytes_written"], abs=1e-3)
    assert status["ratio"] > 1.2
    assert (status["memory_bytes"], status["memory_used_bytes"]) == (settings.memory_bytes, 0)
    counts = {name: float(value) for name, _, value in lines}
    assert counts['s4weights_logical_bytes_written_total{kind="safetensors"}'] == 2 * len(body)
    assert counts['s4weights_request_seconds_count{operation="PutObject",status="200"}'] == 2
    assert counts['s4weights_request_seconds_count{operation="GetObject",status="404"}'] == 1
    assert counts["s4weights_requests_in_flight"] == 0


def test_two_services_do_not_share_counts():
    first, second = Metrics(), Metrics()
    first.object_written(100, 50, "safetensors")
    first.frame_fallback()
    assert (first.totals.logical_bytes, first.totals.stored_bytes, first.totals.fallbacks) == (100, 50, 1)
    assert (second.totals.objects, second.totals.fallbacks) == (0, 0)
    assert b's4weights_objects_written_total{kind="safetensors"} 1.0' in first.render()
    assert b's4weights_objects_written_total{kind="safetensors"}' not in second.render()
