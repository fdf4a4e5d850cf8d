"""The proxy on a device that is none: bodies there and back, faults and the switch-off in metrics, and nothing lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from s4weights.codec.errors import EngineUnavailable
from s4weights.codec.gpu import usable
from s4weights.codec.gpu.engine import GpuEngine
from s4weights.codec.gpu.slots import RingSize
from s4weights.proxy.engine_metrics import engine_in_use
from s4weights.proxy.limits import BASES_OF_A_FRAME_BYTES
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.directory import DirectoryUpstream
from tests.codec.gpu.fake import FakeDevice, Faults, raising
from tests.proxy.objects.conftest import BUCKET, MIB, body, read_all


@pytest.fixture
def opened(settings, monkeypatch):
    """Objects whose engine works on a fake device with these faults."""

    def make(faults=None):
        engine = GpuEngine(FakeDevice(faults), RingSize(3, 4 * MIB))
        asked = []
        monkeypatch.setattr(usable, "shared_engine", lambda *options: asked.append(options) or engine)
        Path(settings.upstream).mkdir()
        upstream = DirectoryUpstream(Path(settings.upstream))
        return engine, Objects(upstream, replace(settings, engine="gpu", gpu_memory_bytes=1 << 28), Metrics()), asked

    return make


async def there_and_back(objects, weights, count=3):
    await objects.store.upstream.start()
    await objects.start()
    await objects.store.upstream.create_bucket(BUCKET)
    bodies = {f"run-{n}.safetensors": weights(7 * MIB + 12_345 * n, seed=n) for n in range(count)}
    try:
        await asyncio.gather(*(objects.put(BUCKET, key, body(data), len(data), {}) for key, data in bodies.items()))
        for key, data in bodies.items():
            assert await read_all(objects, key) == data
            assert await read_all(objects, key, 3 * MIB + 5, 1000) == data[3 * MIB + 5 : 3 * MIB + 1005]
        return objects.store.metrics.render().decode()
    finally:
        await objects.close()
        await objects.store.upstream.close()


def values(text):
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in text.splitlines() if line[0] != "#")
    }


async def test_bodies_go_through_the_device_and_back(opened, weights):
    engine, objects, asked = opened()
    found = values(await there_and_back(objects, weights))
    assert asked == [(1 << 28, "open")]
    assert found['s4weights_engine{engine="gpu"}'] == 1
    assert found["s4weights_device_off"] == found["s4weights_device_faults_total"] == 0
    assert found["s4weights_device_frames_total"] == engine.counts.frames > 2 * 3 * 7 - 7
    # Several at once, or the device would be of no use.
    assert found["s4weights_device_batches_total"] < found["s4weights_device_frames_total"]
    assert found["s4weights_frame_fallbacks_total"] == 0
    engine.close()


async def test_a_device_that_fails_costs_no_body_and_shows(opened, weights):
    faults = Faults(
        encode={0: raising(RuntimeError("launch")), 2: raising(MemoryError())},
        wrong_payload={1},
        wrong_decode={9, 10, 11},
    )
    engine, objects, _ = opened(faults)
    found = values(await there_and_back(objects, weights))
    assert found["s4weights_device_faults_total"] == engine.counts.faults >= 3
    assert found["s4weights_device_fallback_frames_total"] == engine.counts.fallbacks > 0
    assert found["s4weights_device_off"] == 1
    assert found['s4weights_engine{engine="native"}'] == 1
    assert engine_in_use(engine) == "native"
    # The container's own verification never failed.
    assert found["s4weights_frame_fallbacks_total"] == 0
    engine.close()


def test_a_device_engine_has_threads_for_its_batches(opened, settings):
    engine, objects, _ = opened()
    pool = objects.store.pool
    assert pool.frames_ahead == engine.frames_at_once == 8
    assert pool._executor._max_workers >= 8
    plain = Objects(
        DirectoryUpstream(Path(settings.upstream)), replace(settings, engine="native", threads=2), Metrics()
    )
    assert plain.store.pool.frames_ahead == 2
    # Frames beyond the six that every body is given room for, and the bases that each may be tried against.
    more_bytes = 2 * 2 * MIB + (8 - 2) * BASES_OF_A_FRAME_BYTES
    assert objects.store.write_hold_bytes - plain.store.write_hold_bytes == more_bytes


def test_a_gpu_that_is_asked_for_and_not_there_is_no_proxy(settings):
    with pytest.raises(EngineUnavailable, match="^gpu: "):
        Objects(DirectoryUpstream(Path(settings.upstream)), replace(settings, engine="gpu"), Metrics())
