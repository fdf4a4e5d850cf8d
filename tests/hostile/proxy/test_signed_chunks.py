"""Chunks and trailers that are forged, cut short, or come in another order or from another request."""

from __future__ import annotations

import base64
import re
import zlib

import pytest

from tests.proxy.handlers.conftest import BUCKET

from .signing import SIGNED_CHUNKS, SIGNED_TRAILER, UNSIGNED_TRAILER, Signer, refused, sent

PATH = f"/{BUCKET}/k"
BODY = b"x" * 20_000
CRC = "x-amz-checksum-crc32:" + base64.b64encode(zlib.crc32(BODY).to_bytes(4, "big")).decode()


def framing(payload: str, **more: str) -> dict[str, str]:
    trailer = {"x-amz-trailer": "x-amz-checksum-crc32"} if payload.endswith("TRAILER") else {}
    return {"content-encoding": "aws-chunked", "x-amz-decoded-content-length": str(len(BODY)), **trailer, **more}


PIECES = [BODY[:9_000], BODY[9_000:]]
FORMS = pytest.mark.parametrize(("payload", "trailer"), [(SIGNED_CHUNKS, None), (SIGNED_TRAILER, CRC)])


@FORMS
async def test_right_chunks_are_taken(service, signer, payload, trailer):
    request = signer.headers("PUT", PATH, framing(payload), payload)
    assert await sent(service, "PUT", PATH, request.headers, b"".join(request.chunks(PIECES, trailer))) == 200


@FORMS
@pytest.mark.parametrize(
    "attack",
    [
        lambda chunks, other: [chunks[1], chunks[0], chunks[2]],
        lambda chunks, other: [chunks[0], chunks[0], chunks[2]],
        lambda chunks, other: [other[0], *chunks[1:]],
        lambda chunks, other: [*chunks[:2], other[2]],
        lambda chunks, other: other,
        lambda chunks, other: [chunks[0].replace(b"x\r\n", b"y\r\n"), *chunks[1:]],
        lambda chunks, other: [re.sub(rb"signature=[0-9a-f]", b"signature=", chunks[0], count=1), *chunks[1:]],
        lambda chunks, other: [re.sub(rb"=[0-9a-f]{64}", b"=" + b"0" * 64, chunks[0]), *chunks[1:]],
        lambda chunks, other: [re.sub(rb";chunk-signature=[0-9a-f]{64}", b"", one) for one in chunks],
        lambda chunks, other: [*chunks[:2], re.sub(rb";chunk-signature=[0-9a-f]{64}", b"", chunks[2])],
        lambda chunks, other: [*chunks[:2], b"0;chunk-signature=" + b"0" * 64 + b"\r\n\r\n"],
    ],
    ids=[
        *("turned", "twice", "another's first", "another's last", "another's", "changed", "cut", "zeros", "none"),
        *("last without", "last forged"),
    ],
)
async def test_chunks_that_were_changed(service, signer, payload, trailer, attack):
    request = signer.headers("PUT", PATH, framing(payload), payload)
    other = signer.headers("PUT", f"/{BUCKET}/other", framing(payload), payload)
    body = b"".join(attack(request.chunks(PIECES, trailer), other.chunks(PIECES, trailer)))
    codes = ("SignatureDoesNotMatch", "InvalidRequest", "IncompleteBody")
    await refused(service, "PUT", PATH, request.headers, body, *codes)


@FORMS
async def test_chunks_that_end_early_after_a_right_one(service, signer, payload, trailer):
    request = signer.headers("PUT", PATH, framing(payload), payload)
    body = request.chunks(PIECES, trailer)[0]
    await refused(service, "PUT", PATH, request.headers, body, "IncompleteBody")


@pytest.mark.parametrize(
    "attack",
    [
        lambda body: re.sub(rb"x-amz-trailer-signature:[0-9a-f]{64}\r\n", b"", body),
        lambda body: re.sub(rb"(trailer-signature:)[0-9a-f]{64}", rb"\g<1>" + b"0" * 64, body),
        lambda body: re.sub(rb"(trailer-signature:)[0-9a-f]", rb"\1", body),
        lambda body: body.replace(CRC.encode(), b"x-amz-checksum-crc32:AAAAAA=="),
        lambda body: body.replace(CRC.encode(), CRC.encode() + b"\r\nx-amz-meta-late:1"),
        lambda body: re.sub(rb"0;chunk-signature=[0-9a-f]{64}\r\n.*", b"", body, flags=re.DOTALL),
    ],
    ids=["none", "zeros", "cut", "another sum", "one more", "no end"],
)
async def test_a_signed_trailer_that_was_changed(service, signer, attack):
    request = signer.headers("PUT", PATH, framing(SIGNED_TRAILER), SIGNED_TRAILER)
    body = attack(b"".join(request.chunks(PIECES, CRC)))
    codes = ("SignatureDoesNotMatch", "IncompleteBody", "MalformedTrailerError")
    await refused(service, "PUT", PATH, request.headers, body, *codes)


async def test_signed_chunks_cannot_be_sent_as_unsigned_ones(service, signer):
    request = signer.headers("PUT", PATH, framing(SIGNED_TRAILER), SIGNED_TRAILER)
    plain = f"{len(BODY):x}\r\n".encode() + BODY + f"\r\n0\r\n{CRC}\r\n\r\n".encode()
    await refused(service, "PUT", PATH, request.headers, plain, "InvalidRequest")
    headers = {**request.headers, "x-amz-content-sha256": UNSIGNED_TRAILER}
    await refused(service, "PUT", PATH, headers, plain)


async def test_an_unsigned_trailer_is_taken_and_is_checked(service, signer):
    request = signer.headers("PUT", PATH, framing(UNSIGNED_TRAILER), UNSIGNED_TRAILER)
    plain = f"{len(BODY):x}\r\n".encode() + BODY + b"\r\n0\r\n"
    wrong = plain + b"x-amz-checksum-crc32:AAAAAA==\r\n\r\n"
    await refused(service, "PUT", PATH, request.headers, wrong, "BadDigest")
    forged = Signer(signer.host, secret="x").headers("PUT", PATH, framing(UNSIGNED_TRAILER), UNSIGNED_TRAILER)
    await refused(service, "PUT", PATH, forged.headers, plain + f"{CRC}\r\n\r\n".encode())
    assert await sent(service, "PUT", PATH, request.headers, plain + f"{CRC}\r\n\r\n".encode()) == 200
