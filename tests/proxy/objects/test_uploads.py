"""Multipart uploads: any order, any size, sent again, left out; one body at the end."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os

import pytest

from s4weights.proxy.errors import S3Error
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.protocol import Conditions, Part

from .conftest import BUCKET, MIB, assert_nothing_left, body, pieces, read_all

PART = 8 * MIB


def split(data, size=PART):
    return {number: data[start : start + size] for number, start in enumerate(range(0, len(data), size), 1)}


def multipart_etag(parts):
    md5s = b"".join(hashlib.md5(part).digest() for part in parts)
    return f"{hashlib.md5(md5s).hexdigest()}-{len(parts)}"


async def send(objects, upload_id, number, data, key="model"):
    part = await objects.uploads.put_part(BUCKET, key, upload_id, number, body(data), len(data))
    assert part.etag == hashlib.md5(data).hexdigest()
    return part


async def upload(objects, parts, order=None, key="model", headers=None):
    upload_id = await objects.uploads.create(BUCKET, key, headers or {})
    sent = {}
    for number in order or parts:
        sent[number] = await send(objects, upload_id, number, parts[number], key)
    chosen = [sent[number] for number in sorted(sent)]
    return await objects.uploads.complete(BUCKET, key, upload_id, chosen, None)


@pytest.fixture(scope="module")
def data(weights):
    return weights(60 * MIB)


@pytest.mark.parametrize("order", ["ascending", "descending", "mixed"])
async def test_parts_in_any_order_make_one_checkpoint(objects, upstream, data, order):
    parts = split(data)
    numbers = {
        "ascending": list(parts),
        "descending": list(reversed(parts)),
        "mixed": [*list(parts)[1::2], *list(parts)[::2]],
    }[order]
    answer = await upload(objects, parts, numbers, headers={"x-amz-meta-run": "r1"})
    assert answer.etag == multipart_etag(list(parts.values()))
    found = await objects.resolve(BUCKET, "model")
    assert found.is_container
    assert found.stored.size < 0.75 * len(data)
    assert found.info.headers == {"x-amz-meta-run": "r1"} | {
        name: value for name, value in found.info.headers.items() if not name.startswith("x-amz-meta-")
    }
    assert found.parts == tuple(len(part) for part in parts.values())
    assert await read_all(objects, "model") == data
    await assert_nothing_left(objects, upstream)


async def test_parts_at_once(objects, upstream, data):
    parts = split(data)
    upload_id = await objects.uploads.create(BUCKET, "model", {})
    sent = await asyncio.gather(*(send(objects, upload_id, number, part) for number, part in parts.items()))
    await objects.uploads.complete(BUCKET, "model", upload_id, sent, None)
    assert await read_all(objects, "model") == data
    await assert_nothing_left(objects, upstream)


async def test_parts_sent_twice_at_once_are_one_body(objects, upstream, data):
    parts = split(data)
    upload_id = await objects.uploads.create(BUCKET, "model", {})
    twice = [number for number in parts for _ in range(2)]
    sent = await asyncio.gather(*(send(objects, upload_id, number, parts[number]) for number in twice))
    await objects.uploads.complete(BUCKET, "model", upload_id, sent[::2], None)
    assert await read_all(objects, "model") == data
    await assert_nothing_left(objects, upstream)


async def test_without_memory_parts_wait_on_disk(small_memory, upstream, data):
    parts = split(data)
    await upload(small_memory, parts, list(reversed(parts)))
    assert await read_all(small_memory, "model") == data
    await assert_nothing_left(small_memory, upstream)


async def test_the_first_parts_are_upstream_before_the_last_has_come(objects, upstream, data):
    parts = split(data)
    upload_id = await objects.uploads.create(BUCKET, "model", {})
    for number in list(parts)[:-1]:
        await send(objects, upload_id, number, parts[number])
    assert len(await upstream.list_uploads(BUCKET)) == 1
    await objects.uploads.abort(BUCKET, "model", upload_id)
    await assert_nothing_left(objects, upstream)


async def test_what_is_no_checkpoint_keeps_the_clients_parts(objects, upstream):
    noise = os.urandom(14 * MIB)
    parts = split(noise, 6 * MIB)
    answer = await upload(objects, parts, [2, 3, 1], key="noise")
    found = await objects.resolve(BUCKET, "noise")
    assert not found.is_container
    assert answer.etag == found.stored.etag == multipart_etag(list(parts.values()))
    assert await read_all(objects, "noise") == noise
    await assert_nothing_left(objects, upstream)


async def test_a_part_sent_again_counts_in_its_later_form(objects, upstream, data):
    parts = split(data[: 24 * MIB])
    upload_id = await objects.uploads.create(BUCKET, "model", {})
    await send(objects, upload_id, 2, os.urandom(PART))
    sent = [await send(objects, upload_id, number, part) for number, part in parts.items()]
    await objects.uploads.complete(BUCKET, "model", upload_id, sent, None)
    assert await read_all(objects, "model") == data[: 24 * MIB]
    await assert_nothing_left(objects, upstream)


async def test_an_encoded_part_sent_again_with_the_same_bytes_is_a_retry(objects, data):
    parts = split(data)
    upload_id = await objects.uploads.create(BUCKET, "model", {})
    sent = [await send(objects, upload_id, number, part) for number, part in parts.items()]
    assert (await send(objects, upload_id, 1, parts[1])).etag == sent[0].etag
    await objects.uploads.complete(BUCKET, "model", upload_id, sent, None)
    assert await read_all(objects, "model") == data


async def test_an_encoded_part_sent_again_with_other_bytes_is_refused_by_name(objects, upstream, data):
    parts = split(data)
    upload_id = await objects.uploads.create(BUCKET, "model", {})
    sent = [await send(objects, upload_id, number, part) for number, part in parts.items()]
    with pytest.raises(S3Error, match="Part 1 is encoded already"):
        await send(objects, upload_id, 1, os.urandom(PART))
    with pytest.raises(S3Error, match="Part 1 is encoded already and cannot be left out"):
        await objects.uploads.complete(BUCKET, "model", upload_id, sent[1:], None)
    await objects.uploads.complete(BUCKET, "model", upload_id, sent, None)
    assert await read_all(objects, "model") == data


async def test_parts_may_be_left_out_and_have_gaps(objects, data):
    parts = split(data[: 30 * MIB])
    upload_id = await objects.uploads.create(BUCKET, "model", {})
    sent = {number: await send(objects, upload_id, number * 3, part) for number, part in parts.items()}
    chosen = [sent[1], sent[3]]
    await objects.uploads.complete(BUCKET, "model", upload_id, chosen, None)
    assert await read_all(objects, "model") == parts[1] + parts[3]


@pytest.mark.parametrize(
    ("choose", "code"),
    [
        (lambda sent: [sent[1], sent[0]], "InvalidPartOrder"),
        (lambda sent: [sent[0], sent[0]], "InvalidPartOrder"),
        (lambda sent: [*sent, Part(9, sent[0].etag)], "InvalidPart"),
        (lambda sent: [Part(1, "0" * 32), *sent[1:]], "InvalidPart"),
    ],
    ids=["order", "twice", "missing", "etag"],
)
async def test_a_wrong_list_is_refused_and_the_upload_stays_open(objects, data, choose, code):
    parts = split(data[: 24 * MIB])
    upload_id = await objects.uploads.create(BUCKET, "model", {})
    sent = [await send(objects, upload_id, number, part) for number, part in parts.items()]
    with pytest.raises(S3Error) as error:
        await objects.uploads.complete(BUCKET, "model", upload_id, choose(sent), None)
    assert error.value.code == code
    await objects.uploads.complete(BUCKET, "model", upload_id, sent, None)
    assert await read_all(objects, "model") == data[: 24 * MIB]


async def test_a_part_under_five_mebibytes_is_too_small_unless_it_is_the_last(objects, data):
    upload_id = await objects.uploads.create(BUCKET, "model", {})
    sent = [await send(objects, upload_id, number, part) for number, part in split(data[: 8 * MIB], 4 * MIB).items()]
    with pytest.raises(S3Error, match="EntityTooSmall"):
        await objects.uploads.complete(BUCKET, "model", upload_id, sent, None)


async def test_complete_asked_again_gives_the_same_answer(objects, data):
    upload_id = await objects.uploads.create(BUCKET, "model", {})
    sent = [await send(objects, upload_id, number, part) for number, part in split(data[: 20 * MIB]).items()]
    first, second = await asyncio.gather(
        *(objects.uploads.complete(BUCKET, "model", upload_id, sent, None) for _ in range(2))
    )
    assert first.etag == second.etag
    assert (await objects.uploads.complete(BUCKET, "model", upload_id, sent, None)).etag == first.etag


async def test_if_none_match_at_complete_keeps_the_first_one(objects, upstream, data):
    old = split(data[: 20 * MIB])
    await upload(objects, old)
    upload_id = await objects.uploads.create(BUCKET, "model", {})
    sent = [await send(objects, upload_id, number, part) for number, part in split(data[: 40 * MIB]).items()]
    for _ in range(2):
        with pytest.raises(S3Error, match="PreconditionFailed"):
            await objects.uploads.complete(BUCKET, "model", upload_id, sent, Conditions(if_none_match="*"))
    assert await read_all(objects, "model") == data[: 20 * MIB]
    await objects.uploads.abort(BUCKET, "model", upload_id)
    await assert_nothing_left(objects, upstream)


@pytest.mark.parametrize("size", [6 * MIB, 40 * MIB], ids=["in one piece", "in parts"])
async def test_an_upload_whose_end_was_refused_can_end_otherwise(objects, upstream, data, size):
    await upload(objects, split(data[: 20 * MIB]))
    parts = split(data[:size])
    upload_id = await objects.uploads.create(BUCKET, "model", {})
    sent = [await send(objects, upload_id, number, part) for number, part in parts.items()]
    with pytest.raises(S3Error, match="PreconditionFailed"):
        await objects.uploads.complete(BUCKET, "model", upload_id, sent, Conditions(if_none_match="*"))
    async with asyncio.timeout(30):  # what it holds goes back once nothing is on its way
        while objects.store.writes.used_bytes > objects.store.settings.part_bytes:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await send(objects, upload_id, 1, parts[1])
    stored = await objects.uploads.complete(BUCKET, "model", upload_id, sent, None)
    assert stored.etag == multipart_etag(parts.values())
    assert await read_all(objects, "model") == data[:size]
    await assert_nothing_left(objects, upstream)


async def test_a_part_that_breaks_off_leaves_nothing(objects, data):
    upload_id = await objects.uploads.create(BUCKET, "model", {})

    async def breaks():
        async for chunk in pieces(data[: 3 * MIB]):
            yield chunk
        raise S3Error("BadDigest")

    broken = body(b"")
    broken._chunks = breaks()
    with pytest.raises(S3Error, match="BadDigest"):
        await objects.uploads.put_part(BUCKET, "model", upload_id, 1, broken, PART)
    assert objects.uploads.list_parts(BUCKET, "model", upload_id) == []
    assert objects.store.parts.used_bytes == 0


@pytest.mark.parametrize(
    ("bucket", "key", "known"), [("other", "model", True), (BUCKET, "b", True), (BUCKET, "model", False)]
)
async def test_an_upload_is_known_by_its_key_and_id_only(objects, bucket, key, known):
    upload_id = await objects.uploads.create(BUCKET, "model", {})
    with pytest.raises(S3Error, match="NoSuchUpload"):
        objects.uploads.list_parts(bucket, key, upload_id if known else "unknown")


async def test_uploads_and_parts_are_listed_as_the_client_made_them(objects, data):
    ids = [await objects.uploads.create(BUCKET, key, {}) for key in ("b", "a", "c/d")]
    await objects.uploads.put_part(BUCKET, "b", ids[0], 2, body(data[:PART]), PART)
    await objects.uploads.put_part(BUCKET, "b", ids[0], 1, body(data[:PART]), PART)
    assert [upload.key for upload in await objects.uploads.list_uploads(BUCKET)] == ["a", "b", "c/d"]
    assert [upload.key for upload in await objects.uploads.list_uploads(BUCKET, prefix="c")] == ["c/d"]
    parts = objects.uploads.list_parts(BUCKET, "b", ids[0])
    assert [(part.number, part.size) for part in parts] == [(1, PART), (2, PART)]


async def test_many_idle_uploads_leave_room_for_others(upstream, settings, tmp_path, data):
    """Sixteen uploads that stop half-way hold nothing that the seventeenth would need."""
    from dataclasses import replace

    layer = Objects(upstream, replace(settings, memory_bytes=160 * MIB, state_dir=tmp_path / "idle"), Metrics())
    await layer.start()
    parts = split(data[: 48 * MIB])
    ids = []
    for number in range(16):
        ids.append(await layer.uploads.create(BUCKET, f"idle-{number}", {}))
        for part in itertools.islice(parts, 5):
            await send(layer, ids[-1], part, parts[part], f"idle-{number}")
    await asyncio.wait_for(upload(layer, parts, key="seventeenth"), 60)
    assert await read_all(layer, "seventeenth") == data[: 48 * MIB]
    sent = [Part(part, hashlib.md5(parts[part]).hexdigest()) for part in itertools.islice(parts, 5)]
    await layer.uploads.complete(BUCKET, "idle-3", ids[3], sent, None)
    assert await read_all(layer, "idle-3") == data[: 40 * MIB]
    await layer.close()
    assert await upstream.list_uploads(BUCKET) == []


async def test_the_next_start_aborts_what_a_killed_one_left_open(upstream, settings, data):
    killed = Objects(upstream, settings, Metrics())
    await killed.start()
    upload_id = await killed.uploads.create(BUCKET, "model", {})
    for number, part in split(data).items():
        await send(killed, upload_id, number, part)
    assert len(await upstream.list_uploads(BUCKET)) == 1
    killed.store.journal.close()

    layer = Objects(upstream, settings, Metrics())
    await layer.start()
    assert await upstream.list_uploads(BUCKET) == []
    assert list(layer.store.journal.spill_dir.iterdir()) == []
    await layer.close()


async def test_two_completes_of_other_parts_are_not_answered_alike(objects, data):
    parts = split(data[: 24 * MIB])
    upload_id = await objects.uploads.create(BUCKET, "model", {})
    sent = [await send(objects, upload_id, number, part) for number, part in parts.items()]
    first, second = await asyncio.gather(
        *(objects.uploads.complete(BUCKET, "model", upload_id, listed, None) for listed in (sent, sent[:2])),
        return_exceptions=True,
    )
    assert first.etag == multipart_etag(parts.values())
    assert isinstance(second, S3Error)
    assert second.code == "NoSuchUpload"
    assert await read_all(objects, "model") == data[: 24 * MIB]
    with pytest.raises(S3Error, match="NoSuchUpload"):
        await objects.uploads.complete(BUCKET, "model", upload_id, sent[:2], None)
