"""What an upload does when something fails around its end: memory, the record, the answer."""

from __future__ import annotations

import asyncio
import math
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects import stored_writer
from s4weights.proxy.objects import upload as uploading
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.objects.parts import CopiedBody
from s4weights.proxy.upstream.directory import DirectoryUpstream

from .conftest import BUCKET, MIB, assert_nothing_left, body, pieces, read_all

PART = 6 * MIB


async def begun(objects, data, count=1):
    """An upload, and its first parts."""
    upload_id = await objects.uploads.create(BUCKET, "k", {})
    return upload_id, [await send(objects, upload_id, n, data[(n - 1) * PART : n * PART]) for n in range(1, count + 1)]


async def send(objects, upload_id, number, data):
    return await objects.uploads.put_part(BUCKET, "k", upload_id, number, body(data), len(data))


def failing(*_, **__):
    raise RuntimeError("a fault of ours")


async def failing_later(*_, **__):
    failing()


async def test_an_upload_does_not_wait_for_memory_that_its_own_grown_parts_hold(
    upstream, settings, weights, tmp_path, monkeypatch
):
    monkeypatch.setattr(uploading, "SETTLE_BYTES", 0)
    monkeypatch.setattr(stored_writer, "PART_GROWTH", ((1, 1), (2, 4)))
    small = replace(settings, memory_bytes=2, part_bytes=5 * MIB, state_dir=tmp_path / "small")
    objects = Objects(upstream, small, Metrics())
    await objects.start()
    data = weights(10 * PART)
    async with asyncio.timeout(60):
        upload_id, sent = await begun(objects, data, 11)
        await objects.complete(BUCKET, "k", upload_id, sent, None)
    assert await read_all(objects, "k") == data
    await objects.close()
    await assert_nothing_left(objects, upstream)


async def test_memory_goes_back_though_dropping_fails(objects, upstream, weights, monkeypatch):
    monkeypatch.setattr(uploading, "SETTLE_BYTES", 0)
    upload_id, _ = await begun(objects, weights(4 * PART), 4)
    upload = objects.uploads.find(BUCKET, "k", upload_id)
    assert objects.store.writes.used_bytes
    abort = upload._writer.abort
    monkeypatch.setattr(upload._writer, "abort", failing_later)
    await objects.uploads.abort(BUCKET, "k", upload_id)
    assert (objects.store.writes.used_bytes, objects.store.parts.used_bytes) == (0, 0)
    await abort()
    await assert_nothing_left(objects, upstream)


