"""Data to and from a bucket, where the bucket or the network between does what they now and then do."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web
from botocore.credentials import Credentials

from s4weights.proxy.errors import S3Error, UpstreamError
from s4weights.proxy.upstream.bucket import calls
from s4weights.proxy.upstream.bucket.calls import Calls, Patience
from s4weights.proxy.upstream.bucket.circuit import Circuit
from s4weights.proxy.upstream.bucket.raw import RawClient
from s4weights.proxy.upstream.protocol import SentChecksum

MIB = 1 << 20


class _Credentials:
    async def get_frozen_credentials(self):
        return Credentials("AKIATEST", "secret").get_frozen_credentials()


@contextlib.asynccontextmanager
async def answering(handler) -> AsyncIterator[int]:
    """A server on a free port; handler: a request's answer."""
    runner = web.ServerRunner(web.Server(handler))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def client(port: int, regional: Callable[[str], str] | None = None) -> AsyncIterator[RawClient]:
    one = RawClient(
        Calls(Circuit(), Patience()), _Credentials(), "us-east-1", f"http://127.0.0.1:{port}", 4, regional=regional
    )
    try:
        yield one
    finally:
        await one.close()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(calls, "_FIRST_PAUSE_S", 0.001)


def failing_first(status: int, document: str = ""):
    """A handler that fails once and then takes what comes; and what it was sent."""
    seen: list[tuple[web.BaseRequest, bytes]] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.append((request, await request.content.read()))
        if len(seen) == 1:
            return web.Response(status=status, text=document)
        return web.Response(headers={"ETag": '"e"', "Last-Modified": "Tue, 01 Dec 2026 00:00:00 GMT"}, body=b"body")

    return handler, seen


@pytest.mark.parametrize(
    ("status", "document"),
    [
        (503, "<Error><Code>SlowDown</Code></Error>"),
        (500, ""),
        (400, "<Error><Code>BadDigest</Code></Error>"),
        (400, "<Error><Code>RequestTimeout</Code></Error>"),
    ],
)
async def test_bytes_are_sent_again_whole(status, document):
    handler, seen = failing_first(status, document)
    body = os.urandom(3 * MIB + 1)
    async with answering(handler) as port, client(port) as bucket:
        answer = await bucket.send_whole("b", "k", "", {}, body)
    assert answer["etag"] == '"e"'
    assert [sent for _, sent in seen] == [body, body]


async def test_a_body_without_a_checksum_is_signed_with_its_hash_where_nothing_else_protects_it():
    handler, seen = failing_first(500)
    checksum = SentChecksum("x-amz-checksum-crc32c", lambda: "AAAAAA==", known=True)
    async with answering(handler) as port, client(port) as bucket:
        await bucket.send_whole("b", "k", "", {}, b"some bytes")
        await bucket.send_whole("b", "k", "", {}, b"some bytes", checksum)
    hashes = [request.headers["x-amz-content-sha256"] for request, _ in seen]
    assert hashes == [hashlib.sha256(b"some bytes").hexdigest()] * 2 + ["UNSIGNED-PAYLOAD"]
    assert seen[-1][0].headers["x-amz-checksum-crc32c"] == "AAAAAA=="


async def test_what_the_bucket_refuses_is_not_tried_again():
    handler, seen = failing_first(403, "<Error><Code>AccessDenied</Code><Message>no</Message><Why>x</Why></Error>")
    async with answering(handler) as port, client(port) as bucket:
        with pytest.raises(S3Error, match="AccessDenied: no") as error:
            await bucket.open("b", "k", "", {})
    assert error.value.fields == {"Why": "x"}
    assert len(seen) == 1


async def test_a_read_is_asked_for_again_and_comes_whole():
    handler, seen = failing_first(503)
    async with answering(handler) as port, client(port) as bucket:
        answer, chunks = await bucket.open("b", "k", "versionId=1", {"range": "bytes=0-3"})
        assert b"".join([chunk async for chunk in chunks]) == b"body"
    assert answer.headers["etag"] == '"e"'
    assert {(request.rel_url.raw_query_string, request.headers["range"]) for request, _ in seen} == {
        ("versionId=1", "bytes=0-3")
    }


async def test_an_answer_that_breaks_off_is_no_end():
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Length": "100"})
        await answer.prepare(request)
        await answer.write(b"only this")
        assert request.transport is not None
        request.transport.abort()
        return answer

    async with answering(handler) as port, client(port) as bucket:
        _, chunks = await bucket.open("b", "k", "", {})
        with pytest.raises(UpstreamError):
            [chunk async for chunk in chunks]


async def test_a_bucket_in_another_region_is_found_there_from_then_on():
    there: list[tuple[str, bytes]] = []

    async def elsewhere(request: web.BaseRequest) -> web.Response:
        there.append((request.headers["Authorization"].split("/")[2], await request.content.read()))
        return web.Response(headers={"ETag": '"e"', "Last-Modified": "Tue, 01 Dec 2026 00:00:00 GMT"})

    async with answering(elsewhere) as region:
        here = 0

        async def moved(request: web.BaseRequest) -> web.Response:
            nonlocal here
            here += 1
            await request.content.read()
            document = "<Error><Code>PermanentRedirect</Code></Error>"
            return web.Response(status=301, headers={"x-amz-bucket-region": str(region)}, text=document)

        async with answering(moved) as port, client(port, "http://127.0.0.1:{}".format) as bucket:
            await bucket.send_whole("b", "k", "", {}, b"body")
            answer, _ = await bucket.open("b", "k", "", {})
            answer.close()
            assert here == 1
            await bucket.open("another", "k", "", {})
        assert [body for _, body in there] == [b"body", b"", b""]
        assert {name for name, _ in there} == {str(region)}


async def test_an_answer_cannot_name_a_host():
    async def handler(_: web.BaseRequest) -> web.Response:
        headers = {"x-amz-bucket-region": "evil.example/?"}
        return web.Response(status=301, headers=headers, text="<Error><Code>PermanentRedirect</Code></Error>")

    async with answering(handler) as port, client(port, "http://127.0.0.1:{}".format) as bucket:
        with pytest.raises(S3Error, match="PermanentRedirect"):
            await bucket.open("b", "k", "", {})
    await asyncio.sleep(0)


async def test_answers_without_a_body_end():
    async def handler(_: web.BaseRequest) -> web.Response:
        return web.Response(status=200)

    async with answering(handler) as port, client(port) as bucket, asyncio.timeout(10):
        for _ in range(3):
            _, chunks = await bucket.open("b", "k", "", {})
            assert [chunk async for chunk in chunks] == []
