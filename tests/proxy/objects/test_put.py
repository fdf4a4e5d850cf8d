"""A body goes in whole or not at all, and comes out as it went in."""

from __future__ import annotations

import hashlib
import os

import pytest

from s4weights.codec.container import MAGIC, TRAILER_BYTES
from s4weights.proxy.errors import S3Error
from s4weights.proxy.objects.marker import MARKER
from s4weights.proxy.upstream.protocol import Conditions

from .conftest import BUCKET, MIB, body, pieces, read_all


async def put(objects, key, data, headers=None, conditions=None):
    return await objects.put(BUCKET, key, body(data), len(data), headers or {}, conditions)


async def stored(upstream, key):
    answer = await upstream.get(BUCKET, key)
    return answer.info, b"".join([chunk async for chunk in answer.chunks])


@pytest.mark.parametrize("size", [300_000, 12 * MIB, 20 * MIB + 3])
async def test_a_checkpoint_is_stored_smaller_and_read_identical(objects, upstream, weights, size):
    data = weights(size)
    answer = await put(objects, "model.safetensors", data, {"content-type": "text/x", "x-amz-meta-step": "7"})
    assert answer.etag == hashlib.md5(data).hexdigest()
    info, raw = await stored(upstream, "model.safetensors")
    assert raw.startswith(MAGIC)
    assert len(raw) < 0.75 * len(data)
    found = await objects.resolve(BUCKET, "model.safetensors")
    assert (found.info.size, found.info.etag) == (len(data), answer.etag)
    assert found.info.headers["x-amz-meta-step"] == "7"
    assert found.info.headers["content-type"] == "text/x"
    assert MARKER not in found.info.headers
    assert info.headers[MARKER] == "container"
    assert await read_all(objects, "model.safetensors") == data


@pytest.mark.parametrize(
    "range_", [(0, 1), (1, 1), (MIB - 1, 2), (5_000_000, 3_000_001), (12 * MIB - 1, 1), (0, 12 * MIB)]
)
async def test_a_range_is_the_slice_of_the_body(objects, weights, range_):
    data = weights(12 * MIB)
    await put(objects, "model", data)
    first, length = range_
    assert await read_all(objects, "model", first, length) == data[first : first + length]


@pytest.mark.parametrize("size", [0, 1, 100, 70_000, 3 * MIB])
async def test_what_is_no_checkpoint_lies_in_the_bucket_as_it_came(objects, upstream, size):
    data = os.urandom(size)
    answer = await put(objects, "notes.bin", data)
    info, raw = await stored(upstream, "notes.bin")
    assert raw == data
    assert MARKER not in info.headers
    assert answer.etag == info.etag == hashlib.md5(data).hexdigest()
    assert await read_all(objects, "notes.bin") == data


@pytest.mark.parametrize("size", [100_000, 12 * MIB])
async def test_a_checkpoint_that_does_not_gain_passes_through(objects, upstream, size):
    noise = os.urandom(size)
    header = f'{{"a":{{"dtype":"BF16","shape":[{size // 2}],"data_offsets":[0,{size}]}}}}'.encode()
    data = len(header).to_bytes(8, "little") + header + noise
    answer = await put(objects, "noise.safetensors", data)
    info, raw = await stored(upstream, "noise.safetensors")
    assert raw == data
    assert answer.etag == info.etag
    assert await read_all(objects, "noise.safetensors") == data


async def test_a_container_that_a_client_uploads_comes_back_as_it_was_sent(objects, upstream, weights):
    await put(objects, "model", weights(300_000))
    _, container = await stored(upstream, "model")
    await put(objects, "packed.s4w", container)
    found = await objects.resolve(BUCKET, "packed.s4w")
    assert found.info.size == len(container)
    assert await read_all(objects, "packed.s4w") == container


async def test_a_container_whose_metadata_was_lost_is_still_served_decoded(objects, upstream, weights):
    data = weights(300_000)
    await put(objects, "model", data)
    _, container = await stored(upstream, "model")
    await upstream.put(BUCKET, "copied", container, len(container), {})
    assert await read_all(objects, "copied") == data


