"""Faults of the bucket and of the state directory: nothing acknowledged is lost, nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from s4weights.proxy.config import Settings
from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects import fetch as fetching
from s4weights.proxy.objects import open_upload
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.protocol import Conditions

from .conftest import BUCKET, MIB, assert_nothing_left, body, directory_with_bucket, read_all
from .faulty import FaultyUpstream

PART = 8 * MIB


@pytest.fixture
async def upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FaultyUpstream]:
    monkeypatch.setattr(open_upload, "_COMPLETE_PAUSE_S", 0.01)
    monkeypatch.setattr(fetching, "_PAUSE_S", 0.01)
    async with directory_with_bucket(FaultyUpstream, tmp_path) as directory:
        yield directory


@pytest.fixture
async def objects(upstream: FaultyUpstream, settings: Settings) -> AsyncIterator[Objects]:
    layer = Objects(upstream, settings, Metrics())
    await layer.start()
    yield layer
    await layer.close()


@pytest.fixture(scope="module")
def checkpoint(weights) -> bytes:
    return weights(24 * MIB)


async def send_parts(objects, data, size=PART):
    upload_id = await objects.uploads.create(BUCKET, "k", {})
    starts = range(0, len(data), size)
    sent = [
        await objects.uploads.put_part(
            BUCKET, "k", upload_id, number, body(data[at : at + size]), len(data[at : at + size])
        )
        for number, at in enumerate(starts, 1)
    ]
    return upload_id, sent


@pytest.mark.parametrize("kind", ["checkpoint", "noise"])
async def test_a_complete_whose_answer_was_lost_is_found_done(objects, upstream, checkpoint, kind):
    data = checkpoint if kind == "checkpoint" else os.urandom(20 * MIB)
    upload_id, sent = await send_parts(objects, data)
    upstream.lost_completes = 1
    stored = await objects.complete(BUCKET, "k", upload_id, sent, None)
    assert (await objects.resolve(BUCKET, "k")).info.etag == stored.etag
    assert await read_all(objects, "k") == data
    await assert_nothing_left(objects, upstream)


@pytest.mark.parametrize("kind", ["checkpoint", "noise"])
async def test_a_first_write_whose_answer_was_lost_does_not_stand_in_its_own_way(objects, upstream, checkpoint, kind):
    data = checkpoint if kind == "checkpoint" else os.urandom(20 * MIB)
    upload_id, sent = await send_parts(objects, data)
    upstream.unanswered_completes = 1
    first = Conditions(if_none_match="*")
    await objects.complete(BUCKET, "k", upload_id, sent, first)
    assert await read_all(objects, "k") == data
    upload_id, sent = await send_parts(objects, data)
    with pytest.raises(S3Error, match="PreconditionFailed"):
        await objects.complete(BUCKET, "k", upload_id, sent, first)


async def test_a_put_whose_complete_was_lost_is_found_done(objects, upstream, checkpoint):
    upstream.lost_completes = 1
    await objects.put(BUCKET, "k", body(checkpoint), len(checkpoint), {})
    assert await read_all(objects, "k") == checkpoint
    await assert_nothing_left(objects, upstream)


@pytest.mark.parametrize("kind", ["checkpoint", "noise"])
async def test_an_upload_that_is_gone_counts_as_done_by_nobody_else(objects, upstream, checkpoint, kind):
    data = checkpoint if kind == "checkpoint" else os.urandom(20 * MIB)
    await objects.put(BUCKET, "k", body(b"old"), 3, {})
    upload_id, sent = await send_parts(objects, data)
    if kind == "checkpoint":  # nothing is upstream before it is long enough: only the end of the upload begins it
        upstream.lost_completes = 1
        original = upstream.complete_upload

        async def gone(bucket, key, upload, *arguments, **options):
            await upstream.abort_upload(bucket, key, upload)
            return await original(bucket, key, upload, *arguments, **options)

        upstream.complete_upload = gone
    else:
        for left in await upstream.list_uploads(BUCKET):
            await upstream.abort_upload(BUCKET, "k", left.upload_id)
    with pytest.raises(S3Error, match="NoSuchUpload"):
        await objects.complete(BUCKET, "k", upload_id, sent, None)
    assert await read_all(objects, "k") == b"old"


@pytest.mark.parametrize("size", [24 * MIB, 6 * MIB], ids=["in parts", "in one piece"])
async def test_a_bucket_out_of_reach_at_the_end_may_be_asked_again(objects, upstream, checkpoint, size):
    data = checkpoint[:size]
    upload_id, sent = await send_parts(objects, data)
    upstream.unreachable_completes, upstream.unreachable_puts = 3, 1
    with pytest.raises(UpstreamError):
        await objects.complete(BUCKET, "k", upload_id, sent, None)
    with pytest.raises(S3Error, match="NoSuchKey"):
        await objects.resolve(BUCKET, "k")
    upstream.unreachable_completes = upstream.unreachable_puts = 0
    await objects.complete(BUCKET, "k", upload_id, sent, None)
    assert await read_all(objects, "k") == data
    await assert_nothing_left(objects, upstream)


async def test_after_the_end_was_tried_no_part_changes_it(objects, upstream, checkpoint):
    upload_id, sent = await send_parts(objects, checkpoint)
    upstream.unreachable_completes = 3
    with pytest.raises(UpstreamError):
        await objects.complete(BUCKET, "k", upload_id, sent, None)
    more = await objects.uploads.put_part(BUCKET, "k", upload_id, len(sent) + 1, body(b"more"), 4)
    with pytest.raises(S3Error, match="InvalidPart"):
        await objects.complete(BUCKET, "k", upload_id, [*sent, more], None)
    await objects.complete(BUCKET, "k", upload_id, sent, None)
    assert await read_all(objects, "k") == checkpoint


async def test_a_full_disk_under_pressure_costs_no_byte(objects, upstream, weights):
    data = weights(60 * MIB)
    upload_id, sent = await send_parts(objects, data)
    upload = objects.uploads.find(BUCKET, "k", upload_id)
    assert upload._held_bytes
    shutil.rmtree(objects.store.journal.spill_dir)  # what is written there fails from now on
    await objects.uploads.relieve()
    assert upload._held_bytes
    objects.store.journal.spill_dir.mkdir()
    await objects.uploads.relieve()
    assert not upload._held_bytes
    await objects.complete(BUCKET, "k", upload_id, sent, None)
    assert await read_all(objects, "k") == data
    await assert_nothing_left(objects, upstream)


@pytest.mark.parametrize("kind", ["checkpoint", "noise"])
async def test_an_upload_that_cannot_be_recorded_is_not_left_open(objects, upstream, checkpoint, kind):
    data = checkpoint if kind == "checkpoint" else os.urandom(20 * MIB)
    journal = objects.store.journal
    shutil.rmtree(journal._uploads)
    upload_id = await objects.uploads.create(BUCKET, "k", {})
    if kind == "checkpoint":
        work = objects.put(BUCKET, "k", body(data), len(data), {})
    else:
        work = objects.uploads.put_part(BUCKET, "k", upload_id, 1, body(data), len(data))
    with pytest.raises(OSError, match="No such file"):
        await work
    assert await upstream.list_uploads(BUCKET) == []
    journal._uploads.mkdir()


async def test_a_part_that_arrives_behind_its_abort_is_not_left_in_the_bucket(objects, upstream):
    noise = os.urandom(6 * MIB)
    upload_id = await objects.uploads.create(BUCKET, "k", {})
    await objects.uploads.put_part(BUCKET, "k", upload_id, 1, body(noise), len(noise))
    [open_upstream] = await upstream.list_uploads(BUCKET)
    begun, go_on = asyncio.Event(), asyncio.Event()
    aborted: list[str] = []
    abort_upload = upstream.abort_upload

    async def counted(bucket, key, upload):
        aborted.append(upload)
        await abort_upload(bucket, key, upload)

    async def slow():
        yield noise[:MIB]
        begun.set()
        await go_on.wait()
        yield noise[MIB:]

    late = body(b"")
    late._chunks = slow()
    sending = asyncio.create_task(objects.uploads.put_part(BUCKET, "k", upload_id, 2, late, len(noise)))
    await begun.wait()
    upstream.abort_upload = counted
    await objects.uploads.abort(BUCKET, "k", upload_id)
    go_on.set()
    with pytest.raises(S3Error, match="NoSuchUpload"):
        await sending
    assert aborted == [open_upstream.upload_id] * 2


async def test_an_idle_upload_that_cannot_be_ended_does_not_keep_the_next_ones_open(upstream, settings, monkeypatch):
    from s4weights.proxy.objects import uploads as table

    monkeypatch.setattr(table, "_EXPIRY_PERIOD_S", 0.05)
    layer = Objects(upstream, replace(settings, upload_max_age_s=0.2), Metrics())
    await layer.start()
    ids = [await layer.uploads.create(BUCKET, key, {}) for key in ("a", "b", "c")]
    layer.uploads.find(BUCKET, "a", ids[0]).abort = lambda: asyncio.sleep(0, 1 / 0)  # a fault that nobody foresaw
    async with asyncio.timeout(10):
        while await layer.uploads.list_uploads(BUCKET):  # noqa: ASYNC110 - of a clock
            await asyncio.sleep(0.05)
    await layer.close()


async def test_a_read_that_breaks_goes_on_where_it_was(objects, upstream):
    noise = os.urandom(5 * MIB)
    await objects.put(BUCKET, "k", body(noise), len(noise), {})
    found = await objects.resolve(BUCKET, "k")
    upstream.broken_gets = 2
    assert b"".join([chunk async for chunk in objects.read(found, 0, len(noise))]) == noise


async def test_a_read_that_breaks_off_for_good_is_an_error(objects, upstream):
    noise = os.urandom(MIB)
    await objects.put(BUCKET, "k", body(noise), len(noise), {})
    found = await objects.resolve(BUCKET, "k")
    upstream.ignores_ranges = True  # the wrong length
    with pytest.raises(UpstreamError):
        _ = [chunk async for chunk in objects.read(found, 0, 1000)]


async def test_looking_an_object_up_survives_a_break(objects, upstream, checkpoint):
    await objects.put(BUCKET, "k", body(checkpoint), len(checkpoint), {})
    upstream.broken_gets = 2
    assert (await objects.resolve(BUCKET, "k")).info.size == len(checkpoint)


async def test_a_bucket_that_ignores_ranges_does_not_fill_the_memory(objects, upstream):
    noise = os.urandom(MIB)
    await objects.put(BUCKET, "k", body(noise), len(noise), {})
    upstream.ignores_ranges = True
    with pytest.raises(UpstreamError, match="expected the last 65536 bytes, found 1048576"):
        await objects.resolve(BUCKET, "k")


async def test_a_listing_forgets_what_it_could_not_see(objects, upstream, checkpoint):
    await objects.put(BUCKET, "k", body(checkpoint), len(checkpoint), {})
    rows = (await upstream.list_objects(BUCKET)).entries
    upstream.refused_gets = "AccessDenied"
    [hidden] = await objects.logical_entries(BUCKET, rows)
    upstream.refused_gets = ""
    [seen] = await objects.logical_entries(BUCKET, rows)
    assert (hidden.size, seen.size) == (rows[0].size, len(checkpoint))


async def test_a_listing_does_not_keep_the_size_of_an_object_that_was_replaced_meanwhile(objects, upstream, checkpoint):
    await objects.put(BUCKET, "k", body(checkpoint), len(checkpoint), {})
    old = (await upstream.list_objects(BUCKET)).entries
    await objects.put(BUCKET, "k", body(checkpoint[:MIB]), MIB, {})
    [now] = await objects.logical_entries(BUCKET, old)
    assert now.size == MIB
    await objects.put(BUCKET, "k", body(checkpoint[: 2 * MIB]), 2 * MIB, {})
    [later] = await objects.logical_entries(BUCKET, old)
    assert later.size == 2 * MIB


@pytest.mark.parametrize("kind", ["checkpoint", "noise"])
async def test_if_match_is_about_the_etag_that_the_client_knows(objects, checkpoint, kind):
    first = checkpoint[: 3 * MIB] if kind == "checkpoint" else os.urandom(MIB)
    stored = await objects.put(BUCKET, "k", body(first), len(first), {})
    wrong, right = Conditions(if_match='"0123"'), Conditions(if_match=f'"{stored.etag}"')
    for call in (
        lambda conditions: objects.put(BUCKET, "k", body(checkpoint), len(checkpoint), {}, conditions),
        lambda conditions: objects.delete(BUCKET, "k", conditions=conditions),
    ):
        with pytest.raises(S3Error, match="PreconditionFailed"):
            await call(wrong)
    upload_id, sent = await send_parts(objects, checkpoint)
    with pytest.raises(S3Error, match="PreconditionFailed"):
        await objects.complete(BUCKET, "k", upload_id, sent, wrong)
    await objects.uploads.abort(BUCKET, "k", upload_id)
    assert await read_all(objects, "k") == first
    upload_id, sent = await send_parts(objects, checkpoint)
    stored = await objects.complete(BUCKET, "k", upload_id, sent, right)
    assert await read_all(objects, "k") == checkpoint
    await objects.put(BUCKET, "k", body(first), len(first), {}, Conditions(if_match=f'"{stored.etag}"'))
    await objects.delete(BUCKET, "k", conditions=right)
    with pytest.raises(S3Error, match="NoSuchKey"):
        await objects.resolve(BUCKET, "k")


async def test_if_none_match_may_name_an_etag(objects, checkpoint):
    first = checkpoint[: 3 * MIB]
    stored = await objects.put(BUCKET, "k", body(first), len(first), {})
    for refused in ("*", f'"{stored.etag}"', f'"other", "{stored.etag}"'):
        with pytest.raises(S3Error, match="PreconditionFailed"):
            await objects.put(BUCKET, "k", body(checkpoint), len(checkpoint), {}, Conditions(if_none_match=refused))
    await objects.put(BUCKET, "k", body(checkpoint), len(checkpoint), {}, Conditions(if_none_match='"other"'))
    assert await read_all(objects, "k") == checkpoint


async def test_if_none_match_may_name_an_etag_of_a_body_that_passed_through(objects):
    first = await objects.put(BUCKET, "k", body(b"as it came"), 10, {})
    for refused in (f'"{first.etag}"', f'"other", "{first.etag}"', first.etag):
        with pytest.raises(S3Error, match="PreconditionFailed"):
            await objects.put(BUCKET, "k", body(b"another"), 7, {}, Conditions(if_none_match=refused))
    assert await read_all(objects, "k") == b"as it came"
    await objects.put(BUCKET, "k", body(b"another"), 7, {}, Conditions(if_none_match='"other"'))
    assert await read_all(objects, "k") == b"another"


async def test_a_delete_may_ask_for_size_and_time(objects, checkpoint):
    data = checkpoint[: 3 * MIB]
    await objects.put(BUCKET, "k", body(data), len(data), {})
    modified = (await objects.resolve(BUCKET, "k")).info.last_modified
    for wrong in (
        Conditions(if_match_size=str(len(data) - 1)),
        Conditions(if_match_modified="2001-01-01T00:00:00Z"),
        Conditions(if_match_modified="no time at all"),
    ):
        with pytest.raises(S3Error, match="PreconditionFailed"):
            await objects.delete(BUCKET, "k", conditions=wrong)
    right = Conditions(if_match_size=str(len(data)), if_match_modified=modified.isoformat())
    await objects.delete(BUCKET, "k", conditions=right)


async def test_an_empty_part_of_what_passes_through_has_its_checks(objects):
    noise = os.urandom(6 * MIB)
    upload_id, sent = await send_parts(objects, noise, 6 * MIB)
    last = await objects.uploads.put_part(BUCKET, "k", upload_id, 2, body(b""), 0)
    assert last.etag == "d41d8cd98f00b204e9800998ecf8427e"
    await objects.complete(BUCKET, "k", upload_id, [*sent, last], None)
    assert await read_all(objects, "k") == noise
