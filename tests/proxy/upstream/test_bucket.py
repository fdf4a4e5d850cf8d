"""What only a bucket over a network can do, or fail to."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator

import pytest
from awscrt.checksums import crc32c

from s4weights.proxy.checksums.algorithms import encode
from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.upstream.bucket import BucketUpstream, copying
from s4weights.proxy.upstream.bucket import store as bucket_store
from s4weights.proxy.upstream.bucket.page import beyond
from s4weights.proxy.upstream.protocol import SentChecksum

MIB = 1 << 20
BUCKET = "bucket-only"


@pytest.fixture
async def store(seaweedfs, monkeypatch) -> AsyncIterator[BucketUpstream]:
    for name, value in seaweedfs.environment().items():
        monkeypatch.setenv(name, value)
    one = BucketUpstream(endpoint=seaweedfs.endpoint)
    await one.start()
    if BUCKET not in [bucket.name for bucket in await one.list_buckets()]:
        await one.create_bucket(BUCKET)
    yield one
    await one.close()


@pytest.fixture
def small_copies(monkeypatch):
    monkeypatch.setattr(bucket_store, "_MAX_COPY_BYTES", MIB)
    monkeypatch.setattr(copying, "_PART_BYTES", 5 * MIB)


def sockets() -> int:
    count = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{fd}").startswith("socket")
        except FileNotFoundError:
            continue
    return count


@pytest.mark.e2e
@pytest.mark.parametrize("replace", [False, True])
async def test_a_copy_too_big_for_one_call_is_copied_in_parts(store, small_copies, replace):
    data = os.urandom(12 * MIB + 7)
    written = {"x-amz-meta-a": "1", "content-type": "x/y", "x-amz-tagging": "a=1&b=x%20y"}
    source = await store.put(BUCKET, "big", data, len(data), written)
    headers = {"x-amz-meta-b": "2"} if replace else {}
    stored = await store.copy((BUCKET, "big"), (BUCKET, "copy"), headers, replace=replace, source_if_match=source.etag)
    body = await store.get(BUCKET, "copy")
    assert b"".join([chunk async for chunk in body.chunks]) == data
    assert stored.etag.endswith("-3")
    kept = {name: value for name, value in body.info.headers.items() if name.startswith("x-amz-meta")}
    assert kept == ({"x-amz-meta-b": "2"} if replace else {"x-amz-meta-a": "1"})
    assert await store.tags(BUCKET, "copy") == "a=1&b=x%20y"


@pytest.mark.e2e
@pytest.mark.parametrize("directive", ["COPY", "REPLACE"])
async def test_the_tags_of_a_copy_in_parts_are_its_sources_or_its_own(store, small_copies, directive):
    data = bytes(2 * MIB)
    source = await store.put(BUCKET, "tagged", data, len(data), {"x-amz-tagging": "a=1"})
    headers = {"x-amz-tagging": "b=2", "x-amz-tagging-directive": directive}
    await store.copy((BUCKET, "tagged"), (BUCKET, "copy"), headers, replace=False, source_if_match=source.etag)
    assert await store.tags(BUCKET, "copy") == {"COPY": "a=1", "REPLACE": "b=2"}[directive]


@pytest.mark.e2e
async def test_a_copy_in_parts_that_fails_leaves_no_upload(store, small_copies):
    data = bytes(12 * MIB)
    await store.put(BUCKET, "big", data, len(data), {})
    with pytest.raises(S3Error, match="PreconditionFailed"):
        await store.copy((BUCKET, "big"), (BUCKET, "never"), {}, replace=False, source_if_match="0" * 32)
    assert await store.list_uploads(BUCKET) == []
    with pytest.raises(S3Error, match="NoSuchKey"):
        await store.head(BUCKET, "never")


@pytest.mark.e2e
async def test_bodies_that_nobody_reads_give_their_connections_back(store):
    await store.put(BUCKET, "unread", bytes(4 * MIB), 4 * MIB, {})
    before = sockets()
    bodies = [await store.get(BUCKET, "unread") for _ in range(10)]
    for body in bodies:
        await body.aclose()
    await asyncio.sleep(0.1)
    assert sockets() <= before


@pytest.mark.e2e
async def test_metadata_that_cannot_be_sent_is_the_clients_fault(store):
    with pytest.raises(S3Error) as error:
        await store.create_upload(BUCKET, "k", {"x-amz-meta-a": "\u00fc"})
    assert error.value.status == 400


@pytest.mark.parametrize(
    ("after", "prefix", "delimiter", "is_skipped"),
    [
        ("a/", "", "/", True),
        ("dir/sub/", "dir/", "/", True),
        ("dir/", "dir/", "/", False),
        ("dir/key", "dir/", "/", False),
        ("a/", "", "", False),
        ("a/b/", "", "/", False),
    ],
)
def test_only_a_common_prefix_is_skipped_as_a_whole(after, prefix, delimiter, is_skipped):
    assert (beyond(after, prefix, delimiter) != after) == is_skipped


@pytest.fixture
def silent():
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


async def test_a_silent_bucket_fails_its_check_soon(silent, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr(bucket_store, "_CHECK_S", 0.3)
    store = BucketUpstream(endpoint=silent)
    await store.start()
    began_s = time.monotonic()
    with pytest.raises(UpstreamError, match="expected an answer within"):
        await store.check()
    assert time.monotonic() - began_s < 3
    await store.close()


class Relay:
    """Between the proxy and the bucket; changes one byte of the bodies that are sent with a mark in them."""

    def __init__(self, target: str, changes: int) -> None:
        host, _, port = target.removeprefix("http://").partition(":")
        self._target = host, int(port)
        self.changes_left = changes

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._target)
        await asyncio.gather(self._pump(reader, back, changing=True), self._pump(there, writer), return_exceptions=True)

    async def _pump(self, reader, writer, *, changing: bool = False) -> None:
        with contextlib.closing(writer):
            while data := await reader.read(1 << 16):
                if changing and self.changes_left and MARK in data:
                    self.changes_left -= 1
                    data = data.replace(MARK, MARK[::-1])
                writer.write(data)
                await writer.drain()


MARK = b"<<a byte that must not change>>"


@pytest.mark.e2e
@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("changes", [1, 100])
async def test_bytes_that_change_on_their_way_are_sent_again_or_refused(seaweedfs, monkeypatch, in_parts, changes):
    for name, value in seaweedfs.environment().items():
        monkeypatch.setenv(name, value)
    data = bytes(1000) + MARK + bytes(1000)
    crc = encode(crc32c(data).to_bytes(4, "big"))
    checksum = SentChecksum("x-amz-checksum-crc32c", lambda: crc, known=True)
    async with Relay(seaweedfs.endpoint, changes) as endpoint:
        store = BucketUpstream(endpoint=endpoint)
        await store.start()
        with contextlib.suppress(S3Error):
            await store.create_bucket(BUCKET)
        if in_parts:
            headers = {"x-amz-checksum-algorithm": "CRC32C"}
            upload = await store.create_upload(BUCKET, "changed", headers)
            work = store.put_part(BUCKET, "changed", upload, 1, data, len(data), checksum)
        else:
            work = store.put(BUCKET, "changed", data, len(data), {}, None, checksum)
        if changes > 10:
            with pytest.raises(UpstreamError, match="what arrived is not what was sent"):
                await work
        else:
            await work
        await store.close()
