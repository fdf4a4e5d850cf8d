"""Writes and removals on a bucket that answers otherwise than one would think, or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from s4weights.proxy.config import Settings
from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.lineage.names import ALL_PINS, ALL_TOMBS, is_hidden
from s4weights.proxy.lineage.perform import list_keys
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects.collector import Collector
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.directory import DirectoryUpstream
from s4weights.proxy.upstream.protocol import Body, Conditions, Headers, ObjectBody, SentChecksum, Stored

from .conftest import BUCKET, body, read_all
from .test_deltas import KEYS, Run


class Foldered(DirectoryUpstream):
    """Says that something is there where nothing can be found, as SeaweedFS does of folders."""

    async def put(
        self,
        bucket: str,
        key: str,
        body: Body,
        length: int,
        headers: Headers,
        conditions: Conditions | None = None,
        checksum: SentChecksum | None = None,
    ) -> Stored:
        if conditions is not None and conditions.if_none_match == "*":
            raise S3Error("PreconditionFailed")
        return await super().put(bucket, key, body, length, headers, conditions, checksum)


class Silent(DirectoryUpstream):
    """Does what it is asked of one key, and gives no answer."""

    silent_on = ""

    async def put(self, bucket: str, key: str, *arguments: Any, **options: Any) -> Stored:
        stored = await super().put(bucket, key, *arguments, **options)
        self._answer(key)
        return stored

    async def copy(self, source: tuple[str, str], target: tuple[str, str], *arguments: Any, **options: Any) -> Stored:
        stored = await super().copy(source, target, *arguments, **options)
        self._answer(target[1])
        return stored

    async def delete(self, bucket: str, key: str, **options: Any) -> Headers:
        headers = await super().delete(bucket, key, **options)
        self._answer(key)
        return headers

    def _answer(self, key: str) -> None:
        if key == self.silent_on:
            raise UpstreamError("no answer")


async def read_afresh(upstream: DirectoryUpstream, folder: Path, key: str) -> bytes:
    """By a process that remembers nothing of a base."""
    objects = Objects(upstream, Settings(upstream="d", state_dir=folder / "afresh", rebase=False), Metrics())
    await objects.start()
    try:
        return await read_all(objects, key)
    finally:
        await objects.close()


class Refusing(DirectoryUpstream):
    """Refuses some calls at our own keys, as a policy may."""

    refused: tuple[str, ...] = ()

    async def put(self, bucket: str, key: str, *arguments: Any, **options: Any) -> Stored:
        self._check("put", key)
        return await super().put(bucket, key, *arguments, **options)

    async def delete(self, bucket: str, key: str, **options: Any) -> Headers:
        self._check("delete", key)
        return await super().delete(bucket, key, **options)

    async def get(self, bucket: str, key: str, **options: Any) -> ObjectBody:
        if key in self.refused:
            raise S3Error("InvalidObjectState", status=403)
        return await super().get(bucket, key, **options)

    def _check(self, call: str, key: str) -> None:
        if call in self.refused and is_hidden(key):
            raise S3Error("AccessDenied")


@asynccontextmanager
async def opened(upstream: DirectoryUpstream, folder: Path) -> AsyncIterator[Objects]:
    (folder / "buckets").mkdir()
    await upstream.start()
    await upstream.create_bucket(BUCKET)
    objects = Objects(upstream, Settings(upstream="d", state_dir=folder / "state", rebase=False), Metrics())
    await objects.start()
    yield objects
    await objects.close()
    await upstream.close()


async def test_a_key_whose_conditions_fail_while_it_looks_the_same_is_written_without(tmp_path: Path) -> None:
    async with opened(Foldered(tmp_path / "buckets"), tmp_path) as objects:
        await objects.put(BUCKET, "folder/", body(b""), 0, {})
        await objects.put(BUCKET, "note", body(b"text"), 4, {})
        assert await read_all(objects, "note") == b"text"
        assert await read_all(objects, "folder/") == b""


async def test_pins_stay_where_a_write_was_not_answered(tmp_path: Path) -> None:
    """It may be visible: a delete of its base must still see them."""
    upstream, run = Silent(tmp_path / "buckets"), Run()
    async with opened(upstream, tmp_path) as objects:
        first, second = run.step(), run.step()
        await objects.put(BUCKET, KEYS[0], body(first), len(first), {})
        upstream.silent_on = KEYS[1]
        with pytest.raises(UpstreamError):
            await objects.put(BUCKET, KEYS[1], body(second), len(second), {})
        upstream.silent_on = ""
        await objects.delete(BUCKET, KEYS[0])
        assert await read_afresh(upstream, tmp_path, KEYS[1]) == second


async def test_pins_stay_where_a_copy_was_not_answered(tmp_path: Path) -> None:
    upstream, run = Silent(tmp_path / "buckets"), Run()
    async with opened(upstream, tmp_path) as objects:
        bodies = [run.step(), run.step()]
        for key, data in zip(KEYS, bodies, strict=False):
            await objects.put(BUCKET, key, body(data), len(data), {})
        upstream.silent_on = "copy"
        with pytest.raises(UpstreamError):
            await objects.copy(await objects.resolve(BUCKET, KEYS[1]), BUCKET, "copy", {}, replace=False)
        upstream.silent_on = ""
        await objects.delete(BUCKET, KEYS[1])
        await objects.delete(BUCKET, KEYS[0])
        assert await read_afresh(upstream, tmp_path, "copy") == bodies[1]


async def test_a_tombstone_stays_where_a_removal_was_not_answered(tmp_path: Path) -> None:
    """It may yet be carried out: nobody must take the object for a base any more."""
    upstream, run = Silent(tmp_path / "buckets"), Run()
    async with opened(upstream, tmp_path) as objects:
        data = run.step()
        await objects.put(BUCKET, KEYS[0], body(data), len(data), {})
        upstream.silent_on = KEYS[0]
        with pytest.raises(UpstreamError):
            await objects.delete(BUCKET, KEYS[0])
        assert len(await list_keys(upstream, BUCKET, ALL_TOMBS)) == 1
        assert await list_keys(upstream, BUCKET, ALL_PINS) == []


@pytest.mark.parametrize("refused", ["put", "delete"])
async def test_who_may_not_write_our_own_keys_may_overwrite_a_checkpoint_all_the_same(
    tmp_path: Path, refused: str
) -> None:
    upstream, run = Refusing(tmp_path / "buckets"), Run()
    async with opened(upstream, tmp_path) as objects:
        first, second = run.step(), run.step()
        await objects.put(BUCKET, "model.safetensors", body(first), len(first), {})
        upstream.refused = (refused,)
        await objects.put(BUCKET, "model.safetensors", body(second), len(second), {})
        assert await read_all(objects, "model.safetensors") == second
        await objects.delete(BUCKET, "model.safetensors")
        upstream.refused = ()


async def test_what_is_tidied_up_behind_a_write_is_no_part_of_its_outcome(tmp_path: Path) -> None:
    """The pins of an object that is visible stay, also where its predecessor's tombstone could not be removed."""
    upstream, run = Refusing(tmp_path / "buckets"), Run()
    async with opened(upstream, tmp_path) as objects:
        first, other, second = run.step(), Run(3).step(), run.step()
        await objects.put(BUCKET, KEYS[1], body(other), len(other), {})
        await objects.put(BUCKET, KEYS[0], body(first), len(first), {})
        upstream.refused = ("delete",)
        await objects.put(BUCKET, KEYS[1], body(second), len(second), {})
        upstream.refused = ()
        await objects.delete(BUCKET, KEYS[0])
        assert await read_afresh(upstream, tmp_path, KEYS[1]) == second


