"""Stored parts for which the bucket could not be reached: what they hold, and when they are sent again."""

from __future__ import annotations

import gc
import os
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects.objects import Objects

from .conftest import BUCKET, MIB, assert_nothing_left, body, directory_with_bucket, read_all
from .faulty import FaultyUpstream

PART = 8 * MIB


class CountedUpstream(FaultyUpstream):
    """Counts the parts that were sent to it."""

    sends = 0
    refuses_parts = False

    async def put_part(self, *arguments, **options):
        self.sends += 1
        if self.refuses_parts:
            raise S3Error("AccessDenied")
        return await super().put_part(*arguments, **options)


@pytest.fixture
async def upstream(tmp_path: Path) -> AsyncIterator[CountedUpstream]:
    async with directory_with_bucket(CountedUpstream, tmp_path) as directory:
        yield directory


@pytest.fixture
async def objects(upstream, settings) -> AsyncIterator[Objects]:
    layer = Objects(upstream, settings, Metrics())
    await layer.start()
    yield layer
    await layer.close()


def spilled(objects: Objects) -> list[Path]:
    return list(objects.store.journal.spill_dir.iterdir())


async def failed_writer(objects: Objects, upstream: CountedUpstream, parts: int = 3):
    """A writer whose parts all failed, the upload itself being there."""
    writer = objects.store.writer((BUCKET, "k"), {}, resumes=True)
    upstream.fails = lambda: upstream.sends > 0
    for number in range(parts):
        await writer.write(bytes([number]) * PART)
    await writer.settle()
    return writer


async def test_parts_that_failed_are_on_disk_and_not_in_memory(objects, upstream):
    tracemalloc.start()
    try:
        writer = await failed_writer(objects, upstream)
        gc.collect()
        assert len(spilled(objects)) == 3
        assert tracemalloc.get_traced_memory()[0] < PART
    finally:
        tracemalloc.stop()
    await writer.abort()
    await assert_nothing_left(objects, upstream)


async def test_a_part_that_failed_is_sent_again_when_it_is_asked_for_only(objects, upstream, caplog):
    writer = await failed_writer(objects, upstream)
    sends = upstream.sends
    for _ in range(20):
        await writer.write(b"x")
    assert upstream.sends == sends
    with pytest.raises(UpstreamError):
        await writer.finish()
    for tries in (1, 2):
        with pytest.raises(UpstreamError):
            await writer.resume()
        assert upstream.sends == sends + 3 * tries
    upstream.fails = lambda: False
    await writer.resume()
    assert spilled(objects) == []
    await writer.finish()
    gc.collect()
    assert [record for record in caplog.records if record.name == "asyncio"] == []
    found = await upstream.get(BUCKET, "k")
    stored = b"".join([chunk async for chunk in found.chunks])
    assert stored == b"".join(bytes([number]) * PART for number in range(3)) + b"x" * 20


async def test_a_disk_that_fills_between_two_tries_costs_no_part(objects, upstream):
    writer = await failed_writer(objects, upstream, 1)

    def full() -> Path:
        raise OSError("no space left")

    objects.store.journal.new_spill_file = full
    with pytest.raises(UpstreamError):
        await writer.resume()
    upstream.fails = lambda: False
    await writer.resume()
    await writer.finish()
    assert (await upstream.head(BUCKET, "k")).size == PART


async def test_a_put_keeps_nothing_of_a_part_that_failed(objects, upstream, weights):
    data = weights(48 * MIB)
    upstream.fails = lambda: upstream.sends > 0
    made: list[Path] = []
    new_spill_file = objects.store.journal.new_spill_file
    objects.store.journal.new_spill_file = lambda: made.append(new_spill_file()) or made[-1]
    with pytest.raises(UpstreamError):
        await objects.put(BUCKET, "k", body(data), len(data), {})
    assert made == []
    await assert_nothing_left(objects, upstream)


async def begun(objects: Objects, data: bytes):
    upload_id = await objects.uploads.create(BUCKET, "k", {})
    return upload_id, await objects.uploads.put_part(BUCKET, "k", upload_id, 1, body(data), len(data))


async def test_an_upload_takes_no_more_while_the_bucket_is_out_of_reach(objects, upstream, weights):
    data = weights(48 * MIB)
    upload_id, part = await begun(objects, data)
    upstream.fails = lambda: True
    held = []
    for _ in range(20):
        with pytest.raises(UpstreamError):
            await objects.complete(BUCKET, "k", upload_id, [part], None)
        upload = objects.uploads.find(BUCKET, "k", upload_id)
        held.append((upload._fed_bytes, upload._writer._pending_bytes, len(upload._encoder._planned)))
    assert held[1:] == held[:-1]
    upstream.fails = lambda: False
    await objects.complete(BUCKET, "k", upload_id, [part], None)
    assert await read_all(objects, "k") == data


async def test_a_part_that_the_bucket_refuses_ends_the_upload(objects, upstream, weights):
    data = weights(48 * MIB)
    upload_id, part = await begun(objects, data)
    upstream.refuses_parts = True
    with pytest.raises(S3Error, match="AccessDenied"):
        await objects.complete(BUCKET, "k", upload_id, [part], None)
    upstream.refuses_parts = False
    with pytest.raises(S3Error, match="AccessDenied"):
        await objects.complete(BUCKET, "k", upload_id, [part], None)
    await objects.uploads.abort(BUCKET, "k", upload_id)
    await assert_nothing_left(objects, upstream)


async def test_what_passes_through_goes_on_where_a_part_failed(objects, upstream):
    data = os.urandom(20 * MIB)
    upload_id, _ = await begun(objects, data[:PART])
    upstream.fails = lambda: True
    with pytest.raises(UpstreamError):
        await objects.uploads.put_part(BUCKET, "k", upload_id, 2, body(data[PART:]), len(data) - PART)
    upstream.fails = lambda: False
    await objects.uploads.put_part(BUCKET, "k", upload_id, 2, body(data[PART:]), len(data) - PART)
    listed = objects.uploads.list_parts(BUCKET, "k", upload_id)
    await objects.complete(BUCKET, "k", upload_id, listed, None)
    assert await read_all(objects, "k") == data
