"""A body is given out whole and right, or its last chunk never comes."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import random
import zlib

import pytest
from aiohttp import ClientPayloadError

from s4weights.proxy.auth.sigv4 import Verified
from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.body import checked_body

# Seeded: parts of it are in the names of tests, which every worker must collect alike.
BODY = random.Random(18).randbytes(2_500_000)
UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


CRC = b64(zlib.crc32(BODY).to_bytes(4, "big"))


async def pieces_of(data: bytes, size: int = 60_000, fault: BaseException | None = None):
    for start in range(0, len(data), size):
        yield data[start : start + size]
    if fault is not None:
        raise fault


def open_body(headers, data=BODY, verified=None, *, fault=None, size=60_000):
    return checked_body({"content-length": str(len(BODY)), **headers}, verified, pieces_of(data, size, fault))


async def taken(body) -> tuple[bytes, S3Error | None]:
    """What a consumer got, and the error that ended it."""
    out = b""
    try:
        async for chunk in body:
            out += chunk
    except S3Error as error:
        return out, error
    return out, None


def signed_by(payload_hash: str) -> Verified:
    return Verified("AKIA", "20260101/us-east-1/s3/aws4_request", "20260101T000000Z", "0" * 64, b"key", payload_hash)


def framed(data: bytes, trailer: str = "") -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n0\r\n" + trailer.encode() + b"\r\n"


@pytest.mark.parametrize("size", [1, 1000, 1 << 20, 3_000_000])
async def test_a_right_body_comes_whole_in_pieces_of_any_size(size):
    data = BODY[:20_000] if size == 1 else BODY
    body = checked_body({"content-length": str(len(data))}, None, pieces_of(data, size))
    assert await taken(body) == (data, None)
    assert body.md5 == hashlib.md5(data).digest()
    assert body.checksums == {}


async def test_small_pieces_are_gathered():
    chunks = [len(chunk) async for chunk in open_body({}, size=1000)]
    assert len(chunks) == 3
    assert min(chunks[:-1]) >= 1 << 20


RIGHT = [
    {"content-md5": b64(hashlib.md5(BODY).digest())},
    {"x-amz-content-sha256": hashlib.sha256(BODY).hexdigest()},
    {"x-amz-checksum-crc32": CRC},
    {"x-amz-checksum-sha1": b64(hashlib.sha1(BODY).digest()), "x-amz-checksum-type": "FULL_OBJECT"},
    {"x-amz-checksum-sha256": b64(hashlib.sha256(BODY).digest()), "x-amz-checksum-algorithm": "SHA256"},
]


@pytest.mark.parametrize("headers", RIGHT, ids=lambda headers: next(iter(headers)))
@pytest.mark.parametrize("place", [0, 1_300_000, len(BODY) - 1])
async def test_one_wrong_bit_anywhere_keeps_the_last_chunk_back(headers, place):
    assert await taken(open_body(headers)) == (BODY, None)
    changed = bytearray(BODY)
    changed[place] ^= 1
    out, error = await taken(open_body(headers, bytes(changed)))
    assert error is not None
    assert error.code in ("BadDigest", "XAmzContentSHA256Mismatch")
    assert len(out) < len(BODY)


async def test_the_hash_that_was_signed_is_the_one_that_counts():
    headers = {"x-amz-content-sha256": hashlib.sha256(BODY).hexdigest()}
    _, error = await taken(open_body(headers, verified=signed_by(hashlib.sha256(b"other").hexdigest())))
    assert error is not None
    assert error.code == "XAmzContentSHA256Mismatch"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"content-md5": b64(hashlib.md5(b"x").digest())}, "BadDigest"),
        ({"x-amz-content-sha256": hashlib.sha256(b"x").hexdigest()}, "XAmzContentSHA256Mismatch"),
        ({"x-amz-checksum-crc32": "AAAAAQ=="}, "BadDigest"),
        ({}, None),
    ],
)
async def test_an_empty_body_is_checked_too(headers, code):
    out, error = await taken(checked_body({"content-length": "0", **headers}, None, pieces_of(b"")))
    assert out == b""
    assert (error and error.code) == code


@pytest.mark.parametrize(("data", "code"), [(BODY[:-1], "IncompleteBody"), (BODY + b"x", "InvalidRequest")])
async def test_a_body_of_another_length_is_refused(data, code):
    out, error = await taken(open_body({}, data))
    assert error is not None
    assert error.code == code
    assert len(out) < len(BODY)


@pytest.mark.parametrize(
    "fault", [ConnectionResetError(), ClientPayloadError("cut"), asyncio.IncompleteReadError(b"", 1)], ids=repr
)
async def test_a_client_that_goes_away_leaves_an_incomplete_body(fault):
    # Even where every byte is there: the transfer itself did not end.
    out, error = await taken(open_body({}, fault=fault))
    assert error is not None
    assert error.code == "IncompleteBody"
    assert len(out) < len(BODY)


def trailing(trailer_header="x-amz-checksum-crc32", **headers):
    return {
        "x-amz-content-sha256": UNSIGNED_TRAILER,
        "x-amz-trailer": trailer_header,
        "x-amz-decoded-content-length": str(len(BODY)),
        **headers,
    }


async def test_a_trailer_is_checked_and_kept():
    body = open_body(trailing(), framed(BODY, f"x-amz-checksum-crc32:{CRC}\r\n"))
    assert await taken(body) == (BODY, None)
    assert body.checksums == {"x-amz-checksum-crc32": CRC}


@pytest.mark.parametrize(
    ("trailer", "code"),
    [
        ("", "MalformedTrailerError"),
        ("x-amz-checksum-crc32:AAAAAA==\r\n", "BadDigest"),
        ("x-amz-checksum-crc32:short\r\n", "InvalidRequest"),
        ("x-amz-checksum-crc32:éé\r\n", "InvalidRequest"),
        ("x-amz-checksum-sha1:" + b64(hashlib.sha1(BODY).digest()) + "\r\n", "MalformedTrailerError"),
        (f"x-amz-checksum-crc32:{CRC}\r\nx-amz-checksum-sha1:{b64(bytes(20))}\r\n", "MalformedTrailerError"),
    ],
)
async def test_a_trailer_that_is_not_as_announced_is_refused(trailer, code):
    out, error = await taken(open_body(trailing(), framed(BODY, trailer)))
    assert error is not None
    assert error.code == code
    assert len(out) < len(BODY)


async def test_framing_without_signatures_or_trailer_comes_off():
    headers = {"content-encoding": "gzip,aws-chunked", "x-amz-decoded-content-length": str(len(BODY))}
    assert await taken(open_body(headers, framed(BODY))) == (BODY, None)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "MissingContentLength"),
        ({"content-length": "-1"}, "InvalidArgument"),
        ({"content-length": "1e3"}, "InvalidArgument"),
        ({"content-length": "²"}, "InvalidArgument"),
        ({"content-length": "9" * 20}, "InvalidArgument"),
        ({"content-length": "9", "content-encoding": "aws-chunked"}, "MissingContentLength"),
        ({"content-length": "9", "x-amz-content-sha256": UNSIGNED_TRAILER}, "MissingContentLength"),
        ({"content-length": "9", "content-md5": ""}, "InvalidDigest"),
        ({"content-length": "9", "content-md5": "é"}, "InvalidDigest"),
        ({"content-length": "9", "x-amz-content-sha256": "A" * 64}, "InvalidArgument"),
        ({"content-length": "9", "x-amz-content-sha256": "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"}, "NotImplemented"),
        ({"content-length": "9", "x-amz-checksum-md5": b64(bytes(16))}, "InvalidRequest"),
        ({"content-length": "9", "x-amz-checksum-crc32": "é"}, "InvalidRequest"),
        ({"content-length": "9", "x-amz-checksum-crc32": CRC, "x-amz-checksum-sha1": "x"}, "InvalidRequest"),
        (trailing("x-amz-checksum-crc32,x-amz-checksum-sha1"), "InvalidRequest"),
        (trailing("x-amz-checksum-md5"), "InvalidRequest"),
    ],
)
async def test_headers_that_cannot_be_are_refused_before_a_byte_is_read(headers, code):
    touched = False

    async def source():
        nonlocal touched
        touched = True
        yield b""

    with pytest.raises(S3Error) as error:
        checked_body(headers, None, source())
    assert error.value.code == code
    assert not touched
