"""Uploads that nobody works on are aborted; those of others are left alone."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.objects.journal import Journal
from s4weights.proxy.objects.leftovers import abort_left_open, abort_unanswered
from s4weights.proxy.objects.open_upload import abort_recorded, begin_upload
from s4weights.proxy.upstream.directory import DirectoryUpstream

from .conftest import BUCKET, directory_with_bucket

AGE_S = 3600.0


class Lossy(DirectoryUpstream):
    """Answers to CreateMultipartUpload that get lost, and aborts that do not arrive."""

    lost_creates = 0
    repeats = False
    refused_aborts = 0

    async def create_upload(self, bucket, key, headers, *, on_repeat=None):
        if self.lost_creates:
            self.lost_creates -= 1
            await super().create_upload(bucket, key, headers)
            if not self.repeats:
                raise UpstreamError("no answer")
            on_repeat()
        return await super().create_upload(bucket, key, headers)

    async def abort_upload(self, bucket, key, upload_id):
        if self.refused_aborts:
            self.refused_aborts -= 1
            raise UpstreamError("no answer")
        await super().abort_upload(bucket, key, upload_id)


@pytest.fixture
async def upstream(tmp_path: Path) -> AsyncIterator[Lossy]:
    async with directory_with_bucket(Lossy, tmp_path) as directory:
        yield directory


@pytest.fixture
def journal(tmp_path: Path):
    one = Journal(tmp_path / "state")
    one.open()
    yield one
    one.close()


async def open_ids(upstream) -> set[str]:
    return {upload.upload_id for upload in await upstream.list_uploads(BUCKET)}


def make_older(journal: Journal, seconds: float) -> None:
    """The bucket's uploads are as young as they are: what is asked is when they were begun, not how long ago."""
    for record in journal._uploads.glob("*.asked"):
        fields = json.loads(record.read_text())
        record.write_text(json.dumps({**fields, "asked_s": fields["asked_s"] - seconds}))


async def test_an_answered_question_leaves_no_trace(upstream, journal):
    upload = await begin_upload(upstream, journal, BUCKET, "k", {})
    assert list(journal.left_asked()) == list(journal.left_open()) == []
    assert journal.ids() == {upload.upload_id}
    assert await abort_recorded(upstream, journal, upload)
    assert list(journal._uploads.iterdir()) == []


async def test_an_upload_that_could_not_be_aborted_is_aborted_later(upstream, journal):
    upload = await begin_upload(upstream, journal, BUCKET, "k", {})
    upstream.refused_aborts = 1
    assert not await abort_recorded(upstream, journal, upload)
    await abort_left_open(upstream, journal)
    assert await open_ids(upstream) == set()
    assert list(journal._uploads.iterdir()) == []


async def test_where_the_bucket_is_out_of_reach_no_more_is_tried_for_now(upstream, journal):
    uploads = [await begin_upload(upstream, journal, BUCKET, f"k{number}", {}) for number in range(3)]
    for upload in uploads:
        journal.let_go(upload)
    upstream.refused_aborts = 1
    await abort_left_open(upstream, journal)
    assert len(await open_ids(upstream)) == 3
    await abort_left_open(upstream, journal)
    assert await open_ids(upstream) == set()


@pytest.mark.parametrize("repeats", [False, True])
async def test_an_upload_whose_beginning_was_not_answered_is_aborted_once_old(upstream, journal, monkeypatch, repeats):
    upstream.lost_creates, upstream.repeats = 1, repeats
    known = None
    if repeats:
        known = await begin_upload(upstream, journal, BUCKET, "k", {})
    else:
        with pytest.raises(UpstreamError):
            await begin_upload(upstream, journal, BUCKET, "k", {})
    others = await upstream.create_upload(BUCKET, "k-2", {})
    [asked] = journal.left_asked()
    assert asked.key == "k"
    await abort_unanswered(upstream, journal, AGE_S)
    assert len(await open_ids(upstream)) == (3 if known else 2)
    monkeypatch.setattr(time, "time", lambda now=time.time(): now + AGE_S + 1000)
    await abort_unanswered(upstream, journal, AGE_S)
    assert await open_ids(upstream) == {others} | ({known.upload_id} if known else set())
    assert list(journal.left_asked()) == []


async def test_what_others_began_at_the_same_key_stays(upstream, journal):
    asked = await asyncio.to_thread(journal.ask, BUCKET, "k")
    journal.let_go(asked)
    make_older(journal, 2 * AGE_S)
    later = await upstream.create_upload(BUCKET, "k", {})
    await abort_unanswered(upstream, journal, AGE_S)
    assert await open_ids(upstream) == {later}


async def test_an_upload_that_got_parts_stays(upstream, journal, monkeypatch):
    journal.let_go(await asyncio.to_thread(journal.ask, BUCKET, "k"))
    theirs = await upstream.create_upload(BUCKET, "k", {})
    await upstream.put_part(BUCKET, "k", theirs, 1, b"part", 4)
    monkeypatch.setattr(time, "time", lambda now=time.time(): now + AGE_S + 1000)
    await abort_unanswered(upstream, journal, AGE_S)
    assert await open_ids(upstream) == {theirs}


async def test_a_question_of_a_bucket_that_is_gone_is_forgotten(upstream, journal, monkeypatch):
    journal.let_go(await asyncio.to_thread(journal.ask, "gone", "k"))
    monkeypatch.setattr(time, "time", lambda now=time.time(): now + AGE_S + 1000)
    await abort_unanswered(upstream, journal, AGE_S)
    assert list(journal.left_asked()) == []


async def test_a_refusal_is_an_answer(upstream, journal):
    with pytest.raises(S3Error, match="NoSuchBucket"):
        await begin_upload(upstream, journal, "missing", "k", {})
    assert list(journal._uploads.iterdir()) == []


def test_a_killed_run_leaves_its_questions_and_a_torn_record_is_dropped(journal, tmp_path):
    journal.ask(BUCKET, "k")
    (journal._uploads / "torn.json").write_text('{"bucket": "b')
    journal.close()
    after = Journal(tmp_path / "state")
    after.open()
    assert [one.key for one in after.left_asked()] == ["k"]
    assert list(after.left_open()) == []
    assert not (after._uploads / "torn.json").exists()
    after.close()
