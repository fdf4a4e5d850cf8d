"""Clients that are slow, go half, or send too much: an answer where one can be had, and the connection goes on or ends."""

from __future__ import annotations

import time

import pytest

from tests.proxy.handlers.conftest import BUCKET

from .wire import exchange, request

SHORT = pytest.mark.parametrize("service_settings", [{"header_timeout_s": 0.6, "body_timeout_s": 0.4}])
CLOSE = b"Connection: close"


def put(service, *lines, body=b"", path=None, version="1.1"):
    return request(service, "PUT", path or service.presigned("PUT", f"/{BUCKET}/k"), *lines, body=body, version=version)


def listing(service, *lines, version="1.1"):
    return request(service, "GET", service.presigned("GET", f"/{BUCKET}"), *lines, version=version)


async def test_100_continue_comes_at_once_and_the_answer_behind_it(service):
    ask = put(service, b"Expect: 100-continue", b"Content-Length: 4", CLOSE)
    started_s = time.monotonic()
    answer = await exchange(service, ask, b"data", pause_s=10.0)
    assert answer.statuses == [100, 200]
    assert time.monotonic() - started_s < 5
    assert service.stored() == ["k"]


async def test_clients_of_http_1_0_get_no_100_continue(service):
    ask = put(service, b"Expect: 100-continue", b"Content-Length: 4", body=b"data", version="1.0")
    assert (await exchange(service, ask)).statuses == [200]


@pytest.mark.parametrize("fault", ["no such key", "no signature", "wrong document", "range"])
async def test_the_connection_goes_on_after_an_error(service, fault):
    await service.call("put_object", Bucket=BUCKET, Key="there", Body=b"data")
    path = f"/{BUCKET}/there"
    head = [f"{name}: {value}".encode() for name, value in service.signed("GET", path, {"range": "bytes=9-"}).items()]
    attack, status = {
        "no such key": (request(service, "GET", service.presigned("GET", f"/{BUCKET}/missing")), 404),
        "no signature": (put(service, b"Content-Length: 4", body=b"data", path=path), 403),
        "wrong document": (request(service, "POST", f"/{BUCKET}?delete", b"Content-Length: 3", body=b"<a>"), 403),
        "range": (request(service, "GET", path, *(line for line in head if not line.startswith(b"host"))), 416),
    }[fault]
    answer = await exchange(service, attack, listing(service, CLOSE), pause_s=0.2)
    assert answer.statuses == [status, 200]


async def test_a_large_body_that_is_refused_is_told_so_before_the_connection_ends(service):
    body = bytes(4 << 20)
    ask = put(service, b"Content-Length: %d" % len(body), body=body, path=f"/{BUCKET}/k")
    answer = await exchange(service, ask)
    assert (answer.statuses, answer.code, answer.header("connection")) == ([403], "AccessDenied", "close")


@SHORT
async def test_a_head_that_comes_too_slowly_ends_the_connection(service):
    pieces = [bytes([byte]) for byte in listing(service)]
    started_s = time.monotonic()
    answer = await exchange(service, *pieces, pause_s=0.1)
    assert answer.statuses == []
    assert time.monotonic() - started_s < 5


@SHORT
async def test_a_connection_that_asks_nothing_more_is_closed(service):
    started_s = time.monotonic()
    assert (await exchange(service, listing(service))).statuses == [200]
    assert 0.4 < time.monotonic() - started_s < 5


@SHORT
async def test_a_document_that_stops_coming_is_given_up(service):
    path = f"/{BUCKET}?delete"
    lines = [f"{name}: {value}".encode() for name, value in service.signed("POST", path).items() if name != "host"]
    ask = request(service, "POST", path, *lines, b"Transfer-Encoding: chunked", body=b"9\r\n<Delete")
    answer = await exchange(service, ask, half_close=False)
    assert (answer.statuses, answer.code) == ([400], "RequestTimeout")


async def test_a_client_that_has_nothing_more_to_send_still_gets_its_answer(service):
    answer = await exchange(service, listing(service), half_close=True)
    assert answer.statuses == [200]
    answer = await exchange(service, put(service, b"Content-Length: 4", body=b"data"), half_close=True)
    assert answer.statuses == [200]


