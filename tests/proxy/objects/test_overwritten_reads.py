"""A read of an object that is overwritten meanwhile ends as it does on S3 itself, where the bucket can do its part."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from s4weights.proxy.config import Settings
from s4weights.proxy.errors import S3Error
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects import frame_runs, read, read_ahead, stored_runs
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.bucket import BucketUpstream
from s4weights.proxy.upstream.directory import DirectoryUpstream
from s4weights.proxy.upstream.protocol import ByteRange, ObjectBody

from .conftest import BUCKET, MIB, body, directory_with_bucket

SIZE = 24 * MIB
VERSIONED = "overwritten-versions"


@pytest.fixture(autouse=True)
def _small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (frame_runs, read, read_ahead, stored_runs):
        monkeypatch.setattr(module, "READ_RUN_BYTES", 2 * MIB)
    for module in (read, read_ahead):
        monkeypatch.setattr(module, "READ_WINDOW_BYTES", 4 * MIB)
    monkeypatch.setattr(read_ahead, "READ_WINDOW_MAX_BYTES", 4 * MIB)


class Counted:
    """Ranges that were asked for of a key, but for its end. refused: whoever names a version is."""

    wanted = 0
    refused = False

    async def get(self, *arguments, byte_range: ByteRange | None = None, **options) -> ObjectBody:
        if byte_range is not None and byte_range.first >= 0:
            self.wanted += 1
            if self.refused and options.get("version_id"):
                raise S3Error("AccessDenied")
        return await super().get(*arguments, byte_range=byte_range, **options)  # type: ignore[misc]


class CountedDirectory(Counted, DirectoryUpstream):
    pass


class CountedBucket(Counted, BucketUpstream):
    pass


@pytest.fixture
async def upstream(tmp_path: Path) -> AsyncIterator[CountedDirectory]:
    async with directory_with_bucket(CountedDirectory, tmp_path) as directory:
        yield directory


@pytest.fixture
async def versioned(
    seaweedfs, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Objects, CountedBucket]]:
    """A real bucket that keeps versions."""
    for name, value in seaweedfs.environment().items():
        monkeypatch.setenv(name, value)
    client = seaweedfs.client()
    if VERSIONED not in [one["Name"] for one in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket=VERSIONED)
        client.put_bucket_versioning(Bucket=VERSIONED, VersioningConfiguration={"Status": "Enabled"})
    bucket = CountedBucket(endpoint=seaweedfs.endpoint)
    await bucket.start()
    layer = Objects(bucket, settings, Metrics())
    await layer.start()
    yield layer, bucket
    await layer.close()
    await bucket.close()


async def read_overwritten(objects: Objects, bucket: str, data: bytes, *, gone: bool = False) -> bytes:
    """What a read of data gives whose object makes way after the first bytes."""
    await objects.put(bucket, "k", body(data), len(data), {})
    found = await objects.resolve(bucket, "k")
    chunks = objects.read(found, 0, found.info.size)
    got = bytearray(await anext(chunks))
    if gone:
        await objects.delete(bucket, "k")
    else:
        await objects.put(bucket, "k", body(os.urandom(SIZE)), SIZE, {})
    try:
        async for chunk in chunks:
            got += chunk
    finally:
        await chunks.aclose()
        assert objects.store.reads.used_bytes == 0
        assert data.startswith(got)
    return bytes(got)


@pytest.mark.parametrize("gone", [False, True], ids=["overwritten", "removed"])
async def test_a_body_that_passed_through_is_given_whole_without_versions(
    objects: Objects, upstream: CountedDirectory, gone: bool
) -> None:
    noise = os.urandom(SIZE)
    assert await read_overwritten(objects, BUCKET, noise, gone=gone) == noise
    assert upstream.wanted == 1


async def test_several_ranges_without_versions_are_asked_for_by_a_setting_alone(
    upstream: CountedDirectory, settings: Settings
) -> None:
    split = Objects(upstream, replace(settings, split_reads=True), Metrics())
    await split.start()
    with pytest.raises(S3Error, match="PreconditionFailed"):
        await read_overwritten(split, BUCKET, os.urandom(SIZE))
    assert upstream.wanted > 1
    await split.close()


@pytest.mark.e2e
@pytest.mark.parametrize("gone", [False, True], ids=["overwritten", "removed"])
@pytest.mark.parametrize("kind", ["noise", "checkpoint"])
async def test_a_version_is_read_to_its_end_by_several_ranges(versioned, weights, kind: str, gone: bool) -> None:
    objects, bucket = versioned
    data = os.urandom(SIZE) if kind == "noise" else weights(SIZE)
    assert await read_overwritten(objects, VERSIONED, data, gone=gone) == data
    assert bucket.wanted > 4


@pytest.mark.e2e
async def test_who_may_not_name_versions_reads_by_one_range(versioned) -> None:
    objects, bucket = versioned
    noise = os.urandom(SIZE)
    await objects.put(VERSIONED, "k", body(noise), SIZE, {})
    found = await objects.resolve(VERSIONED, "k")
    bucket.refused, bucket.wanted = True, 0
    got = b"".join([chunk async for chunk in objects.read(found, 0, SIZE)])
    assert got == noise
    assert objects.store.reads.used_bytes == 0
