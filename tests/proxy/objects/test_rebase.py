"""Objects that are written again without the base that goes, and what a restore reads at most."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from s4weights.proxy.config import Settings
from s4weights.proxy.lineage.names import ALL_HIDDEN, ALL_PINS, HIDDEN
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.directory import DirectoryUpstream

from .conftest import BUCKET, body, read_all
from .test_deltas import ELEMENTS, KEYS, Run, bases, file_of, put, rounded, stored_bytes, under


async def test_a_run_that_keeps_its_last_two_takes_less_than_two_plain_containers(objects: Objects) -> None:
    run = Run()
    bodies: dict[str, bytes] = {}
    for key in KEYS:
        bodies[key] = run.step()
        await put(objects, key, bodies[key])
        for old in list(bodies)[:-2]:
            await objects.delete(BUCKET, old)
            del bodies[old]
        await objects.rebaser.idle()
        for live, data in bodies.items():
            assert await read_all(objects, live) == data
    plain = file_of({"w": ("BF16", rounded(Run(9).weights))})
    await put(objects, "alone/x.safetensors", plain)
    alone = await stored_bytes(objects, "alone/x.safetensors")
    await objects.delete(BUCKET, "alone/x.safetensors")
    sizes = [(await objects.store.upstream.head(BUCKET, key)).size for key in await under(objects, "")]
    assert sum(sizes) < 1.7 * alone


async def test_the_last_of_a_run_is_written_again_on_the_best_where_the_one_between_goes(objects: Objects) -> None:
    """As a trainer rotates that keeps the best and the last."""
    run = Run()
    bodies = [run.step() for _ in range(3)]
    for key, data in zip(KEYS, bodies, strict=False):
        await put(objects, key, data)
    assert await bases(objects, KEYS[2]) == [KEYS[1]]
    await objects.delete(BUCKET, KEYS[1])
    await objects.rebaser.idle()
    # Whether it gains is known in advance only where nothing takes the base's place; here it does.
    assert await objects.rebaser.rebase(BUCKET, KEYS[2])
    assert await bases(objects, KEYS[2]) == [KEYS[0]]
    assert await under(objects, ALL_HIDDEN) == []
    assert await read_all(objects, KEYS[2]) == bodies[2]
    await objects.delete(BUCKET, KEYS[0])
    await objects.rebaser.idle()
    assert await bases(objects, KEYS[2]) == []
    assert await under(objects, HIDDEN) == []
    assert await read_all(objects, KEYS[2]) == bodies[2]


async def test_an_object_written_again_looks_as_the_client_wrote_it(objects: Objects) -> None:
    run = Run()
    first, second = run.step(), run.step()
    await put(objects, KEYS[0], first)
    headers = {"content-type": "application/x-weights", "x-amz-meta-epoch": "7"}
    await objects.put(BUCKET, KEYS[1], body(second), len(second), headers)
    before = await objects.resolve(BUCKET, KEYS[1])
    await asyncio.sleep(1.1)
    assert await objects.rebaser.rebase(BUCKET, KEYS[1])
    after = await objects.resolve(BUCKET, KEYS[1])
    assert after.stored.etag != before.stored.etag
    assert after.info.headers == before.info.headers
    assert (after.info.etag, after.info.size) == (before.info.etag, before.info.size)
    assert after.info.last_modified == before.info.last_modified.replace(microsecond=0)
    assert await bases(objects, KEYS[1]) == []
    assert await under(objects, HIDDEN) == []
    assert not await objects.rebaser.rebase(BUCKET, KEYS[1])


async def test_a_read_goes_on_while_the_object_is_written_again(objects: Objects) -> None:
    run = Run()
    small = [run.step(), run.step()]
    await put(objects, KEYS[0], small[0])
    data = file_of({f"t{n}": ("BF16", rounded(run.weights + n * 1e-6)) for n in range(16)})
    await put(objects, "big/step-1/m.safetensors", data)
    more = file_of({f"t{n}": ("BF16", rounded(run.weights + n * 1e-6 + 1e-7)) for n in range(16)})
    await put(objects, "big/step-2/m.safetensors", more)
    found = await objects.resolve(BUCKET, "big/step-2/m.safetensors")
    assert await bases(objects, "big/step-2/m.safetensors") == ["big/step-1/m.safetensors"]
    read = objects.read(found, 0, found.info.size)
    pieces = [await anext(read)]
    assert await objects.rebaser.rebase(BUCKET, "big/step-2/m.safetensors")
    pieces += [piece async for piece in read]
    assert b"".join(pieces) == more


class Reads:
    """A bucket, and the stored bytes that were asked of it."""

    def __init__(self, bucket: DirectoryUpstream) -> None:
        self._bucket = bucket
        self.bytes = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._bucket, name)

    async def get(self, *args: object, **options: object) -> object:
        body = await self._bucket.get(*args, **options)  # type: ignore[arg-type]
        self.bytes += body.length
        return body


@pytest.mark.parametrize("mixed", [False, True], ids=["bf16", "mixed"])
async def test_a_process_that_has_nothing_reads_a_run_within_max_restore_ratio(
    upstream: DirectoryUpstream, settings: Settings, tmp_path: Path, mixed: bool
) -> None:
    """Trainings in which a delta costs much, as far from the last plain one as it comes."""
    writing = Objects(upstream, replace(settings, deltas=True), Metrics())
    await writing.start()
    run = Run()
    bodies: dict[str, bytes] = {}
    for key in KEYS:
        run.weights = run.weights + run.random.normal(0, 1e-4, ELEMENTS)
        bodies[key] = run.mixed() if mixed else run.step()
        await put(writing, key, bodies[key])
    await writing.close()
    alone = Objects(upstream, replace(settings, deltas=False, state_dir=tmp_path / "alone"), Metrics())
    await alone.start()
    await put(alone, "plain.safetensors", bodies[KEYS[-1]])
    plain = await stored_bytes(alone, "plain.safetensors")
    await alone.close()
    most = 0.0
    for number, key in enumerate(KEYS):
        reads = Reads(upstream)
        cold = Objects(reads, replace(settings, state_dir=tmp_path / f"cold{number}", cache_bytes=0), Metrics())  # type: ignore[arg-type]
        await cold.start()
        assert await read_all(cold, key) == bodies[key]
        await cold.close()
        most = max(most, reads.bytes / plain)
    print(f"restores read up to {most:.2f} times a plain container")
    assert 1.2 < most <= settings.max_restore_ratio


async def test_one_that_is_given_up_while_it_waits_for_memory_leaves_nothing_behind(
    upstream: DirectoryUpstream, settings: Settings
) -> None:
    objects = Objects(upstream, replace(settings, rebase=False), Metrics())
    await objects.start()
    run = Run()
    for key in KEYS[:3]:
        await put(objects, key, run.step())
    await objects.delete(BUCKET, KEYS[1])
    pins, files = await under(objects, ALL_PINS), sorted((settings.state_dir / "containers").iterdir())
    found = await objects.resolve(BUCKET, KEYS[2])
    async with objects.store.writes.hold(objects.store.writes.total_bytes):
        works = [
            asyncio.create_task(objects.rebaser.rebase(BUCKET, KEYS[2])),
            asyncio.create_task(objects.rebaser.write_again(found)),
        ]
        await asyncio.sleep(0.5)
        assert objects.store.writes.is_short
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
    assert await under(objects, ALL_PINS) == pins
    assert sorted((settings.state_dir / "containers").iterdir()) == files
    assert objects.store.writes.used_bytes == 0
    assert await objects.rebaser.rebase(BUCKET, KEYS[2])
    await objects.close()
