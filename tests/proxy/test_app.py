"""The end of the service takes a bounded time, whatever the bucket does."""

from __future__ import annotations

import asyncio
import io

import aiohttp
import numpy as np
import pytest

from s4weights.proxy import app
from s4weights.proxy.config import Settings
from s4weights.proxy.upstream.directory import DirectoryUpstream
from tests.proxy.objects.conftest import safetensors

MIB = 1 << 20


class Unanswering(DirectoryUpstream):
    """Takes every call but the abort of an upload."""

    async def abort_upload(self, *arguments, **options):
        await asyncio.Event().wait()


@pytest.mark.parametrize("answers", [True, False], ids=["an answering bucket", "a silent bucket"])
async def test_open_uploads_are_aborted_at_the_end_or_left_to_the_next_start(tmp_path, monkeypatch, caplog, answers):
    (tmp_path / "buckets" / "training").mkdir(parents=True)
    settings = Settings(
        upstream=str(tmp_path / "buckets"), state_dir=tmp_path / "state", listen="127.0.0.1:0", health="127.0.0.1:0"
    )
    monkeypatch.setattr(app, "CLOSE_S", 0.3)
    kind = DirectoryUpstream if answers else Unanswering
    monkeypatch.setattr(app, "open_upstream", lambda _: kind(tmp_path / "buckets"))
    async with app.running(settings) as service, aiohttp.ClientSession() as session:
        url = f"{service.endpoint}/training/step-1.safetensors"
        async with session.post(f"{url}?uploads") as answer:
            upload_id = (await answer.text()).partition("<UploadId>")[2].partition("</UploadId>")[0]
        body = safetensors(np.random.default_rng(0).normal(0, 0.02, 48 * MIB))
        for number in range(1, 4):
            part = body[(number - 1) * 32 * MIB : number * 32 * MIB]
            async with session.put(f"{url}?partNumber={number}&uploadId={upload_id}", data=io.BytesIO(part)) as answer:
                assert answer.status == 200
    left = len(list((tmp_path / "state" / "uploads").iterdir()))
    assert left == (0 if answers else 1)
    assert ("they stand in the journal" in caplog.text) is not answers
    monkeypatch.undo()
    async with app.running(settings):
        pass
    assert list((tmp_path / "state" / "uploads").iterdir()) == []
    assert list((tmp_path / "buckets" / ".s4weights" / "uploads").iterdir()) == []
    assert list((tmp_path / "buckets" / "training").iterdir()) == []
