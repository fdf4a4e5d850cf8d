"""A copy is of one version, also where the source is overwritten in the middle."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
from aiohttp.test_utils import make_mocked_request

from s4weights.proxy.config import Settings
from s4weights.proxy.context import Context
from s4weights.proxy.errors import S3Error
from s4weights.proxy.handlers.copy_object import copy_object
from s4weights.proxy.handlers.forward import forwarded
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.directory import DirectoryUpstream
from tests.proxy.objects.conftest import body, read_all

BUCKET = "training"


class Overwritten(DirectoryUpstream):
    """Somebody else overwrites the source of a copy just before it is made."""

    times = 0

    async def copy(self, source, *arguments, **options):
        if self.times:
            self.times -= 1
            data = b"newer %d" % self.times
            await self.put(*source, data, len(data), {})
        return await super().copy(source, *arguments, **options)


@pytest.fixture
async def objects(tmp_path: Path) -> AsyncIterator[Objects]:
    (tmp_path / "buckets" / BUCKET).mkdir(parents=True)
    upstream = Overwritten(tmp_path / "buckets")
    await upstream.start()
    layer = Objects(upstream, Settings(upstream="", state_dir=tmp_path / "state"), Metrics())
    await layer.start()
    await layer.put(BUCKET, "source", body(b"old"), 3, {})
    yield layer
    await layer.close()
    await upstream.close()


def context_of(objects: Objects, source: str, **headers: str) -> Context:
    sent = {"x-amz-copy-source": source, **{name.replace("_", "-"): value for name, value in headers.items()}}
    request = make_mocked_request("PUT", f"/{BUCKET}/copy", headers=sent)
    return Context(request, objects, BUCKET, "copy", f"/{BUCKET}/copy", "", sent, {})


async def copy(objects: Objects, source: str = quote(f"{BUCKET}/source"), **headers: str) -> None:
    assert (await copy_object(context_of(objects, source, **headers))).status == 200


async def test_a_source_that_is_overwritten_is_looked_up_again(objects):
    objects.store.upstream.times = 2
    await copy(objects)
    assert await read_all(objects, "copy") == b"newer 0"


async def test_but_not_for_ever_nor_against_the_clients_own_condition(objects):
    objects.store.upstream.times = 3
    with pytest.raises(S3Error, match="PreconditionFailed"):
        await copy(objects)
    objects.store.upstream.times = 0
    await objects.put(BUCKET, "copy", body(b"there"), 5, {})
    with pytest.raises(S3Error, match="PreconditionFailed"):
        await copy(objects, if_none_match="*")
    assert await read_all(objects, "copy") == b"there"


@pytest.mark.parametrize(("sent", "key"), [("my+file", "my file"), ("my%20file", "my file"), ("my%2Bfile", "my+file")])
async def test_a_plus_in_a_copy_source_is_a_blank(objects, sent, key):
    await objects.put(BUCKET, key, body(key.encode()), len(key), {})
    await copy(objects, f"{BUCKET}/{sent}")
    assert await read_all(objects, "copy") == key.encode()


async def test_a_copy_source_is_passed_on_as_it_was_read(objects):
    context = context_of(objects, f"{BUCKET}/my+file%2B?versionId=a+b")
    assert forwarded(context, b"").headers["x-amz-copy-source"] == f"{BUCKET}/my%20file%2B?versionId=a+b"
