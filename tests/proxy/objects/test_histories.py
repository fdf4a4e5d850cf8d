"""Random histories of two proxies on one bucket beside a plain model: every live key is identical after every step."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from s4weights.proxy.config import Settings
from s4weights.proxy.errors import S3Error
from s4weights.proxy.lineage.names import ALL_HIDDEN, ALL_PINS, ALL_TOMBS, Content, content_of, hidden_of, is_hidden
from s4weights.proxy.lineage.perform import list_keys
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects import occupants
from s4weights.proxy.objects.collector import Collector
from s4weights.proxy.objects.copy import SourceChanged
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.directory import DirectoryUpstream

from .conftest import BUCKET, body
from .test_deltas import file_of, rounded

# S4W_HISTORIES=1000 runs them all: `S4W_HISTORIES=1000 pytest tests/proxy/objects/test_histories.py`.
# S4W_HISTORIES_FROM: the first seed, so that several may share them.
HISTORIES = int(os.environ.get("S4W_HISTORIES", "40"))
FIRST = int(os.environ.get("S4W_HISTORIES_FROM", "0"))
STEPS = 14
ELEMENTS = 16_384
RUNS = ("a", "b")


class World:
    """Two proxies, the bucket, and what the bucket should hold."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.folder = folder
        self.truth: dict[str, bytes] = {}
        self.weights = {run: self.numbers.normal(0, 0.02, ELEMENTS) for run in RUNS}
        self.steps = dict.fromkeys(RUNS, 0)
        self.bucket = DirectoryUpstream(folder / "buckets")
        self.wires: list[Wire] = []
        self.proxies: list[Objects] = []
        self.states = 0
        self.done: list[str] = []

    async def start(self) -> None:
        (self.folder / "buckets").mkdir()
        await self.bucket.start()
        for _ in range(2):
            self.wires.append(Wire(self.bucket))
            self.proxies.append(await self._proxy(self.wires[-1]))
        await self.bucket.create_bucket(BUCKET)

    async def _proxy(self, wire: Wire) -> Objects:
        self.states += 1
        settings = Settings(
            upstream="d", state_dir=self.folder / f"state{self.states}", cache_bytes=4 << 20, max_chain=4
        )
        objects = Objects(wire, settings, Metrics())  # type: ignore[arg-type]
        await objects.start()
        return objects

    async def close(self) -> None:
        for objects in self.proxies:
            await objects.close()
        await self.bucket.close()

    def next_body(self, run: str) -> bytes:
        self.weights[run] = self.weights[run] + self.numbers.normal(0, 1e-5, ELEMENTS)
        master = self.weights[run].astype("<f4")
        return file_of({"w": ("BF16", rounded(master)), "m": ("F32", master.tobytes())})

    async def act(self) -> None:
        names = ["put"] * 5 + [
            "again",
            "overwrite",
            "last",
            "copy",
            "rename",
            "delete",
            "delete",
            "rotate",
            "restart",
            "kill",
            "both",
        ]
        name = self.random.choice(names)
        self.done.append(name)
        await getattr(self, name)()

    @property
    def proxy(self) -> Objects:
        return self.random.choice(self.proxies)

    def some_key(self) -> str | None:
        return self.random.choice(sorted(self.truth)) if self.truth else None

    def new_key(self) -> tuple[str, str]:
        run = self.random.choice(RUNS)
        self.steps[run] += self.random.choice((1, 5))
        return run, f"{run}/checkpoint-{self.steps[run]}/model.safetensors"

    async def write(self, objects: Objects, key: str, data: bytes) -> None:
        self.done.append(key)
        if self.random.random() < 0.4:
            upload = await objects.uploads.create(BUCKET, key, {})
            part = await objects.uploads.put_part(BUCKET, key, upload, 1, body(data, 50_000), len(data))
            await objects.complete(BUCKET, key, upload, [part], None)
        else:
            await objects.put(BUCKET, key, body(data, 50_000), len(data), {})

    async def put(self) -> None:
        run, key = self.new_key()
        data = self.next_body(run)
        await self.write(self.proxy, key, data)
        self.truth[key] = data

    async def again(self) -> None:
        """A body that is there already, under another key."""
        if (key := self.some_key()) is not None:
            _, other = self.new_key()
            await self.write(self.proxy, other, self.truth[key])
            self.truth[other] = self.truth[key]

    async def overwrite(self) -> None:
        if (key := self.some_key()) is not None:
            data = self.random.choice(
                [self.next_body(key[0] if key[0] in RUNS else RUNS[0]), b"no checkpoint", self.truth[key]]
            )
            await self.write(self.proxy, key, data)
            self.truth[key] = data

    async def last(self) -> None:
        run = self.random.choice(RUNS)
        inside = [key for key in self.truth if key.startswith(f"{run}/")]
        if inside:
            data = self.truth[self.random.choice(sorted(inside))]
            await self.write(self.proxy, f"{run}/last.safetensors", data)
            self.truth[f"{run}/last.safetensors"] = data

    async def copy(self) -> str | None:
        if (key := self.some_key()) is None:
            return None
        objects = self.proxy
        target = self.random.choice([f"kept/{self.random.randrange(3)}.safetensors", f"{key}.best"])
        if target != key:
            self.done += [key, target]
            for attempt in range(3):  # as the handler does
                found = await objects.resolve(BUCKET, key)
                try:
                    await objects.copy(found, BUCKET, target, {}, replace=self.random.random() < 0.5)
                    break
                except SourceChanged:
                    assert attempt < 2
            self.truth[target] = self.truth[key]
        return key

    async def rename(self) -> None:
        if (key := await self.copy()) is not None:
            await self.remove(key)

    async def remove(self, key: str) -> None:
        self.done.append(key)
        await self.proxy.delete(BUCKET, key)
        del self.truth[key]

    async def delete(self) -> None:
        if (key := self.some_key()) is not None:
            await self.remove(key)

    async def rotate(self) -> None:
        """As save_total_limit=2 does: the oldest go."""
        run = self.random.choice(RUNS)
        kept = [key for key in self.truth if key.startswith(f"{run}/checkpoint-")]
        for key in sorted(kept, key=lambda key: int(key.split("-")[1].split("/")[0]))[:-2]:
            await self.remove(key)

    async def restart(self) -> None:
        number = self.random.randrange(2)
        await self.proxies[number].close()
        self.proxies[number] = await self._proxy(self.wires[number])

    async def kill(self) -> None:
        """A proxy dies in the middle of a write or a removal; the key holds the old or the new."""
        number = self.random.randrange(2)
        run, key = self.new_key()
        data: bytes | None = self.next_body(run)
        objects = self.proxies[number]
        if self.random.random() < 0.4 and (old := self.some_key()) is not None:
            key, data = old, None
            task = asyncio.create_task(objects.delete(BUCKET, key))
        else:
            assert data is not None
            task = asyncio.create_task(objects.put(BUCKET, key, body(data, 50_000), len(data), {}))
        for _ in range(self.random.randrange(60)):
            await asyncio.sleep(0)
        dead = self.random.random() < 0.5
        self.wires[number].is_cut = dead
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if dead:
            self.wires[number] = Wire(self.bucket)
            self.proxies[number] = await self._proxy(self.wires[number])
        await self.settle(key, data)

    async def both(self) -> None:
        """Two proxies at once: one removes what the other writes against."""
        run, key = self.new_key()
        data = self.next_body(run)
        victim = self.some_key()
        writing = asyncio.create_task(self.proxies[0].put(BUCKET, key, body(data, 50_000), len(data), {}))
        if victim is not None:
            for _ in range(self.random.randrange(40)):
                await asyncio.sleep(0)
            await self.proxies[1].delete(BUCKET, victim)
            del self.truth[victim]
        await writing
        self.truth[key] = data

    async def settle(self, key: str, data: bytes | None) -> None:
        """Which of the two it is now."""
        found = await self.read(self.proxy, key)
        assert found in (self.truth.get(key), data), f"{key}: neither the old nor the new"
        if found is None:
            self.truth.pop(key, None)
        else:
            self.truth[key] = found

    async def read(self, objects: Objects, key: str) -> bytes | None:
        try:
            found = await objects.resolve(BUCKET, key)
        except S3Error as error:
            assert error.code == "NoSuchKey", error
            return None
        return b"".join([chunk async for chunk in objects.read(found, 0, found.info.size)])

    async def check(self) -> None:
        objects = self.proxy
        for key, data in self.truth.items():
            assert await self.read(objects, key) == data, f"{key} differs"
        keys = await list_keys(self.bucket, BUCKET, "")
        assert {key for key in keys if not is_hidden(key)} == set(self.truth)

    async def needed(self, keys: list[str]) -> set[Content]:
        """All that the live keys are stored against, and so on down."""
        guard = self.proxies[0].store.guard
        needed: set[Content] = set()
        waiting = [key for key in keys if not is_hidden(key)]
        while waiting:
            found = await guard.look(BUCKET, waiting.pop())
            for need in found.needs if found is not None else ():
                if need.content not in needed:
                    needed.add(need.content)
                    waiting += [key for key in keys if key.startswith(hidden_of(need.content))]
        return needed

    async def sweep(self) -> None:
        for objects in self.proxies:
            await objects.rebaser.idle()
        collector = Collector(self.bucket, self.proxies[0].store.guard, timedelta(seconds=-60))
        async for _ in collector.sweep(BUCKET):
            pass
        await self.check()
        keys = await list_keys(self.bucket, BUCKET, "")
        needed = await self.needed(keys)
        assert [key for key in keys if key.startswith(ALL_TOMBS)] == []
        orphans = [key for key in keys if key.startswith((ALL_HIDDEN, ALL_PINS)) and content_of(key) not in needed]
        assert orphans == []


class Wire:
    """One proxy's way to the bucket; once it is cut, as by the end of the process, nothing goes through any more."""

    def __init__(self, bucket: DirectoryUpstream) -> None:
        self._bucket = bucket
        self.is_cut = False

    def __getattr__(self, name: str) -> object:
        if self.is_cut:
            raise asyncio.CancelledError
        return getattr(self._bucket, name)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_every_live_key_is_identical_after_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(occupants, "MIN_BASE_BYTES", 1024)
    based = 0
    for seed in range(FIRST, FIRST + HISTORIES):
        folder = tmp_path / str(seed)
        folder.mkdir()
        world = World(folder, seed)
        await world.start()
        try:
            for _ in range(STEPS):
                await world.act()
                await world.check()
            based += len(await list_keys(world.bucket, BUCKET, ALL_PINS))
            await world.sweep()
        except BaseException as error:
            error.add_note(f"history {seed}: {' '.join(world.done)}")
            raise
        finally:
            await world.close()
        shutil.rmtree(folder)
    assert based > HISTORIES  # the histories were about bases
