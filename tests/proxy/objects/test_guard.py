"""Writes on a bucket whose conditions are not about what it shows."""

from __future__ import annotations

from pathlib import Path

from s4weights.proxy.config import Settings
from s4weights.proxy.errors import S3Error
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.directory import DirectoryUpstream
from s4weights.proxy.upstream.protocol import Body, Conditions, Headers, SentChecksum, Stored

from .conftest import BUCKET, body, read_all


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


async def test_a_key_whose_conditions_fail_while_it_looks_the_same_is_written_without(tmp_path: Path) -> None:
    (tmp_path / "buckets").mkdir()
    upstream = Foldered(tmp_path / "buckets")
    await upstream.start()
    await upstream.create_bucket(BUCKET)
    objects = Objects(upstream, Settings(upstream="d", state_dir=tmp_path / "state"), Metrics())
    await objects.start()
    await objects.put(BUCKET, "folder/", body(b""), 0, {})
    await objects.put(BUCKET, "note", body(b"text"), 4, {})
    assert await read_all(objects, "note") == b"text"
    assert await read_all(objects, "folder/") == b""
    await objects.close()
    await upstream.close()