async def test_a_body_that_breaks_off_leaves_the_old_object(objects, upstream, weights):
    old, new = weights(300_000), weights(20 * MIB, seed=1)
    await put(objects, "model", old)

    async def breaks():
        async for chunk in pieces(new[: 15 * MIB]):
            yield chunk
        raise S3Error("IncompleteBody")

    broken = body(b"")
    broken._chunks = breaks()
    with pytest.raises(S3Error, match="IncompleteBody"):
        await objects.put(BUCKET, "model", broken, len(new), {}, None)
    assert await read_all(objects, "model") == old
    assert list(objects.store.journal.left_open()) == []
    assert await upstream.list_uploads(BUCKET) == []
    assert objects.store.writes.used_bytes == 0


async def test_if_none_match_keeps_the_first_one(objects, weights):
    first = weights(300_000)
    await put(objects, "model", first, conditions=Conditions(if_none_match="*"))
    with pytest.raises(S3Error, match="PreconditionFailed"):
        await put(objects, "model", weights(300_000, seed=1), conditions=Conditions(if_none_match="*"))
    assert await read_all(objects, "model") == first


@pytest.mark.parametrize("replace", [False, True])
async def test_a_copy_is_the_same_body_without_decoding(objects, weights, replace):
    data = weights(300_000)
    await put(objects, "model", data, {"x-amz-meta-step": "1"})
    source = await objects.resolve(BUCKET, "model")
    answer = await objects.copy(source, BUCKET, "best", {"x-amz-meta-step": "2"}, replace=replace)
    found = await objects.resolve(BUCKET, "best")
    assert answer.etag == found.info.etag == source.info.etag
    assert found.info.headers["x-amz-meta-step"] == ("2" if replace else "1")
    assert await read_all(objects, "best") == data


async def test_listings_show_what_the_client_sent(objects, upstream, weights):
    data, noise = weights(300_000), os.urandom(5000)
    await put(objects, "a", data)
    await put(objects, "b", noise)
    for _ in range(2):
        page = await upstream.list_objects(BUCKET)
        rows = await objects.logical_entries(BUCKET, page.entries)
        assert [(row.key, row.size, row.etag) for row in rows] == [
            ("a", len(data), hashlib.md5(data).hexdigest()),
            ("b", len(noise), hashlib.md5(noise).hexdigest()),
        ]


async def test_an_overwrite_changes_the_listing(objects, upstream, weights):
    for size in (300_000, 400_000):
        data = weights(size)
        await put(objects, "a", data)
        rows = await objects.logical_entries(BUCKET, (await upstream.list_objects(BUCKET)).entries)
        assert rows[0].size == len(data)


@pytest.mark.parametrize("place", ["first frame", "last frame", "index", "trailer"])
async def test_a_damaged_container_is_an_error_never_wrong_bytes(objects, upstream, weights, place):
    data = weights(3 * MIB)
    await put(objects, "model", data)
    _, raw = await stored(upstream, "model")
    offset = {"first frame": 30_000, "last frame": -40_000, "index": -(TRAILER_BYTES + 20), "trailer": -100}[place]
    damaged = bytearray(raw)
    damaged[offset] ^= 1
    info, _ = await stored(upstream, "model")
    await upstream.put(BUCKET, "model", bytes(damaged), len(damaged), info.headers)
    got = bytearray()

    async def read():
        found = await objects.resolve(BUCKET, "model")
        async for chunk in objects.read(found, 0, found.info.size):
            got.extend(chunk)

    with pytest.raises((S3Error, ValueError), match="model"):
        await read()
    assert data.startswith(got)
    assert len(got) < len(data)


async def test_a_read_never_mixes_two_versions(objects, weights):
    old = weights(12 * MIB)
    await put(objects, "model", old)
    found = await objects.resolve(BUCKET, "model")
    await put(objects, "model", weights(12 * MIB, seed=1))
    with pytest.raises(S3Error, match="PreconditionFailed"):
        [chunk async for chunk in objects.read(found, 0, found.info.size)]