async def test_gc_leaves_the_pins_of_what_it_cannot_look_at(tmp_path: Path) -> None:
    upstream, run = Refusing(tmp_path / "buckets"), Run()
    async with opened(upstream, tmp_path) as objects:
        bodies = [run.step(), run.step()]
        for key, data in zip(KEYS, bodies, strict=False):
            await objects.put(BUCKET, key, body(data), len(data), {})
        upstream.refused = (KEYS[1],)
        collector = Collector(upstream, objects.store.guard, timedelta(seconds=-60))
        assert [one async for one in collector.sweep(BUCKET)] == []
        upstream.refused = ()
        await objects.delete(BUCKET, KEYS[0])
        assert await read_afresh(upstream, tmp_path, KEYS[1]) == bodies[1]


async def test_a_bucket_that_holds_nothing_but_ours_is_cleared(tmp_path: Path) -> None:
    upstream, run = Refusing(tmp_path / "buckets"), Run()
    async with opened(upstream, tmp_path) as objects:
        for key in KEYS[:2]:
            data = run.step()
            await objects.put(BUCKET, key, body(data), len(data), {})
        await objects.copy(await objects.resolve(BUCKET, KEYS[1]), BUCKET, "copy", {}, replace=False)
        await objects.collector.clear_hidden(BUCKET)
        assert await list_keys(upstream, BUCKET, ALL_PINS) != []
        for key in (*KEYS[:2], "copy"):
            await objects.delete(BUCKET, key)
        await objects.collector.clear_hidden(BUCKET)
        assert await list_keys(upstream, BUCKET, "") == []
