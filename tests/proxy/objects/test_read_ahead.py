"""A read runs ahead of its client as far as memory allows, in order, and gives everything back however it ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from s4weights.codec.errors import FormatError
from s4weights.proxy.errors import S3Error
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects import frame_runs, read, read_ahead, stored_runs
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.directory import DirectoryUpstream
from s4weights.proxy.upstream.protocol import ByteRange, ObjectBody

from .conftest import BUCKET, MIB, body, directory_with_bucket, read_all

SIZE = 24 * MIB


class HeldUpstream(DirectoryUpstream):
    """Ranges wait at a gate, each its own; counts those that are open."""

    gates: dict[int, asyncio.Event] | None = None
    begun: set[int]
    open_bodies = 0
    most_at_once = 0

    async def get(self, *arguments, byte_range: ByteRange | None = None, **options) -> ObjectBody:
        answer = await super().get(*arguments, byte_range=byte_range, **options)
        if self.gates is None or byte_range is None or byte_range.first < 0:
            return answer
        self.open_bodies += 1
        self.most_at_once = max(self.most_at_once, self.open_bodies)
        self.begun.add(byte_range.first)
        release, chunks = answer.release, answer.chunks

        def released() -> None:
            self.open_bodies -= 1
            if release is not None:
                release()

        async def held() -> AsyncIterator[bytes]:
            assert self.gates is not None
            await self.gates.setdefault(byte_range.first, asyncio.Event()).wait()
            async for chunk in chunks:
                yield chunk

        answer.release, answer.chunks = released, held()
        return answer

    def hold(self) -> None:
        """From now on every range waits."""
        self.gates, self.begun = {}, set()

    def waiting(self) -> list[int]:
        """Where the ranges begin that are open and wait."""
        assert self.gates is not None
        return sorted(one for one in self.begun if one not in self.gates or not self.gates[one].is_set())

    async def let_through(self, *firsts: int) -> None:
        assert self.gates is not None
        for first in firsts:
            self.gates.setdefault(first, asyncio.Event()).set()
        await settled()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - of counters
            await asyncio.sleep(0.01)


async def settled() -> None:
    """Until nothing moves any more but what a gate holds."""
    for _ in range(20):
        await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def _small_runs(monkeypatch):
    for module in (frame_runs, read, read_ahead, stored_runs):
        monkeypatch.setattr(module, "READ_RUN_BYTES", 2 * MIB)
    monkeypatch.setattr(read_ahead, "READ_WINDOW_BYTES", 6 * MIB)
    monkeypatch.setattr(read_ahead, "READ_WINDOW_MAX_BYTES", 12 * MIB)


@pytest.fixture
async def upstream(tmp_path: Path) -> AsyncIterator[HeldUpstream]:
    async with directory_with_bucket(HeldUpstream, tmp_path) as directory:
        yield directory


@pytest.fixture(scope="module")
def checkpoint(weights) -> bytes:
    return weights(SIZE)


@pytest.fixture
async def objects(upstream, settings, checkpoint) -> AsyncIterator[Objects]:
    """A directory keeps no versions: what passed through takes several ranges by the setting alone."""
    layer = Objects(upstream, replace(settings, split_reads=True), Metrics())
    await layer.start()
    await layer.put(BUCKET, "k", body(checkpoint), SIZE, {})
    yield layer
    await layer.close()


async def reading(objects: Objects, into: bytearray) -> None:
    found = await objects.resolve(BUCKET, "k")
    async for chunk in objects.read(found, 0, found.info.size):
        into += chunk


@pytest.mark.parametrize("first", [0, 1, 2 * MIB - 1, 5 * MIB])
async def test_frames_come_in_order_whatever_range_arrives_first(objects, upstream, checkpoint, first):
    upstream.hold()
    work = asyncio.create_task(read_all(objects, "k", first))
    await settled()
    while not work.done():
        await upstream.let_through(*upstream.waiting()[-1:])  # the last one before those in front of it
    assert await work == checkpoint[first:]
    assert objects.store.reads.used_bytes == 0


async def test_no_more_is_read_ahead_than_the_window_holds(objects, upstream):
    upstream.hold()
    got = bytearray()
    work = asyncio.create_task(reading(objects, got))
    await until(lambda: len(upstream.begun) == 3)
    await upstream.let_through(*upstream.waiting()[1:])
    assert len(upstream.begun) == 3  # what came early is in memory still
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def test_a_client_that_does_not_read_stops_the_reading(objects, upstream, checkpoint):
    found = await objects.resolve(BUCKET, "k")
    upstream.hold()
    chunks = objects.read(found, 0, SIZE)
    first = asyncio.create_task(anext(chunks))
    await settled()
    await until(lambda: len(upstream.begun) == 3)
    await upstream.let_through(*upstream.waiting())
    got = await first
    assert checkpoint.startswith(got)
    await settled()
    assert len(upstream.begun) <= 4
    await chunks.aclose()
    assert (objects.store.reads.used_bytes, upstream.open_bodies) == (0, 0)


async def test_a_slow_bucket_is_asked_for_more_at_once_while_there_is_room(objects, upstream, checkpoint):
    upstream.hold()
    got = bytearray()
    work = asyncio.create_task(reading(objects, got))
    await settled()
    while not work.done():
        held = objects.store.reads.used_bytes
        assert held <= objects.store.reads.total_bytes
        await upstream.let_through(*upstream.waiting()[:1])
    assert got == checkpoint
    assert 4 <= upstream.most_at_once <= 6
    assert objects.store.reads.used_bytes == 0


async def test_a_window_does_not_grow_where_there_is_no_room(upstream, settings, checkpoint, tmp_path):
    layer = Objects(upstream, replace(settings, memory_bytes=4 * 15 * MIB, state_dir=tmp_path / "tight"), Metrics())
    await layer.start()
    await layer.put(BUCKET, "k", body(checkpoint), SIZE, {})
    upstream.hold()
    got = bytearray()
    work = asyncio.create_task(reading(layer, got))
    await settled()
    while not work.done():
        await upstream.let_through(*upstream.waiting()[:1])
    assert got == checkpoint
    assert upstream.most_at_once == 3
    await layer.close()


async def test_a_wide_window_gives_way_to_who_waits(objects, upstream, checkpoint):
    reads = objects.store.reads
    upstream.hold()
    work = asyncio.create_task(reading(objects, bytearray()))
    await until(lambda: len(upstream.begun) == 3)
    held = reads.used_bytes
    while reads.used_bytes == held:
        await upstream.let_through(*upstream.waiting()[:1])
    waiting = asyncio.create_task(reads.acquire(reads.total_bytes - held))
    await asyncio.sleep(0)
    assert reads.is_short
    while not waiting.done():
        await upstream.let_through(*upstream.waiting()[:1])
    assert not work.done()
    reads.release(reads.total_bytes - held)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert reads.used_bytes == 0


@pytest.mark.parametrize("through", [0, 1, 2])
async def test_a_client_that_goes_away_leaves_nothing_behind(objects, upstream, through):
    before = asyncio.all_tasks()
    upstream.hold()
    work = asyncio.create_task(reading(objects, bytearray()))
    await until(lambda: len(upstream.begun) == 3)
    await upstream.let_through(*upstream.waiting()[:through])
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    await settled()
    assert (objects.store.reads.used_bytes, upstream.open_bodies) == (0, 0)
    assert asyncio.all_tasks() == before


async def test_a_damaged_frame_ends_the_read_before_it_and_leaves_nothing_behind(objects, upstream, checkpoint):
    answer = await upstream.get(BUCKET, "k")
    damaged = bytearray(b"".join([chunk async for chunk in answer.chunks]))
    damaged[len(damaged) // 2] ^= 1
    await upstream.put(BUCKET, "k", bytes(damaged), len(damaged), answer.info.headers)
    before = asyncio.all_tasks()
    got = bytearray()
    with pytest.raises(FormatError, match="training/k: frame"):
        await reading(objects, got)
    assert checkpoint.startswith(got)
    assert 0 < len(got) < len(checkpoint)
    assert objects.store.reads.used_bytes == 0
    assert asyncio.all_tasks() == before


@pytest.fixture
async def noise(objects) -> bytes:
    """A body that passes through, at `k`."""
    data = os.urandom(SIZE + 5)
    await objects.put(BUCKET, "k", body(data), len(data), {})
    return data


@pytest.mark.parametrize("first", [0, 1, 5 * MIB])
async def test_a_body_that_passed_through_takes_several_ranges_too(objects, upstream, noise, first):
    upstream.hold()
    work = asyncio.create_task(read_all(objects, "k", first))
    await settled()
    while not work.done():
        await upstream.let_through(*upstream.waiting()[-1:])
    assert await work == noise[first:]
    assert upstream.most_at_once >= 3
    assert objects.store.reads.used_bytes == 0


async def test_a_body_that_passed_through_waits_for_no_memory(objects, upstream, noise):
    reads = objects.store.reads
    async with reads.hold(reads.total_bytes):
        upstream.hold()
        work = asyncio.create_task(read_all(objects, "k"))
        await until(lambda: len(upstream.begun) == 1)
        await upstream.let_through(0)
        assert await work == noise
    assert upstream.most_at_once == 1


@pytest.mark.parametrize("through", [0, 1, 2])
async def test_a_client_that_leaves_a_body_that_passed_through_leaves_nothing_behind(objects, upstream, noise, through):
    before = asyncio.all_tasks()
    upstream.hold()
    work = asyncio.create_task(reading(objects, bytearray()))
    await until(lambda: len(upstream.begun) == 3)
    await upstream.let_through(*upstream.waiting()[:through])
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    await settled()
    assert (objects.store.reads.used_bytes, upstream.open_bodies) == (0, 0)
    assert asyncio.all_tasks() == before


async def test_a_body_that_passed_through_and_is_replaced_meanwhile_is_not_given_whole(objects, upstream, noise):
    found = await objects.resolve(BUCKET, "k")
    upstream.hold()
    got = bytearray()

    async def take() -> None:
        async for chunk in objects.read(found, 0, len(noise)):
            got.extend(chunk)

    work = asyncio.create_task(take())
    await until(lambda: len(upstream.begun) == 3)
    await objects.put(BUCKET, "k", body(os.urandom(SIZE)), SIZE, {})
    while not work.done():
        await upstream.let_through(*upstream.waiting())
    with pytest.raises(S3Error, match="PreconditionFailed"):
        await work
    assert noise.startswith(got)
    assert objects.store.reads.used_bytes == 0
