"""An upload's parts go out while the next ones come in; what they hold is given back however that ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from s4weights.proxy.errors import UpstreamError
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects import upload as uploading
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.directory import DirectoryUpstream
from s4weights.proxy.upstream.protocol import Part

from .conftest import BUCKET, MIB, body, directory_with_bucket, read_all

PART = 8 * MIB


class HeldUpstream(DirectoryUpstream):
    """Parts wait at a gate, or fail behind it."""

    gate: asyncio.Event
    on_their_way = 0
    fails = False

    async def put_part(self, *arguments, **options) -> Part:
        self.on_their_way += 1
        await self.gate.wait()
        self.on_their_way -= 1
        if self.fails:
            raise UpstreamError("no answer")
        return await super().put_part(*arguments, **options)


@pytest.fixture
async def upstream(tmp_path: Path) -> AsyncIterator[HeldUpstream]:
    async with directory_with_bucket(HeldUpstream, tmp_path) as directory:
        directory.gate = asyncio.Event()
        yield directory


@pytest.fixture
async def objects(upstream, settings, monkeypatch) -> AsyncIterator[Objects]:
    monkeypatch.setattr(uploading, "SETTLE_BYTES", PART)
    layer = Objects(upstream, settings, Metrics())
    await layer.start()
    yield layer
    await layer.close()


@pytest.fixture(scope="module")
def checkpoint(weights) -> bytes:
    return weights(40 * MIB)


async def send_parts(objects: Objects, upload_id: str, data: bytes) -> list[Part]:
    return [
        await objects.uploads.put_part(
            BUCKET, "k", upload_id, number, body(data[at : at + PART]), len(data[at:][:PART])
        )
        for number, at in enumerate(range(0, len(data), PART), 1)
    ]


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - of counters
            await asyncio.sleep(0.01)


async def test_the_next_part_need_not_wait_until_those_before_are_in_the_bucket(objects, upstream, checkpoint):
    upload_id = await objects.uploads.create(BUCKET, "k", {})
    sent = await send_parts(objects, upload_id, checkpoint)
    await until(lambda: upstream.on_their_way >= 2)
    assert objects.store.writes.used_bytes == objects.store.write_hold_bytes
    upstream.gate.set()
    await until(lambda: objects.store.writes.used_bytes == objects.store.settings.part_bytes)
    await objects.complete(BUCKET, "k", upload_id, sent, None)
    assert await read_all(objects, "k") == checkpoint
    assert objects.store.writes.used_bytes == 0


async def test_an_upload_gives_way_once_its_parts_have_arrived(objects, upstream, checkpoint):
    writes = objects.store.writes
    upload_id = await objects.uploads.create(BUCKET, "k", {})
    sent = await send_parts(objects, upload_id, checkpoint)
    other = asyncio.create_task(writes.acquire(writes.total_bytes))
    await asyncio.sleep(0.1)
    assert not other.done()
    upstream.gate.set()
    async with asyncio.timeout(30):
        await other
    completing = asyncio.create_task(objects.complete(BUCKET, "k", upload_id, sent, None))
    await asyncio.sleep(0.1)
    assert not completing.done()
    writes.release(writes.total_bytes)
    await completing
    assert await read_all(objects, "k") == checkpoint
    assert writes.used_bytes == 0


async def test_a_part_that_fails_on_its_way_is_never_acknowledged_as_an_object(objects, upstream, checkpoint):
    before = asyncio.all_tasks()
    upload_id = await objects.uploads.create(BUCKET, "k", {})
    sent = await send_parts(objects, upload_id, checkpoint)
    upstream.fails = True
    upstream.gate.set()
    with pytest.raises(UpstreamError):
        await objects.complete(BUCKET, "k", upload_id, sent, None)
    await objects.uploads.abort(BUCKET, "k", upload_id)
    await asyncio.sleep(0.05)
    assert asyncio.all_tasks() == before
    assert (objects.store.writes.used_bytes, objects.store.parts.used_bytes) == (0, 0)
    assert await upstream.list_uploads(BUCKET) == []


async def test_an_upload_that_is_aborted_with_parts_on_their_way_leaves_nothing_behind(objects, upstream, checkpoint):
    before = asyncio.all_tasks()
    upload_id = await objects.uploads.create(BUCKET, "k", {})
    await send_parts(objects, upload_id, checkpoint)
    await objects.uploads.abort(BUCKET, "k", upload_id)
    await asyncio.sleep(0.05)
    assert asyncio.all_tasks() == before
    assert (objects.store.writes.used_bytes, objects.store.parts.used_bytes) == (0, 0)
    assert await upstream.list_uploads(BUCKET) == []
