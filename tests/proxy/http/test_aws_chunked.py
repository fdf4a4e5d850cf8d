"""aws-chunked: AWS's own example, all forms, every wrong byte."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

import pytest

from s4weights.proxy.auth.canonical import sign, signing_key
from s4weights.proxy.auth.sigv4 import Verified
from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.aws_chunked import AwsChunkedDecoder
from s4weights.proxy.http.body import CheckedBody, Expected

# AWS, Signature calculations for the Authorization header: transferring payload in multiple chunks; its example.
SCOPE = "20130524/us-east-1/s3/aws4_request"
KEY = signing_key("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", SCOPE)
SEED = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
SIGNATURES = (
    "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
    "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
    "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
)
BODY = b"a" * 66_560
EXAMPLE = b"".join(
    f"{len(piece):x};chunk-signature={signature}\r\n".encode() + piece + b"\r\n"
    for piece, signature in zip((BODY[:65_536], BODY[65_536:], b""), SIGNATURES, strict=True)
)


def signer() -> Verified:
    return Verified("AKIAIOSFODNN7EXAMPLE", SCOPE, "20130524T000000Z", SEED, KEY, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")


def decode(data: bytes, verified: Verified | None = None, size: int = 0, *, has_trailer: bool = False):
    decoder = AwsChunkedDecoder(verified, has_trailer=has_trailer)
    size = size or len(data) or 1
    out = [piece for start in range(0, len(data), size) for piece in decoder.feed(data[start : start + size])]
    decoder.finish()
    return b"".join(out), decoder.trailers


@pytest.mark.parametrize("size", [0, 1000, 4097])
def test_the_published_example(size):
    assert decode(EXAMPLE, signer(), size)[0] == BODY


@pytest.mark.parametrize("place", [25, 100, 66_000, len(EXAMPLE) - 10])
def test_any_changed_byte_of_a_signed_body_is_found(place):
    changed = bytearray(EXAMPLE)
    changed[place] ^= 1
    with pytest.raises(S3Error, match="SignatureDoesNotMatch|InvalidRequest"):
        decode(bytes(changed), signer())


def test_a_signed_chunk_is_not_held_whole_and_the_body_does_not_end_before_its_signature():
    decoder = AwsChunkedDecoder(signer(), has_trailer=False)
    assert sum(map(len, decoder.feed(EXAMPLE[:60_000]))) > 59_000
    assert len(decoder._data) == 0
    with pytest.raises(S3Error, match="IncompleteBody"):
        decoder.finish()
    with pytest.raises(S3Error, match="SignatureDoesNotMatch"):
        decoder.feed(EXAMPLE[60_000:65_700].replace(b"a", b"b"))


@pytest.mark.parametrize("size", [1, 7, 100, 64 << 10, 70_000])
def test_pieces_of_any_size_give_the_same_body(size):
    data = b"10000\r\n" + bytes(range(256)) * 256 + b"\r\n3\r\nabc\r\n0\r\n\r\n"
    assert decode(data, None, size)[0] == bytes(range(256)) * 256 + b"abc"


async def test_a_body_with_a_forged_chunk_ends_with_an_error_instead_of_its_last_bytes():
    changed = EXAMPLE.replace(SIGNATURES[1].encode(), b"0" * 64)

    async def source() -> AsyncIterator[bytes]:
        for start in range(0, len(changed), 5_000):
            yield changed[start : start + 5_000]

    body = CheckedBody(source(), Expected(len(BODY)), AwsChunkedDecoder(signer(), has_trailer=False))
    body.gathered_bytes = 10_000
    got = bytearray()

    async def take() -> None:
        async for chunk in body:
            got.extend(chunk)

    with pytest.raises(S3Error, match="SignatureDoesNotMatch"):
        await take()
    assert len(got) < len(BODY)


def signed_with_trailer(trailer: str, signature: str | None = None) -> bytes:
    empty = hashlib.sha256(b"").hexdigest()
    previous, out = SEED, b""
    for piece in (b"x" * 9000, b""):
        text = [
            "AWS4-HMAC-SHA256-PAYLOAD",
            "20130524T000000Z",
            SCOPE,
            previous,
            empty,
            hashlib.sha256(piece).hexdigest(),
        ]
        previous = sign(KEY, "\n".join(text))
        out += f"{len(piece):x};chunk-signature={previous}\r\n".encode() + (piece + b"\r\n" if piece else b"")
    text = [
        "AWS4-HMAC-SHA256-TRAILER",
        "20130524T000000Z",
        SCOPE,
        previous,
        hashlib.sha256(f"{trailer}\n".encode()).hexdigest(),
    ]
    return out + f"{trailer}\r\nx-amz-trailer-signature:{signature or sign(KEY, chr(10).join(text))}\r\n\r\n".encode()


def test_a_signed_trailer():
    body, trailers = decode(signed_with_trailer("x-amz-checksum-crc32:AAAAAA=="), signer(), 7, has_trailer=True)
    assert (body, trailers) == (b"x" * 9000, {"x-amz-checksum-crc32": "AAAAAA=="})


def test_a_forged_trailer():
    good = signed_with_trailer("x-amz-checksum-crc32:AAAAAA==")
    for forged in (good.replace(b"AAAAAA", b"BBBBBB"), signed_with_trailer("x-amz-checksum-crc32:AAAAAA==", "0" * 64)):
        with pytest.raises(S3Error, match="SignatureDoesNotMatch"):
            decode(forged, signer(), has_trailer=True)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_unsigned_chunks_with_a_trailer(size):
    data = b"5\r\nhello\r\n1\r\n!\r\n0\r\nx-amz-checksum-crc32: abc \r\n\r\n"
    assert decode(data, None, size, has_trailer=True) == (b"hello!", {"x-amz-checksum-crc32": "abc"})


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "IncompleteBody"),
        (b"5\r\nhel", "IncompleteBody"),
        (b"5\r\nhello\r\n", "IncompleteBody"),
        (b"5\r\nhello\r\n0\r\n", "IncompleteBody"),
        (b"5\r\nhelloX\r\n0\r\n\r\n", "InvalidRequest"),
        (b"g\r\n", "InvalidRequest"),
        (b"-5\r\nhello\r\n", "InvalidRequest"),
        (b"5;chunk-signature=" + b"0" * 64 + b"\r\nhello", "InvalidRequest"),
        (b"0" * 5000, "InvalidRequest"),
        (b"0\r\nname:value\r\n\r\n", "MalformedTrailerError"),
        (b"0\r\n\r\nGET / HTTP/1.1\r\n", "InvalidRequest"),
    ],
)
def test_wrong_framing_is_refused(data, code):
    with pytest.raises(S3Error) as error:
        decode(data)
    assert error.value.code == code


def test_an_unsigned_chunk_within_a_signed_body_is_refused():
    with pytest.raises(S3Error, match="malformed"):
        decode(b"5\r\nhello\r\n", signer())


def test_where_nobody_signs_signed_chunks_are_unpacked_unchecked():
    decoder = AwsChunkedDecoder(None, has_trailer=False, is_signed=True)
    assert b"".join(decoder.feed(EXAMPLE)) == BODY
    decoder.finish()


def test_a_trailer_signature_of_other_bytes_than_ascii_does_not_match():
    with pytest.raises(S3Error, match="SignatureDoesNotMatch"):
        decode(signed_with_trailer("x-amz-checksum-crc32:AAAAAA==", "é"), signer(), has_trailer=True)
