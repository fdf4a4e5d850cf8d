"""Bases that move while they are read: another copy is found, or the error names what is missing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from s4weights.codec.errors import MissingBase
from s4weights.proxy.config import Settings
from s4weights.proxy.limits import TAIL_WITH_INDEX_BYTES
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.directory import DirectoryUpstream
from s4weights.proxy.upstream.protocol import ByteRange, ObjectBody

from .conftest import BUCKET, MIB, body, directory_with_bucket, read_all
from .test_deltas import KEYS, Run, put, put_two

Moving = Callable[[Objects], Awaitable[None]]


class MovingUpstream(DirectoryUpstream):
    """Before some calls for a key, something happens to it. moves: what is still to come."""

    key = ""
    is_moved_by: Callable[[ByteRange], bool] = staticmethod(lambda _: True)
    moves: list[Callable[[], Awaitable[None]]]

    async def get(self, bucket: str, key: str, *, byte_range: ByteRange | None = None, **options) -> ObjectBody:
        if key == self.key and self.moves and byte_range and self.is_moved_by(byte_range):
            await self.moves.pop(0)()
        return await super().get(bucket, key, byte_range=byte_range, **options)


@pytest.fixture
async def upstream(tmp_path: Path) -> AsyncIterator[MovingUpstream]:
    async with directory_with_bucket(MovingUpstream, tmp_path) as directory:
        directory.moves = []
        yield directory


@pytest.fixture
async def cold(upstream: MovingUpstream, settings: Settings, tmp_path: Path) -> AsyncIterator[Objects]:
    """Another proxy, which has nothing on its disk."""
    layer = Objects(upstream, replace(settings, cache_bytes=0, rebase=False, state_dir=tmp_path / "cold"), Metrics())
    await layer.start()
    yield layer
    await layer.close()


async def deleted(objects: Objects) -> None:
    await objects.delete(BUCKET, KEYS[0])


async def overwritten(objects: Objects) -> None:
    await put(objects, KEYS[0], Run(7).step())


async def no_checkpoint(objects: Objects) -> None:
    await objects.put(BUCKET, KEYS[0], body(b"text"), 4, {})


def opens(wanted: ByteRange) -> bool:
    """Where a base was found: its end is read with the index."""
    return wanted.first == -TAIL_WITH_INDEX_BYTES


def reads(wanted: ByteRange) -> bool:
    """A base that was opened: its frames, which lie before the index."""
    return 0 <= wanted.first < MIB


@pytest.mark.parametrize("when", [opens, reads])
@pytest.mark.parametrize("move", [deleted, overwritten, no_checkpoint])
async def test_a_base_that_is_kept_aside_after_it_was_found_is_found_again(
    upstream: MovingUpstream, settings: Settings, cold: Objects, move: Moving, when: Callable[[ByteRange], bool]
) -> None:
    objects = Objects(upstream, replace(settings, rebase=False), Metrics())
    await objects.start()
    second = await put_two(objects)
    upstream.key, upstream.is_moved_by, upstream.moves = KEYS[0], when, [lambda: move(objects)]
    assert await read_all(cold, KEYS[1]) == second
    assert upstream.moves == []
    assert cold.store.reads.used_bytes == 0
    await objects.close()


async def test_a_base_that_comes_and_goes_all_the_time_is_looked_for_a_bounded_number_of_times(
    upstream: MovingUpstream, objects: Objects, cold: Objects
) -> None:
    await put_two(objects)
    there = await upstream.get(BUCKET, KEYS[0])
    stored = b"".join([chunk async for chunk in there.chunks])

    async def comes() -> None:
        await upstream.put(BUCKET, KEYS[0], stored, len(stored), there.info.headers)

    async def goes() -> None:
        await upstream.delete(BUCKET, KEYS[0])

    upstream.key, upstream.is_moved_by = KEYS[0], lambda wanted: wanted.first < 0
    upstream.moves = [comes, goes] * 50
    with pytest.raises(MissingBase, match=KEYS[0]):
        await read_all(cold, KEYS[1], 0, 1000)
    assert 50 < len(upstream.moves) < 98
    assert cold.store.reads.used_bytes == 0
