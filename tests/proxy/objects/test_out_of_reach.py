"""A bucket that is out of reach now and then while an upload is under way: the upload goes on where it was."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects import upload as uploading
from s4weights.proxy.objects.codec_pool import MAX_FRAMES_AHEAD
from s4weights.proxy.objects.objects import Objects

from .conftest import BUCKET, MIB, assert_nothing_left, body, directory_with_bucket, read_all
from .faulty import FaultyUpstream

PART = 8 * MIB


@pytest.fixture
async def upstream(tmp_path: Path) -> AsyncIterator[FaultyUpstream]:
    async with directory_with_bucket(FaultyUpstream, tmp_path) as directory:
        yield directory


@pytest.fixture(scope="module")
def checkpoint(weights) -> bytes:
    return weights(24 * MIB)


async def ask_again(call):
    for _ in range(20):
        try:
            return await call()
        except UpstreamError:
            continue
    raise AssertionError("never answered")


@pytest.mark.parametrize("part_mib", [5, 8, 16])
@pytest.mark.parametrize("settle_bytes", [0, 64 * MIB], ids=["encoded as they come", "encoded at the end"])
@pytest.mark.parametrize("seed", range(3))
async def test_an_upload_goes_on_where_the_bucket_was_out_of_reach(
    upstream, settings, weights, monkeypatch, part_mib, settle_bytes, seed
):
    monkeypatch.setattr(uploading, "SETTLE_BYTES", settle_bytes)
    chance = random.Random(seed)
    objects = Objects(upstream, replace(settings, part_bytes=part_mib * MIB), Metrics())
    await objects.start()
    objects.store.pool.frames_ahead = MAX_FRAMES_AHEAD  # as with more processors
    earlier = weights(48 * MIB)
    await objects.put(BUCKET, "checkpoint-1/model", body(earlier), len(earlier), {})
    upstream.fails = lambda: chance.random() < 0.4
    # A third of it is predicted from the one before.
    data = earlier[: 16 * MIB] + weights(48 * MIB, seed + 1)[16 * MIB :]
    key = "checkpoint-2/model"
    upload_id = await objects.uploads.create(BUCKET, key, {})
    sent = []
    for number, at in enumerate(range(0, len(data), 6 * MIB), 1):
        part = bytes(data[at : at + 6 * MIB])
        sent.append(
            await ask_again(
                lambda part=part, number=number: objects.uploads.put_part(
                    BUCKET, key, upload_id, number, body(part, chance.choice([MIB, 777_777])), len(part)
                )
            )
        )
    await ask_again(lambda: objects.complete(BUCKET, key, upload_id, sent, None))
    upstream.fails = lambda: False
    assert await read_all(objects, key) == data
    assert (await objects.resolve(BUCKET, key)).is_container
    await objects.close()
    await assert_nothing_left(objects, upstream)


async def test_a_part_that_was_encoded_in_part_can_neither_change_nor_be_left_out(
    upstream, settings, checkpoint, monkeypatch
):
    monkeypatch.setattr(uploading, "SETTLE_BYTES", 0)
    objects = Objects(upstream, replace(settings, part_bytes=5 * MIB), Metrics())
    await objects.start()
    upload_id = await objects.uploads.create(BUCKET, "k", {})
    first, second = checkpoint[:PART], checkpoint[PART:]
    one = await objects.uploads.put_part(BUCKET, "k", upload_id, 1, body(first), len(first))
    upstream.fails = lambda: True
    with pytest.raises(UpstreamError):
        await objects.uploads.put_part(BUCKET, "k", upload_id, 2, body(second), len(second))
    upstream.fails = lambda: False
    with pytest.raises(S3Error, match="encoded already"):
        await objects.uploads.put_part(BUCKET, "k", upload_id, 2, body(b"other"), 5)
    with pytest.raises(S3Error, match="cannot be left out"):
        await objects.complete(BUCKET, "k", upload_id, [one], None)
    two = await objects.uploads.put_part(BUCKET, "k", upload_id, 2, body(second), len(second))
    await objects.complete(BUCKET, "k", upload_id, [one, two], None)
    assert await read_all(objects, "k") == checkpoint
    await objects.close()
    await assert_nothing_left(objects, upstream)


@pytest.mark.parametrize(("listed", "late"), [((1, 3), 2), ((2, 3), 1)])
async def test_a_part_that_comes_after_the_end_was_tried_gets_into_no_body(
    upstream, settings, weights, monkeypatch, listed, late
):
    monkeypatch.setattr(uploading, "SETTLE_BYTES", 0)
    objects = Objects(upstream, replace(settings, part_bytes=5 * MIB), Metrics())
    await objects.start()
    parts = {number: weights(24 * MIB, number) for number in (1, 2, 3)}
    upload_id = await objects.uploads.create(BUCKET, "k", {})

    async def send(number):
        return await objects.uploads.put_part(BUCKET, "k", upload_id, number, body(parts[number]), len(parts[number]))

    upstream.fails = lambda: True
    sent = {}
    for number in listed:
        while number not in sent:
            try:
                sent[number] = await send(number)
            except UpstreamError:
                upstream.fails = lambda: False
    upstream.fails = lambda: True
    with pytest.raises(UpstreamError):
        await objects.complete(BUCKET, "k", upload_id, [sent[number] for number in listed], None)
    upstream.fails = lambda: False
    sent[late] = await send(late)
    sent[listed[1]] = await send(listed[1])
    with pytest.raises(S3Error, match="InvalidPart"):
        await objects.complete(BUCKET, "k", upload_id, [sent[number] for number in (1, 2, 3)], None)
    await objects.complete(BUCKET, "k", upload_id, [sent[number] for number in listed], None)
    assert await read_all(objects, "k") == b"".join(parts[number] for number in listed)
    await objects.close()
    await assert_nothing_left(objects, upstream)
