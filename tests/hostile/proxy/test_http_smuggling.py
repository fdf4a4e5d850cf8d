"""Requests that two servers could read in two ways: refused, and what hides behind them is never answered.

Each is signed (presigned, so by no header that the attack needs), and a right request follows on the same connection.
"""

from __future__ import annotations

import pytest

from tests.proxy.handlers.conftest import BUCKET

from .wire import exchange, request

LENGTH = b"Content-Length: 4"
CHUNKED = b"4\r\ndata\r\n0\r\n\r\n"


def put(service, *lines, body=b"data", version="1.1"):
    return request(service, "PUT", service.presigned("PUT", f"/{BUCKET}/k"), *lines, body=body, version=version)


def listing(service, *lines):
    """What an attacker would hide: an answer to it shows that it was read as a request."""
    return request(service, "GET", service.presigned("GET", f"/{BUCKET}"), b"Connection: close", *lines)


async def refused(service, attack):
    """400, one answer, the connection closed, nothing stored."""
    answer = await exchange(service, attack + listing(service))
    assert (answer.statuses, answer.code) == ([400], "BadRequest"), answer.data
    assert answer.header("x-amz-request-id")
    assert service.stored() == []


async def test_a_right_request_and_the_one_behind_it_are_answered(service):
    answer = await exchange(service, put(service, LENGTH) + listing(service))
    assert answer.statuses == [200, 200]
    assert service.stored() == ["k"]


