"""One suite for every upstream: a directory, and a real S3 server."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import uuid
from collections.abc import AsyncIterator

import pytest

from s4weights.proxy.errors import S3Error
from s4weights.proxy.upstream.bucket import BucketUpstream
from s4weights.proxy.upstream.directory import DirectoryUpstream
from s4weights.proxy.upstream.protocol import ByteRange, Conditions, Part, Upstream

MIB = 1 << 20


@pytest.fixture(params=["directory", pytest.param("seaweedfs", marks=pytest.mark.e2e)])
async def upstream(request, tmp_path, monkeypatch) -> AsyncIterator[Upstream]:
    if request.param == "directory":
        (tmp_path / "buckets").mkdir()
        store = DirectoryUpstream(tmp_path / "buckets")
    else:
        server = request.getfixturevalue("seaweedfs")
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        store = BucketUpstream(endpoint=server.endpoint)
    await store.start()
    yield store
    await store.close()


@pytest.fixture
async def bucket(upstream) -> AsyncIterator[str]:
    """An empty bucket. One for all tests: SeaweedFS sets up volumes for each new one."""
    with contextlib.suppress(S3Error):
        await upstream.create_bucket("conformance")
    yield "conformance"
    for upload in await upstream.list_uploads("conformance"):
        await upstream.abort_upload("conformance", upload.key, upload.upload_id)
    for entry in (await upstream.list_objects("conformance")).entries:
        await upstream.delete("conformance", entry.key)


async def stream(data: bytes, size: int = 300_000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def read(upstream, bucket, key, byte_range=None, **options) -> bytes:
    body = await upstream.get(bucket, key, byte_range=byte_range, **options)
    data = b"".join([chunk async for chunk in body.chunks])
    assert len(data) == body.length
    return data


async def put(upstream, bucket, key, data, headers=None, conditions=None):
    return await upstream.put(bucket, key, data, len(data), headers or {}, conditions)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("size", [0, 1, 70_000, 3 * MIB + 1])
async def test_a_body_comes_back(upstream, bucket, size, streamed):
    data = os.urandom(size)
    stored = await upstream.put(bucket, "a/b", stream(data) if streamed else data, size, {})
    info = await upstream.head(bucket, "a/b")
    assert await read(upstream, bucket, "a/b") == data
    assert stored.etag == info.etag == hashlib.md5(data).hexdigest()
    assert info.size == size


@pytest.mark.parametrize("streamed", [False, True])
async def test_headers_come_back(upstream, bucket, streamed):
    headers = {
        "content-type": "application/x-tensor",
        "cache-control": "no-cache",
        "content-disposition": 'attachment; filename="m.pt"',
        "content-encoding": "identity",
        "x-amz-meta-step": "7",
        "x-amz-meta-long-name": "a b=c;d",
    }
    await upstream.put(bucket, "k", stream(b"x") if streamed else b"x", 1, headers)
    assert (await upstream.head(bucket, "k")).headers.items() >= headers.items()
    assert (await upstream.get(bucket, "k")).info.headers.items() >= headers.items()


@pytest.mark.parametrize(
    ("byte_range", "expected"),
    [
        (ByteRange(0, 0), slice(0, 1)),
        (ByteRange(5, 9), slice(5, 10)),
        (ByteRange(90), slice(90, 100)),
        (ByteRange(90, 1000), slice(90, 100)),
        (ByteRange(-10), slice(90, 100)),
        (ByteRange(-1000), slice(0, 100)),
    ],
)
async def test_ranges(upstream, bucket, byte_range, expected):
    data = os.urandom(100)
    await put(upstream, bucket, "k", data)
    body = await upstream.get(bucket, "k", byte_range=byte_range)
    assert b"".join([chunk async for chunk in body.chunks]) == data[expected]
    assert body.info.size == 100


async def test_a_range_beyond_the_end_is_invalid(upstream, bucket):
    await put(upstream, bucket, "k", b"abc")
    with pytest.raises(S3Error, match="InvalidRange"):
        await upstream.get(bucket, "k", byte_range=ByteRange(3, 5))


async def test_any_range_of_an_empty_object_is_empty(upstream, bucket):
    await put(upstream, bucket, "k", b"", {"x-amz-meta-a": "1"})
    body = await upstream.get(bucket, "k", byte_range=ByteRange(-100))
    assert b"".join([chunk async for chunk in body.chunks]) == b""
    assert (body.info.size, body.info.headers["x-amz-meta-a"]) == (0, "1")


async def test_if_match_reads_one_version_only(upstream, bucket):
    old = await put(upstream, bucket, "k", b"old")
    assert await read(upstream, bucket, "k", if_match=old.etag) == b"old"
    await put(upstream, bucket, "k", b"new")
    with pytest.raises(S3Error) as error:
        await upstream.get(bucket, "k", if_match=old.etag)
    assert (error.value.code, error.value.status) == ("PreconditionFailed", 412)


@pytest.mark.parametrize("fault", ["short", "raises"])
async def test_a_body_that_ends_early_leaves_the_old_object(upstream, bucket, fault):
    await put(upstream, bucket, "k", b"old")

    async def body():
        yield b"x" * MIB
        if fault == "raises":
            raise S3Error("BadDigest")

    with pytest.raises(Exception, match="BadDigest" if fault == "raises" else "."):
        await upstream.put(bucket, "k", body(), 2 * MIB, {})
    assert await read(upstream, bucket, "k") == b"old"


async def test_conditions_of_a_write(upstream, bucket):
    first = await put(upstream, bucket, "k", b"1", conditions=Conditions(if_none_match="*"))
    for conditions in (
        Conditions(if_none_match="*"),
        Conditions(if_match='"00000000000000000000000000000000"'),
    ):
        with pytest.raises(S3Error, match="PreconditionFailed"):
            await put(upstream, bucket, "k", b"2", conditions=conditions)
    await put(upstream, bucket, "k", b"3", conditions=Conditions(if_match=f'"{first.etag}"'))
    assert await read(upstream, bucket, "k") == b"3"


async def test_what_is_not_there(upstream, bucket):
    for call in (upstream.head, upstream.get):
        with pytest.raises(S3Error) as error:
            await call(bucket, "nothing")
        assert (error.value.code, error.value.status) == ("NoSuchKey", 404)
    await upstream.delete(bucket, "nothing")
    with pytest.raises(S3Error, match="NoSuchBucket"):
        await upstream.head_bucket("no-such-bucket-here")
    with pytest.raises(S3Error, match="NoSuchBucket"):
        await upstream.list_objects("no-such-bucket-here")


async def test_delete(upstream, bucket):
    await put(upstream, bucket, "a/b/c", b"x")
    await upstream.delete(bucket, "a/b/c")
    assert (await upstream.list_objects(bucket)).entries == []


async def test_multipart(upstream, bucket):
    parts = [os.urandom(5 * MIB), os.urandom(6 * MIB), b"end"]
    upload_id = await upstream.create_upload(bucket, "k", {"x-amz-meta-a": "1", "content-type": "x/y"})
    assert [one.upload_id for one in await upstream.list_uploads(bucket)] == [upload_id]
    sent = {}
    for number in (3, 1, 2):
        body = parts[number - 1] if number == 1 else stream(parts[number - 1])
        sent[number] = await upstream.put_part(bucket, "k", upload_id, number, body, len(parts[number - 1]))
    with pytest.raises(S3Error, match="NoSuchKey"):
        await upstream.head(bucket, "k")
    stored = await upstream.complete_upload(bucket, "k", upload_id, [sent[1], sent[2], sent[3]])
    md5s = b"".join(hashlib.md5(part).digest() for part in parts)
    assert stored.etag == f"{hashlib.md5(md5s).hexdigest()}-3"
    assert await read(upstream, bucket, "k") == b"".join(parts)
    info = await upstream.head(bucket, "k")
    assert (info.headers["x-amz-meta-a"], info.headers["content-type"]) == ("1", "x/y")
    assert await upstream.list_uploads(bucket) == []


async def test_a_part_again_replaces_the_first(upstream, bucket):
    upload_id = await upstream.create_upload(bucket, "k", {})
    await upstream.put_part(bucket, "k", upload_id, 1, b"first", 5)
    part = await upstream.put_part(bucket, "k", upload_id, 1, b"second", 6)
    await upstream.complete_upload(bucket, "k", upload_id, [part])
    assert await read(upstream, bucket, "k") == b"second"


@pytest.mark.parametrize("wrong", ["etag", "missing"])
async def test_complete_with_a_wrong_part(upstream, bucket, wrong):
    upload_id = await upstream.create_upload(bucket, "k", {})
    part = await upstream.put_part(bucket, "k", upload_id, 1, bytes(5 * MIB), 5 * MIB)
    listed = [Part(1, "0" * 32)] if wrong == "etag" else [part, Part(2, part.etag)]
    with pytest.raises(S3Error, match="InvalidPart"):
        await upstream.complete_upload(bucket, "k", upload_id, listed)
    await upstream.abort_upload(bucket, "k", upload_id)
    with pytest.raises(S3Error, match="NoSuchKey"):
        await upstream.head(bucket, "k")


async def test_complete_with_parts_out_of_order(upstream, bucket):
    upload_id = await upstream.create_upload(bucket, "k", {})
    parts = [await upstream.put_part(bucket, "k", upload_id, number, bytes(5 * MIB), 5 * MIB) for number in (1, 2)]
    with pytest.raises(S3Error, match="InvalidPartOrder"):
        await upstream.complete_upload(bucket, "k", upload_id, parts[::-1])


async def test_only_the_last_part_may_be_small(upstream, bucket):
    upload_id = await upstream.create_upload(bucket, "k", {})
    parts = [await upstream.put_part(bucket, "k", upload_id, number, b"small", 5) for number in (1, 2)]
    with pytest.raises(S3Error, match="EntityTooSmall"):
        await upstream.complete_upload(bucket, "k", upload_id, parts)


async def test_abort(upstream, bucket):
    upload_id = await upstream.create_upload(bucket, "k", {})
    await upstream.put_part(bucket, "k", upload_id, 1, b"x", 1)
    await upstream.abort_upload(bucket, "k", upload_id)
    assert await upstream.list_uploads(bucket) == []
    with pytest.raises(S3Error, match="NoSuchUpload"):
        await upstream.put_part(bucket, "k", upload_id, 2, b"x", 1)


KEYS = ["a/b", "a/c/d", "b/ü/ñ", "b/z", "bb+c=d&e f", "c", "ckpt/step=1/m.pt", "ckpt/step=10/m.pt"]
# SeaweedFS sorts a folder by its name without the slash, and loses its way where an object has that name too.
BEFORE_THE_SLASH = ["a", "a-b", "a b"]


async def listed(upstream, bucket, **options):
    entries, prefixes, after = [], [], ""
    while True:
        page = await upstream.list_objects(bucket, after=after, **options)
        entries += [entry.key for entry in page.entries]
        prefixes += page.prefixes
        if page.next_after is None:
            return entries, prefixes
        after = page.next_after


@pytest.mark.parametrize("max_keys", [1, 2, 3, 1000])
async def test_listing_pages_hold_every_key_once_in_order(upstream, bucket, max_keys):
    keys = KEYS + (BEFORE_THE_SLASH if isinstance(upstream, DirectoryUpstream) else [])
    for key in keys:
        await put(upstream, bucket, key, key.encode())
    ordered = sorted(keys, key=str.encode)
    assert await listed(upstream, bucket, max_keys=max_keys) == (ordered, [])
    by_folder = await listed(upstream, bucket, max_keys=max_keys, delimiter="/")
    assert by_folder == ([key for key in ordered if "/" not in key], ["a/", "b/", "ckpt/"])
    inside = await listed(upstream, bucket, max_keys=max_keys, delimiter="/", prefix="ckpt/")
    assert inside == ([], ["ckpt/step=1/", "ckpt/step=10/"])
    assert await listed(upstream, bucket, max_keys=max_keys, prefix="a/") == (["a/b", "a/c/d"], [])


async def test_more_keys_than_a_page_holds(upstream, bucket):
    keys = [f"many/{number:04}" for number in range(1100)]
    for start in range(0, len(keys), 50):
        await asyncio.gather(*(put(upstream, bucket, key, b"x") for key in keys[start : start + 50]))
    assert len((await upstream.list_objects(bucket)).entries) == 1000
    assert await listed(upstream, bucket) == (keys, [])
    await asyncio.gather(*(upstream.delete(bucket, key) for key in keys))


async def test_listing_rows(upstream, bucket):
    stored = await put(upstream, bucket, "k", b"12345")
    [row] = (await upstream.list_objects(bucket)).entries
    assert (row.key, row.size, row.etag) == ("k", 5, stored.etag)


@pytest.mark.parametrize("replace", [False, True])
async def test_copy(upstream, bucket, replace):
    source = await put(upstream, bucket, "from me", b"data", {"x-amz-meta-a": "1", "content-type": "x/y"})
    await upstream.copy(
        (bucket, "from me"), (bucket, "to/me"), {"x-amz-meta-b": "2"} if replace else {},
        replace=replace, source_if_match=source.etag,
    )  # fmt: skip
    assert await read(upstream, bucket, "to/me") == b"data"
    headers = (await upstream.head(bucket, "to/me")).headers
    assert {name: value for name, value in headers.items() if name.startswith("x-amz-meta")} == (
        {"x-amz-meta-b": "2"} if replace else {"x-amz-meta-a": "1"}
    )


async def test_copy_of_another_version_is_refused(upstream, bucket):
    await put(upstream, bucket, "k", b"data")
    with pytest.raises(S3Error, match="PreconditionFailed"):
        await upstream.copy((bucket, "k"), (bucket, "l"), {}, replace=False, source_if_match="0" * 32)


async def test_writes_of_one_key_at_once_leave_one_of_them_whole(upstream, bucket):
    bodies = [os.urandom(200_000) for _ in range(8)]
    await asyncio.gather(*(put(upstream, bucket, "k", body) for body in bodies))
    assert await read(upstream, bucket, "k") in bodies


async def test_buckets(upstream):
    bucket = f"b-{uuid.uuid4().hex[:20]}"
    await upstream.create_bucket(bucket)
    assert bucket in [one.name for one in await upstream.list_buckets()]
    await upstream.head_bucket(bucket)
    await upstream.delete_bucket(bucket)
    assert bucket not in [one.name for one in await upstream.list_buckets()]
    await upstream.check()
