"""What must be refused is refused with S3's own code as XML, and nothing is stored."""

from __future__ import annotations

import base64
import hashlib
import os
import xml.etree.ElementTree as ElementTree
import zlib

import pytest

from .conftest import BUCKET

BODY = os.urandom(100_000)
PATH = f"/{BUCKET}/key"


def code_of(body: bytes) -> str | None:
    return ElementTree.fromstring(body).findtext("Code")


async def put(service, headers, body=BODY, **options):
    sent = {"content-length": str(len(body)), **headers}
    return await service.send("PUT", PATH, service.signed("PUT", PATH, sent), body, **options)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


CRC = b64(zlib.crc32(BODY).to_bytes(4, "big"))


async def test_a_right_body_is_stored(service):
    headers = {"content-md5": b64(hashlib.md5(BODY).digest()), "x-amz-checksum-crc32": CRC}
    status, answer, _ = await put(service, headers)
    assert status == 200
    assert answer["etag"] == f'"{hashlib.md5(BODY).hexdigest()}"'
    assert answer["x-amz-checksum-crc32"] == CRC
    assert service.stored() == ["key"]


@pytest.mark.parametrize(
    ("headers", "code", "status"),
    [
        ({"content-md5": b64(hashlib.md5(b"other").digest())}, "BadDigest", 400),
        ({"content-md5": "not-base64"}, "InvalidDigest", 400),
        ({"content-md5": b64(b"short")}, "InvalidDigest", 400),
        ({"x-amz-checksum-crc32": b64(bytes(4))}, "BadDigest", 400),
        ({"x-amz-checksum-crc32c": b64(bytes(4))}, "BadDigest", 400),
        ({"x-amz-checksum-crc64nvme": b64(bytes(8))}, "BadDigest", 400),
        ({"x-amz-checksum-sha1": b64(bytes(20))}, "BadDigest", 400),
        ({"x-amz-checksum-sha256": b64(bytes(32))}, "BadDigest", 400),
        ({"x-amz-checksum-sha256": b64(bytes(31))}, "InvalidRequest", 400),
        ({"x-amz-checksum-md5": b64(bytes(16))}, "InvalidRequest", 400),
        ({"x-amz-checksum-crc32": CRC, "x-amz-checksum-sha1": b64(bytes(20))}, "InvalidRequest", 400),
        ({"x-amz-content-sha256": hashlib.sha256(b"other").hexdigest()}, "XAmzContentSHA256Mismatch", 400),
        ({"x-amz-content-sha256": "nonsense"}, "InvalidArgument", 400),
        ({"x-amz-server-side-encryption-customer-algorithm": "AES256"}, "NotImplemented", 501),
        ({"x-amz-meta-s4w": "container"}, "InvalidArgument", 400),
        ({"x-amz-meta-a": "x" * 2100}, "MetadataTooLarge", 400),
    ],
)
async def test_a_wrong_body_or_header_is_refused(service, headers, code, status):
    found, answer, body = await put(service, headers)
    assert (found, code_of(body)) == (status, code)
    assert answer["content-type"] == "application/xml"
    assert answer["x-amz-request-id"]
    assert service.stored() == []


async def test_a_body_shorter_than_announced(service):
    status, _, body = await put(service, {"content-length": str(len(BODY) + 1)}, half_close=True)
    assert (status, code_of(body)) == (400, "IncompleteBody")
    assert service.stored() == []


async def test_a_put_without_length(service):
    headers = service.signed("PUT", PATH, {})
    status, _, body = await service.send("PUT", PATH, headers, b"")
    assert (status, code_of(body)) == (411, "MissingContentLength")