@pytest.mark.parametrize(
    "lines",
    [
        [LENGTH, b"Transfer-Encoding: chunked"],
        [b"Transfer-Encoding: chunked", LENGTH],
        [b"Transfer-Encoding: chunked", b"Content-Length: 0"],
        [b"Content-Length: 4", b"Content-Length: 5"],
        [b"Content-Length: 4", b"Content-Length: 4"],
        [b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked"],
    ],
)
async def test_two_lengths(service, lines):
    await refused(service, put(service, *lines, body=CHUNKED if b"hunked" in lines[0] else b"data"))


@pytest.mark.parametrize(
    "value", [b"+4", b"4 4", b"0x4", b"4,4", b"-1", b"", b"4;", b"1_0", b"4\0", b"\x0b4", b"2" * 20, b"\xef\xbc\x94"]
)
async def test_a_length_that_is_no_number(service, value):
    await refused(service, put(service, b"Content-Length: " + value))


@pytest.mark.parametrize(
    "value",
    [
        b"xchunked",
        b"chunked, identity",
        b"identity",
        b"\x0bchunked",
        b"chunked\0",
        b"chunked,chunked",
        b"",
        b"'chunked'",
    ],
)
async def test_a_transfer_encoding_that_is_not_quite_chunked(service, value):
    await refused(service, put(service, b"Transfer-Encoding: " + value, body=CHUNKED))


async def test_chunks_that_are_compressed_are_not_implemented(service):
    answer = await exchange(service, put(service, b"Transfer-Encoding: gzip, chunked", body=CHUNKED) + listing(service))
    assert (answer.statuses, answer.code) == ([501, 200], "NotImplemented")
    assert service.stored() == []


@pytest.mark.parametrize(
    "lines",
    [
        [b"X-A: b\r\n c", LENGTH],
        [b"Transfer-Encoding:\r\n chunked"],
        [b"X-A: b\nContent-Length: 4"],
        [b"X-A: b\rContent-Length: 4"],
        [b"Content-Length : 4"],
        [b"Content-Length\t: 4"],
        [b" X-A: b", LENGTH],
        [b": b", LENGTH],
        [b"X\0A: 4", LENGTH],
        [b"X-A: a\0b", LENGTH],
        [b"X(A): b", LENGTH],
        [b"no colon", LENGTH],
    ],
    ids=[
        "fold",
        "fold of TE",
        "bare LF",
        "bare CR",
        "space",
        "tab",
        "fold first",
        "no name",
        "NUL",
        "NUL in value",
        "()",
        "line",
    ],
)
async def test_header_lines_that_servers_read_differently(service, lines):
    await refused(service, put(service, *lines))


async def test_lines_that_end_in_a_line_feed_alone(service):
    await refused(service, put(service, LENGTH).replace(b"\r\n", b"\n"))


@pytest.mark.parametrize(
    "body",
    [
        b"-4\r\ndata\r\n0\r\n\r\n",
        b"0x4\r\ndata\r\n0\r\n\r\n",
        b"ffffffffffffffff1\r\ndata\r\n0\r\n\r\n",
        b"4 \r\ndata\r\n0\r\n\r\n",
        b"4\ndata\n0\n\n",
        b"4\r\ndataXX0\r\n\r\n",
        b"4;a\nb\r\ndata\r\n0\r\n\r\n",
        b"4\r\ndata\r\n0\r\nContent-Length: 9\r\n\r\n",
    ],
    ids=["negative", "0x", "overflow", "space", "line feeds", "no end", "feed in extension", "length in trailer"],
)
async def test_chunks_that_servers_read_differently(service, body):
    path = f"/{BUCKET}?delete"
    lines = [f"{name}: {value}".encode() for name, value in service.signed("POST", path).items() if name != "host"]
    await refused(service, request(service, "POST", path, *lines, b"Transfer-Encoding: chunked", body=body))


@pytest.mark.parametrize(
    "hosts", [[], [None, b"evil.example"], [b"evil.example", None]], ids=["none", "two", "two, turned"]
)
async def test_hosts_that_are_not_one(service, hosts):
    right = service.endpoint.removeprefix("http://").encode()
    lines = [b"Host: " + (host or right) for host in hosts]
    await refused(service, b"\r\n".join([b"GET / HTTP/1.1", *lines, b"", b""]))


@pytest.mark.parametrize("target", ["http://evil.example", "http://evil.example:80"])
async def test_a_target_with_a_host_of_its_own(service, target):
    path = service.presigned("GET", f"/{BUCKET}")
    answer = await exchange(service, request(service, "GET", target + path) + listing(service))
    assert (answer.statuses, answer.code) == ([400, 200], "InvalidURI")


@pytest.mark.parametrize("line", ["OPTIONS *", "CONNECT evil.example:443"])
async def test_targets_that_are_no_path(service, line):
    answer = await exchange(service, request(service, *line.split(" ")) + listing(service))
    assert (answer.statuses, answer.code) == ([400, 200], "InvalidURI")


async def test_a_path_that_looks_like_a_host_is_a_path(service):
    path = service.presigned("GET", f"/{BUCKET}").replace("/", "//evil.example/", 1)
    answer = await exchange(service, request(service, "GET", path) + listing(service))
    assert (answer.statuses, answer.code) == ([403, 200], "SignatureDoesNotMatch")


@pytest.mark.parametrize("version", ["0.9", "1.2", "2.0", "1.10", "x"])
async def test_other_versions(service, version):
    await refused(service, put(service, LENGTH, version=version))


async def test_a_line_without_a_version(service):
    await refused(service, f"GET {service.presigned('GET', f'/{BUCKET}')}\r\n\r\n".encode())


async def test_upgrades_are_ignored_and_what_follows_is_a_request(service):
    upgrade = [b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__"]
    path = service.presigned("GET", f"/{BUCKET}")
    answer = await exchange(service, request(service, "GET", path, *upgrade), listing(service), pause_s=0.3)
    assert answer.statuses == [200, 200]


@pytest.mark.parametrize("target", [b"/\xc3\xa9", b"/\0", b"/a b", b"/a\tb", b"/\x7f"])
async def test_bytes_that_no_target_holds(service, target):
    await refused(service, b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")


async def test_many_requests_in_one_piece_are_answered_in_order(service):
    one = request(service, "GET", service.presigned("GET", f"/{BUCKET}"))
    answer = await exchange(service, one * 60 + put(service, LENGTH) + listing(service))
    assert answer.statuses == [200] * 62