async def test_what_passes_through_ends_though_its_abort_fails(objects, upstream, monkeypatch):
    upload_id, _ = await begun(objects, os.urandom(PART))
    monkeypatch.setattr(upstream, "abort_upload", failing_later)
    await objects.uploads.abort(BUCKET, "k", upload_id)
    monkeypatch.undo()
    left = list(objects.store.journal.left_open())
    assert [one.upload_id for one in left] == [one.upload_id for one in await upstream.list_uploads(BUCKET)]
    assert (objects.store.writes.used_bytes, objects.store.parts.used_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "fails"),
    [
        *[("encoded", "store.metrics.object_written"), ("encoded", "store.journal.remove")],
        *[("encoded", "store.lineage.predecessors.written"), ("passed through", "store.metrics.object_written")],
        ("passed through", "store.journal.remove"),
    ],
)
async def test_an_error_behind_the_visible_object_does_not_become_the_answer(
    objects, weights, monkeypatch, caplog, kind, fails
):
    data = weights(2 * PART) if kind == "encoded" else os.urandom(2 * PART)
    upload_id, sent = await begun(objects, data, -(-len(data) // PART))
    *path, name = fails.split(".")
    owner = objects
    for one in path:
        owner = getattr(owner, one)
    if name == "remove":
        real = owner.remove
        monkeypatch.setattr(owner, name, lambda one: failing() if hasattr(one, "upload_id") else real(one))
    else:
        monkeypatch.setattr(owner, name, failing)
    await objects.complete(BUCKET, "k", upload_id, sent, None)
    monkeypatch.undo()
    assert await read_all(objects, "k") == data
    assert objects.store.writes.used_bytes == 0


async def test_whatever_keeps_one_upload_from_giving_memory_back_the_others_are_asked(objects, weights, monkeypatch):
    monkeypatch.setattr(uploading, "SETTLE_BYTES", 0)
    uploads = []
    for _ in range(2):
        upload_id, _ = await begun(objects, weights(4 * PART), 4)
        uploads.append(objects.uploads.find(BUCKET, "k", upload_id))
    monkeypatch.setattr(uploads[0]._writer, "park", failing_later)
    await objects.uploads.relieve()
    assert uploads[0]._held_bytes
    assert not uploads[1]._held_bytes


async def test_an_upload_whose_part_is_on_its_way_is_not_idle(objects):
    upload_id = await objects.uploads.create(BUCKET, "k", {})
    data, goes_on = os.urandom(PART), asyncio.Event()

    async def slow():
        async for chunk in pieces(data):
            await goes_on.wait()
            yield chunk

    slowly = body(b"")
    slowly._chunks = slow()
    sending = asyncio.create_task(objects.uploads.put_part(BUCKET, "k", upload_id, 1, slowly, len(data)))
    await asyncio.sleep(0)
    await objects.uploads._end_idle(upload_id, math.inf)
    goes_on.set()
    part = await sending
    await objects.uploads._end_idle(upload_id, -math.inf)  # used since it was found to be idle
    await objects.complete(BUCKET, "k", upload_id, [part], None)
    assert await read_all(objects, "k") == data


async def test_a_passed_part_whose_later_form_was_not_answered_is_asked_for_again(objects, upstream, monkeypatch):
    first, second = os.urandom(PART), os.urandom(PART)
    upload_id, sent = await begun(objects, first)
    real = DirectoryUpstream.put_part

    async def unanswered(*arguments, **options):
        await real(upstream, *arguments, **options)
        raise UpstreamError("no answer")

    monkeypatch.setattr(upstream, "put_part", unanswered)
    with pytest.raises(UpstreamError):
        await send(objects, upload_id, 1, second)
    monkeypatch.undo()
    with pytest.raises(S3Error, match="InvalidPart"):
        await objects.complete(BUCKET, "k", upload_id, sent, None)
    again = await send(objects, upload_id, 1, second)
    await objects.complete(BUCKET, "k", upload_id, [again], None)
    assert await read_all(objects, "k") == second


async def test_of_several_forms_of_a_passed_part_at_once_one_is_the_parts(objects):
    forms = [os.urandom(PART + at) for at in range(4)]
    upload_id, _ = await begun(objects, os.urandom(PART))
    await asyncio.gather(*(send(objects, upload_id, 1, form) for form in forms))
    listed = objects.uploads.list_parts(BUCKET, "k", upload_id)
    try:
        await objects.complete(BUCKET, "k", upload_id, listed, None)
    except S3Error as error:  # the bucket keeps another one than came last here; the client sends it again
        assert error.code == "InvalidPart"
        await objects.complete(BUCKET, "k", upload_id, [await send(objects, upload_id, 1, forms[0])], None)
    assert await read_all(objects, "k") in forms


async def test_a_passed_part_sent_several_times_at_once_is_taken_each_time(objects):
    data = os.urandom(PART)
    upload_id, _ = await begun(objects, data)
    sent = await asyncio.gather(*(send(objects, upload_id, 1, data) for _ in range(4)))
    await objects.complete(BUCKET, "k", upload_id, sent[:1], None)
    assert await read_all(objects, "k") == data


async def test_a_client_that_stalls_holds_up_no_other_call_of_a_passed_upload(objects):
    data = {number: os.urandom(PART) for number in (1, 2)}
    upload_id = await objects.uploads.create(BUCKET, "k", {})
    may_go_on = asyncio.Event()

    async def stalled():
        yield data[2][:MIB]
        await may_go_on.wait()
        yield data[2][MIB:]

    await send(objects, upload_id, 2, os.urandom(PART))
    one = await send(objects, upload_id, 1, data[1])
    slow = asyncio.create_task(objects.uploads.put_part(BUCKET, "k", upload_id, 2, CopiedBody(stalled()), PART))
    await asyncio.sleep(0)
    await asyncio.wait_for(send(objects, upload_id, 1, data[1]), 30)
    may_go_on.set()
    await objects.complete(BUCKET, "k", upload_id, [one, await slow], None)
    assert await read_all(objects, "k") == data[1] + data[2]


async def test_a_part_sent_again_while_its_first_form_is_sent_on_is_the_part(objects, upstream, monkeypatch):
    first, second = os.urandom(PART), os.urandom(PART)
    upload_id = await objects.uploads.create(BUCKET, "k", {})
    await send(objects, upload_id, 2, first)
    real, begun_sending, may_go_on = upstream.put_part, asyncio.Event(), asyncio.Event()

    async def slow(bucket, key, upload, number, *arguments):
        if number == 2 and not begun_sending.is_set():
            begun_sending.set()
            await may_go_on.wait()
        return await real(bucket, key, upload, number, *arguments)

    monkeypatch.setattr(upstream, "put_part", slow)
    deciding = asyncio.create_task(send(objects, upload_id, 1, os.urandom(PART)))  # now the first form is sent on
    await begun_sending.wait()
    again = asyncio.create_task(send(objects, upload_id, 2, second))
    await asyncio.sleep(0.01)
    may_go_on.set()
    await objects.complete(BUCKET, "k", upload_id, [await deciding, await again], None)
    assert (await read_all(objects, "k"))[PART:] == second


async def test_an_upload_that_was_at_work_when_others_began_to_wait_gives_its_memory_back_after(
    upstream, settings, weights, tmp_path, monkeypatch
):
    monkeypatch.setattr(uploading, "SETTLE_BYTES", 0)
    small = replace(settings, memory_bytes=2, part_bytes=5 * MIB, state_dir=tmp_path / "small")
    objects = Objects(upstream, small, Metrics())
    await objects.start()
    is_asked, goes_on = asyncio.Event(), asyncio.Event()
    real = upstream.create_upload

    async def gated(*arguments, **options):
        is_asked.set()
        await goes_on.wait()
        return await real(*arguments, **options)

    monkeypatch.setattr(upstream, "create_upload", gated)
    upload_id, _ = await begun(objects, weights(3 * PART))
    sending = asyncio.create_task(send(objects, upload_id, 2, weights(2 * PART, 1)))
    await is_asked.wait()
    other = weights(2 * PART, 2)
    putting = asyncio.create_task(objects.put(BUCKET, "other", body(other), len(other), {}))
    while not objects.store.writes.is_short:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    goes_on.set()
    await sending
    async with asyncio.timeout(60):
        await putting
    assert await read_all(objects, "other") == other
    await objects.close()
    await assert_nothing_left(objects, upstream)


async def test_a_client_that_goes_away_while_its_part_is_spilled_leaves_no_file(small_memory, upstream, monkeypatch):
    upload_id = await small_memory.uploads.create(BUCKET, "k", {})
    data = os.urandom(3 * MIB)
    begins, goes_on, ended = threading.Event(), threading.Event(), threading.Event()
    real = Path.open

    def late(self, *arguments, **options):
        begins.set()
        goes_on.wait()
        try:
            return real(self, *arguments, **options)
        finally:
            ended.set()

    monkeypatch.setattr(Path, "open", late)
    sending = asyncio.create_task(small_memory.uploads.put_part(BUCKET, "k", upload_id, 1, body(data), len(data)))
    await asyncio.to_thread(begins.wait)
    sending.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    goes_on.set()
    await asyncio.gather(sending, return_exceptions=True)
    await asyncio.to_thread(ended.wait)
    monkeypatch.undo()
    await small_memory.uploads.abort(BUCKET, "k", upload_id)
    await assert_nothing_left(small_memory, upstream)


async def test_a_body_that_is_not_as_long_as_its_parts_is_never_shown(objects, upstream, weights, monkeypatch):
    data = weights(2 * PART)
    upload_id, sent = await begun(objects, data, -(-len(data) // PART))
    upload = objects.uploads.find(BUCKET, "k", upload_id)
    real = upload._feed

    async def short(encoder, part):
        upload._fed_bytes = 1  # as if the first byte had been given to the encoder
        await real(encoder, part)

    monkeypatch.setattr(upload, "_feed", short)
    for _ in range(2):
        with pytest.raises(S3Error, match="InternalError"):
            await objects.complete(BUCKET, "k", upload_id, sent, None)
    with pytest.raises(S3Error, match="NoSuchKey"):
        await objects.resolve(BUCKET, "k")
    await objects.uploads.abort(BUCKET, "k", upload_id)
    await assert_nothing_left(objects, upstream)