async def test_half_a_head_and_then_nothing(service):
    assert (await exchange(service, listing(service)[:30], half_close=True)).data == b""


async def test_a_body_shorter_than_announced(service):
    answer = await exchange(service, put(service, b"Content-Length: 9", body=b"data"), half_close=True)
    assert (answer.statuses, answer.code) == ([400], "IncompleteBody")
    assert service.stored() == []


async def test_a_body_longer_than_announced_ends_the_connection(service):
    answer = await exchange(service, put(service, b"Content-Length: 4", body=b"dataMORE\r\n\r\n") + listing(service))
    assert answer.statuses == [400]
    late = await exchange(service, put(service, b"Content-Length: 4", body=b"data"), b"MORE\r\n\r\n", pause_s=0.3)
    assert late.statuses == [200, 400]


async def test_a_body_in_chunks_needs_its_length(service):
    ask = put(service, b"Transfer-Encoding: chunked", body=b"4\r\ndata\r\n0\r\n\r\n")
    answer = await exchange(service, ask + listing(service, CLOSE))
    assert (answer.statuses, answer.code) == ([411, 200], "MissingContentLength")
    assert service.stored() == []


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([b"X-%d: a" % number for number in range(300)], "BadRequest"),
        ([b"X-A: " + b"a" * (17 << 10)], "RequestHeaderSectionTooLarge"),
        ([b"X-%d: " % number + b"a" * 10_000 for number in range(7)], "RequestHeaderSectionTooLarge"),
        ([b"X" * (17 << 10) + b": a"], "RequestHeaderSectionTooLarge"),
    ],
    ids=["count", "one line", "all together", "one name"],
)
async def test_heads_that_are_too_large(service, lines, code):
    answer = await exchange(service, listing(service, CLOSE, *lines))
    assert (answer.statuses, answer.code) == ([400], code)
    assert answer.header("x-amz-request-id")


async def test_a_target_that_is_too_long(service):
    path = service.presigned("GET", f"/{BUCKET}") + "&x=" + "a" * (33 << 10)
    answer = await exchange(service, request(service, "GET", path))
    assert (answer.statuses, answer.code) == ([400], "RequestHeaderSectionTooLarge")


async def test_a_head_without_end_is_cut_off(service):
    lines = (b"X-%d: " % number + b"a" * 16_000 + b"\r\n" for number in range(10_000))
    started_s = time.monotonic()
    answer = await exchange(service, b"GET / HTTP/1.1\r\nHost: x\r\n", *lines)
    assert answer.statuses in ([], [400])
    assert time.monotonic() - started_s < 5


@pytest.mark.parametrize("framed", [b"Content-Length: 5000000", b"Transfer-Encoding: chunked"])
async def test_a_document_that_is_too_long(service, framed):
    path = f"/{BUCKET}?delete"
    lines = [f"{name}: {value}".encode() for name, value in service.signed("POST", path).items() if name != "host"]
    body = b" " * 5_000_000
    sent = b"4c4b40\r\n" + body + b"\r\n0\r\n\r\n" if b"chunked" in framed else body
    answer = await exchange(service, request(service, "POST", path, *lines, framed, body=sent))
    assert (answer.statuses, answer.code) == ([400], "MaxMessageLengthExceeded")


@pytest.mark.parametrize(("line", "keeps"), [([], False), ([b"Connection: keep-alive"], True)])
async def test_http_1_0_keeps_the_connection_only_where_it_asks(service, line, keeps):
    answer = await exchange(service, listing(service, *line, version="1.0"), listing(service, CLOSE), pause_s=0.3)
    assert answer.statuses == [200, 200][: 1 + keeps]


async def test_every_answer_names_its_request(service):
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=b"data")
    asked = [
        listing(service),
        request(service, "HEAD", service.presigned("HEAD", f"/{BUCKET}/k")),
        request(service, "GET", "/"),
        request(service, "GET", "/%ff"),
        request(service, "BREW", "/"),
        request(service, "GET", "http://other/"),
        b"nonsense\r\n\r\n",
    ]
    identities = [(await exchange(service, one, half_close=True)).header("x-amz-request-id") for one in asked]
    assert all(identities)
    assert len(set(identities)) == len(asked)