def framed(*chunks: bytes, trailer: str = "") -> bytes:
    pieces = [f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n" for chunk in chunks]
    return b"".join([*pieces, b"0\r\n", trailer.encode(), b"\r\n"])


async def put_framed(service, body, *, trailer_name="x-amz-checksum-crc32", decoded=len(BODY), **options):
    headers = {
        "x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "content-encoding": "aws-chunked",
        "x-amz-trailer": trailer_name,
        "x-amz-decoded-content-length": str(decoded),
    }
    return await put(service, headers, body, **options)


async def test_an_aws_chunked_body_with_a_right_trailer_is_stored_without_its_framing(service):
    body = framed(BODY[:70_000], BODY[70_000:], trailer=f"x-amz-checksum-crc32:{CRC}\r\n")
    status, _, _ = await put_framed(service, body)
    assert status == 200
    answer = await service.call("get_object", Bucket=BUCKET, Key="key")
    assert answer["Body"].read() == BODY
    assert "ContentEncoding" not in answer


@pytest.mark.parametrize(
    ("body", "decoded", "code"),
    [
        (framed(BODY, trailer=f"x-amz-checksum-crc32:{b64(bytes(4))}\r\n"), len(BODY), "BadDigest"),
        (framed(BODY), len(BODY), "MalformedTrailerError"),
        (framed(BODY, trailer="no colon\r\n"), len(BODY), "MalformedTrailerError"),
        (
            framed(BODY, trailer=f"x-amz-checksum-crc32:{CRC}\r\nx-amz-checksum-sha1:{b64(bytes(20))}\r\n"),
            len(BODY),
            "MalformedTrailerError",
        ),
        (framed(BODY, trailer=f"x-amz-checksum-crc32:{CRC}\r\n"), len(BODY) + 1, "IncompleteBody"),
        (framed(BODY, trailer=f"x-amz-checksum-crc32:{CRC}\r\n"), len(BODY) - 1, "InvalidRequest"),
        (framed(BODY, trailer=f"x-amz-checksum-crc32:{CRC}\r\n")[:-3], len(BODY), "IncompleteBody"),
        (framed(BODY, trailer=f"x-amz-checksum-crc32:{CRC}\r\n") + b"more", len(BODY), "InvalidRequest"),
        (b"zz\r\n" + BODY, len(BODY), "InvalidRequest"),
        (b"ffffffffffffffff\r\n" + BODY, len(BODY), "IncompleteBody"),
    ],
)
async def test_a_wrong_aws_chunked_body_is_refused(service, body, decoded, code):
    status, _, answer = await put_framed(service, body, decoded=decoded)
    assert (status, code_of(answer)) == (400, code)
    assert service.stored() == []


@pytest.mark.parametrize(
    ("change", "code", "status"),
    [
        ({"secret": "wrong"}, "SignatureDoesNotMatch", 403),
        ({"method": "GET"}, "SignatureDoesNotMatch", 403),
        ({"path": f"/{BUCKET}/other"}, "SignatureDoesNotMatch", 403),
        ({"drop": "authorization"}, "AccessDenied", 403),
        ({"key": "AKIAUNKNOWN"}, "InvalidAccessKeyId", 403),
        ({"date": "20200101T000000Z"}, "RequestTimeTooSkewed", 403),
        ({"extra": ("x-amz-meta-late", "1")}, "AccessDenied", 403),
        ({"scheme": "AWS AKIATEST:abc"}, "InvalidRequest", 400),
        ({"scheme": "AWS4-ECDSA-P256-SHA256 Credential=a"}, "NotImplemented", 501),
        ({"scheme": "AWS4-HMAC-SHA256 Credential=a"}, "AuthorizationHeaderMalformed", 400),
    ],
    ids=str,
)
async def test_a_wrong_signature_is_refused(service, change, code, status):
    headers = service.signed(
        "PUT", PATH, {"content-length": str(len(BODY))}, secret=change.get("secret", "test-secret-key")
    )
    name = next(name for name in headers if name.lower() == "authorization")
    if "drop" in change:
        del headers[name]
    if "key" in change:
        headers[name] = headers[name].replace("AKIATEST", change["key"])
    if "date" in change:
        headers["X-Amz-Date"] = change["date"]
        headers[name] = headers[name].replace(headers[name].split("/")[1], change["date"][:8])
    if "extra" in change:
        headers[change["extra"][0]] = change["extra"][1]
    if "scheme" in change:
        headers[name] = change["scheme"]
    method, path = change.get("method", "PUT"), change.get("path", PATH)
    found, _, body = await service.send(method, path, headers, BODY)
    assert (found, code_of(body)) == (status, code)
    assert service.stored() == []


async def test_a_presigned_url_works_until_it_expires_or_is_changed(service):
    await service.call("put_object", Bucket=BUCKET, Key="a b+ü", Body=BODY)
    path = service.presigned("GET", f"/{BUCKET}/a%20b%2B%C3%BC")
    host = {"host": service.endpoint.removeprefix("http://")}
    assert (await service.send("GET", path, host))[0::2] == (200, BODY)
    changed = path.replace("X-Amz-Expires=60", "X-Amz-Expires=61")
    status, _, body = await service.send("GET", changed, host)
    assert (status, code_of(body)) == (403, "SignatureDoesNotMatch")
    status, _, body = await service.send("PUT", path, {**host, "content-length": "1"}, b"x")
    assert (status, code_of(body)) == (403, "SignatureDoesNotMatch")


async def test_a_presigned_url_carries_headers_in_its_query(service):
    host = {"host": service.endpoint.removeprefix("http://")}
    query = "X-Amz-Meta-Colour=red+%2B1&x-amz-meta-both=query&x-id=PutObject"
    path = service.presigned("PUT", f"/{BUCKET}/empty?{query}")
    assert (await service.send("PUT", path, {**host, "content-length": "0"}))[0] == 200
    found = await service.call("head_object", Bucket=BUCKET, Key="empty")
    assert found["Metadata"] == {"colour": "red +1", "both": "query"}
    copy = service.presigned("PUT", f"/{BUCKET}/copy?x-amz-copy-source={BUCKET}%2Fempty")
    status, _, body = await service.send("PUT", copy, {**host, "content-length": "0"})
    assert (status, b"CopyObjectResult" in body) == (200, True)
    for bad in ("x-amz-meta-a=1%0D%0Ax-amz-acl%3A%20public-read", "x-amz-meta-%00=v", "x-amz-meta-%EF%BF%BE=v"):
        path = service.presigned("PUT", f"/{BUCKET}/bad?{bad}")
        status, _, body = await service.send("PUT", path, {**host, "content-length": "0"})
        assert (status, code_of(body)) == (400, "InvalidArgument")
        ElementTree.fromstring(body)


async def test_a_checksum_in_a_presigned_query_is_of_no_body(service):
    """What the JavaScript SDK signs before it knows the body: that of an empty one. S3 takes no notice."""
    host = {"host": service.endpoint.removeprefix("http://")}
    for query in (
        "x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32&x-id=PutObject",
        "x-amz-sdk-checksum-algorithm=CRC32",
    ):
        path = service.presigned("PUT", f"/{BUCKET}/js?{query}")
        assert (await service.send("PUT", path, {**host, "content-length": "5"}, b"hello"))[0] == 200


async def test_a_plus_sign_in_a_signed_query_has_one_meaning(service):
    for key in ("c++/ours", "c  /others"):
        await service.call("put_object", Bucket=BUCKET, Key=key, Body=b"x")
    host = {"host": service.endpoint.removeprefix("http://")}
    path = service.presigned("GET", f"/{BUCKET}?list-type=2&prefix=c%2B%2B%2F")
    assert b"c++/ours" in (await service.send("GET", path, host))[2]
    status, _, body = await service.send("GET", path.replace("c%2B%2B", "c++"), host)
    assert (status, code_of(body)) == (403, "SignatureDoesNotMatch")


async def test_headers_in_the_query_count_where_it_is_signed_there_only(service):
    path = f"/{BUCKET}/k?x-amz-meta-a=b"
    assert (await service.send("PUT", path, service.signed("PUT", path, {"content-length": "0"})))[0] == 200
    assert (await service.call("head_object", Bucket=BUCKET, Key="k"))["Metadata"] == {}


async def test_expect_100_continue_is_answered_by_the_refusal_itself(service):
    headers = service.signed("PUT", PATH, {"content-length": "100000", "expect": "100-continue"}, secret="wrong")
    status, answer, body = await service.send("PUT", PATH, headers)
    assert (status, code_of(body)) == (403, "SignatureDoesNotMatch")
    assert answer["connection"] == "close"


async def test_expect_100_continue_lets_the_body_come(service):
    headers = service.signed("PUT", PATH, {"content-length": str(len(BODY)), "expect": "100-continue"})
    status, _, rest = await service.send("PUT", PATH, headers, BODY)
    assert status == 100
    assert rest.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("path", ["/" + BUCKET + "/%ff", "/" + BUCKET + "/" + "k" * 1025])
async def test_keys_that_cannot_be(service, path):
    status, _, body = await service.send("PUT", path, service.signed("PUT", path, {"content-length": "0"}))
    assert (status, code_of(body)) in {(400, "InvalidURI"), (400, "KeyTooLongError")}


async def test_what_a_directory_has_not_is_not_implemented(service):
    path = f"/{BUCKET}?lifecycle"
    status, _, body = await service.send("GET", path, service.signed("GET", path))
    assert (status, code_of(body)) == (501, "NotImplemented")


async def test_our_own_keys_are_closed(service):
    path = f"/{BUCKET}/.s4weights/pins/x"
    for method in ("GET", "PUT", "DELETE"):
        status, _, body = await service.send(method, path, service.signed(method, path, {"content-length": "0"}))
        assert (status, code_of(body)) == (403, "AccessDenied")


@pytest.mark.parametrize(("signed_body", "status", "left"), [(None, 200, []), (b"other", 400, ["key"])])
async def test_a_document_without_length_is_checked_against_its_signed_hash(service, signed_body, status, left):
    await put(service, {})
    path = f"/{BUCKET}?delete"
    data = b"<Delete><Object><Key>key</Key></Object></Delete>"
    digest = hashlib.sha256(signed_body or data).hexdigest()
    headers = service.signed("POST", path, {"x-amz-content-sha256": digest, "transfer-encoding": "chunked"})
    body = f"{len(data):x}\r\n".encode() + data + b"\r\n0\r\n\r\n"
    assert (await service.send("POST", path, headers, body))[0] == status
    assert service.stored() == left
