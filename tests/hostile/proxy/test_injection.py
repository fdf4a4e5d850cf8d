"""Names and values that want to be something else: header lines, other buckets, other files, our own keys."""

from __future__ import annotations

import os
from urllib.parse import quote

import numpy as np
import pytest

from tests.proxy.handlers.conftest import BUCKET
from tests.proxy.handlers.test_post_object import post, signed
from tests.proxy.objects.conftest import safetensors

from .signing import Signer, code_of
from .wire import exchange, request

BREAK = "%0D%0AX-Evil%3A%201"


async def signed_call(service, method, path, headers=None, body=b""):
    sent = {"content-length": str(len(body)), **(headers or {})}
    return await service.send(method, path, service.signed(method, path, sent), body)


def outside(service):
    """Every file beside the bucket, but for the state of the service."""
    root = service.directory.parent
    return sorted(
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file()
        and not path.is_relative_to(service.directory / BUCKET)
        and not path.is_relative_to(root / "state")
        and not path.is_relative_to(service.directory / ".s4weights")
    )


# Headers


NAMES = ["cache-control", "content-disposition", "content-encoding", "content-language", "content-type", "expires"]


@pytest.mark.parametrize(
    ("name", "value"),
    [*((name, BREAK) for name in NAMES), *((NAMES[0], f"a%{one}b") for one in ("0A", "0D", "00", "7F"))],
)
async def test_a_response_override_cannot_hold_a_line(service, name, value):
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=b"data")
    path = f"/{BUCKET}/k?response-{name}={value}"
    status, headers, body = await signed_call(service, "GET", path)
    assert (status, code_of(body)) == (400, "InvalidArgument")
    assert "x-evil" not in headers


async def test_a_response_override_of_text_is_given(service):
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=b"data")
    path = f"/{BUCKET}/k?response-content-disposition=attachment%3B%20filename%3D%22a%20b.pt%22"
    status, headers, body = await signed_call(service, "GET", path)
    assert (status, headers["content-disposition"], body) == (200, 'attachment; filename="a b.pt"', b"data")


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b"])
async def test_a_field_of_a_form_cannot_hold_a_line(service, value):
    for name in ("x-amz-meta-a", "Content-Type", "success_action_redirect"):
        given = f"http://x/{value}" if name == "success_action_redirect" else value
        status, headers, body = await post(service, signed(service, "k", {name: given}), b"x")
        assert (status, code_of(body)) == (400, "InvalidArgument"), name
        assert "x-evil" not in headers
    assert service.stored() == []


@pytest.mark.parametrize("name", ["x-amz-meta-a: b", "x-amz-meta-a b", "x-amz-meta-ü", "x-amz-meta-(a)"])
async def test_the_name_of_a_field_is_no_header_line(service, name):
    status, _, body = await post(service, signed(service, "k", {name: "1"}), b"x")
    assert (status, code_of(body)) == (400, "InvalidArgument")
    assert service.stored() == []


async def test_a_target_of_a_redirect_is_http_alone(service):
    for target in ("javascript:alert(1)", "//evil.example", "data:text/html,x"):
        status, headers, _ = await post(service, signed(service, "k", {"success_action_redirect": target}), b"x")
        assert status == 204
        assert headers["location"].startswith(service.endpoint)


async def test_names_in_documents_stay_text(service):
    key = "</Key><Key>evil&\"'<!--"
    await service.call("put_object", Bucket=BUCKET, Key=key, Body=b"x")
    page = await service.call("list_objects_v2", Bucket=BUCKET)
    assert [row["Key"] for row in page["Contents"]] == [key]
    path = f"/{BUCKET}/{quote('<script>&')}"
    _, _, body = await signed_call(service, "GET", path + "x")
    assert b"<script>" not in body


async def test_our_own_marker_cannot_be_set(service):
    for name in ("x-amz-meta-s4w", "X-Amz-Meta-S4W", "x-amz-meta-s4w-more"):
        status, _, body = await signed_call(service, "PUT", f"/{BUCKET}/k", {name: "container"}, b"x")
        assert (status, code_of(body)) == (400, "InvalidArgument")
    status, _, body = await post(service, signed(service, "k", {"x-amz-meta-s4w": "container"}), b"x")
    assert (status, code_of(body)) == (400, "InvalidArgument")


# Paths


TRICKS = [
    "..",
    "../k",
    "../../k",
    "../../../../../../etc/passwd",
    "a/../../../k",
    "./k",
    "a/./b",
    "a//b",
    "/k",
    "//k",
    "///",
    ".",
    "a/..",
    "a/.",
    "..\\..\\k",
    "%2e%2e/k",
    "C:\\k",
    "~/k",
    "$HOME/k",
    "a/" * 100 + "k",
    "k" * 1024,
    "\u00fc" * 512,
    "k\n\r\t\x1b",
    "aux%00",
    "k%",
    "k%d/x",
    ".s4weightsx/k",
]


@pytest.mark.parametrize("key", TRICKS, ids=lambda key: key[:24])
@pytest.mark.parametrize("escape", [quote, lambda key: quote(key).replace(".", "%2E").replace("/", "%2F")])
async def test_any_key_stays_in_its_bucket_and_comes_back(service, key, escape):
    (service.directory / "k").write_bytes(b"outside")
    path = f"/{BUCKET}/{escape(key)}"
    assert (await signed_call(service, "PUT", path, body=b"data"))[0] == 200
    assert (await signed_call(service, "GET", path))[::2] == (200, b"data")
    page = await service.call("list_objects_v2", Bucket=BUCKET)
    assert [row["Key"] for row in page["Contents"]] == [key]
    assert outside(service) == ["buckets/k"]
    assert (await signed_call(service, "DELETE", path))[0] == 204
    assert (service.directory / "k").read_bytes() == b"outside"
    assert service.stored() == []


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        ("%c0%ae%c0%ae/k", "InvalidURI"),  # dots, overlong
        ("%c0%af", "InvalidURI"),
        ("%e0%80%ae", "InvalidURI"),
        ("%f0%80%80%af", "InvalidURI"),
        ("%ed%a0%80", "InvalidURI"),  # a surrogate
        ("%ff%fe", "InvalidURI"),
        ("k%00", "InvalidURI"),
        ("k%00.pt", "InvalidURI"),
        ("k" * 1025, "KeyTooLongError"),
        ("%C3%BC" * 513, "KeyTooLongError"),
        ("/" * 1024, "KeyTooLongError"),
    ],
)
async def test_keys_that_are_none(service, raw, code):
    status, _, body = await signed_call(service, "PUT", f"/{BUCKET}/{raw}", body=b"x")
    assert (status, code_of(body)) == (400, code)
    assert service.stored() == []


@pytest.mark.parametrize(
    "bucket",
    [
        "..",
        ".",
        "%2e%2e",
        "training%2F..",
        "training%2Fa",
        "..%2Fx",
        "%5c",
        "a%20b",
        "a%0d%0ab",
        ".s4weights",
        "%ef%bc%8e",
    ],
)
async def test_buckets_that_are_none(service, bucket):
    before = outside(service)
    for method, path in (
        ("PUT", f"/{bucket}"),
        ("PUT", f"/{bucket}/k"),
        ("GET", f"/{bucket}"),
        ("DELETE", f"/{bucket}"),
    ):
        status, _, body = await signed_call(service, method, path)
        assert (status, code_of(body)) in {(400, "InvalidBucketName"), (404, "NoSuchBucket")}, (method, body)
    assert outside(service) == before
    assert service.directory.is_dir()
    assert (service.directory / BUCKET).is_dir()


async def test_a_host_names_no_folder(service, signer):
    for host in ("...s3.test", "../x.s3.test", "..%2f.s3.test", ".s4weights.s3.test", "a/b.s3.test"):
        other = Signer(host)
        status, _, body = await service.send("GET", "/k", other.headers("GET", "/k", {}).headers)
        assert (status, code_of(body)) in {(400, "InvalidBucketName"), (404, "NoSuchBucket"), (400, "BadRequest")}, host


@pytest.mark.parametrize(
    "raw",
    [
        *(
            ".s4weights/pins/x",
            "%2Es4weights/pins/x",
            ".s4weights%2Fpins/x",
            "/.s4weights/pins/x",
            "./.s4weights/pins/x",
        ),
        *("a/../.s4weights/pins/x", ".s4weights//x", "%2F.s4weights/x", "a/b/../../.s4weights/x"),
    ],
)
async def test_our_own_keys_are_closed_however_they_are_spelt(service, raw):
    path = f"/{BUCKET}/{raw}"
    for method in ("PUT", "GET", "HEAD", "DELETE"):
        status, _, body = await signed_call(service, method, path)
        assert (status, code_of(body)) == (403, "AccessDenied" if method != "HEAD" else None)
    status, _, body = await signed_call(service, "PUT", f"/{BUCKET}/k", {"x-amz-copy-source": path})
    assert (status, code_of(body)) == (403, "AccessDenied")
    for sub in ("acl", "tagging", "uploads"):
        status, _, body = await signed_call(service, "POST" if sub == "uploads" else "PUT", f"{path}?{sub}")
        assert (status, code_of(body)) == (403, "AccessDenied")
    assert service.stored() == []


async def test_links_behind_our_back_lead_nowhere(service, tmp_path):
    (tmp_path / "secret").write_bytes(b"hush")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "k").write_bytes(b"hush")
    (service.directory / BUCKET / "link").symlink_to(tmp_path / "secret")
    (service.directory / BUCKET / "folder").symlink_to(tmp_path / "secrets")
    (service.directory / "linked").symlink_to(tmp_path / "secrets")
    for path in (f"/{BUCKET}/link", f"/{BUCKET}/folder/k", "/linked/k"):
        status, _, body = await signed_call(service, "GET", path)
        assert status == 404, path
        assert b"hush" not in body
        await signed_call(service, "PUT", path, body=b"data")
        await signed_call(service, "DELETE", path)
    assert (tmp_path / "secret").read_bytes() == b"hush"
    assert [path.read_bytes() for path in (tmp_path / "secrets").iterdir()] == [b"hush"]


# Copy sources


@pytest.mark.parametrize(
    "source",
    [
        *("http://evil.example/training/k", "//evil.example/k", "evil.example:80/k", "arn:aws:s3:::other/k"),
        *(
            "../state/lock",
            "/../state/lock",
            "training/../../state/lock",
            "%2e%2e/state/lock",
            "training%2F..%2Fstate/k",
        ),
        *("training", "training/", "/", "", "?versionId=1", "training/%ff", "training/missing%00"),
    ],
)
async def test_a_copy_source_that_is_no_object_of_the_bucket_store(service, source):
    (service.directory.parent / "state" / "lock2").write_bytes(b"hush")
    for query in ("", "?partNumber=1&uploadId=x"):
        path = f"/{BUCKET}/copy{query}"
        status, _, body = await signed_call(service, "PUT", path, {"x-amz-copy-source": source})
        assert (status, code_of(body)) in {
            (400, "InvalidArgument"),
            (400, "InvalidBucketName"),
            (404, "NoSuchKey"),
            (404, "NoSuchBucket"),
            (404, "NoSuchUpload"),
        }, body
    assert service.stored() == []


async def test_no_header_changes_where_the_bucket_is(service, signer):
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=b"data")
    headers = {"x-forwarded-host": "evil.example", "forwarded": "host=evil.example", "x-original-url": "/other/k"}
    headers |= {"x-rewrite-url": "/other/k", "x-http-method-override": "DELETE", "x-forwarded-proto": "https"}
    status, answer, body = await signed_call(service, "GET", f"/{BUCKET}/k", headers)
    assert (status, body) == (200, b"data")
    assert "evil" not in str(answer)
    assert service.stored() == ["k"]


# Documents


@pytest.mark.parametrize(
    "document",
    [
        b'<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]><Delete><Object><Key>&x;</Key></Object></Delete>',
        b'<?xml version="1.0"?><!DOCTYPE d SYSTEM "http://evil.example/d.dtd"><Delete/>',
        b"<Delete>" + b"<a>" * 600_000,
        b"<Delete>" + b"<a/>" * 600_000 + b"</Delete>",
        b"<Delete " + b" ".join(b'a%d=""' % number for number in range(100_000)) + b"/>",
        "<Delete/>".encode("utf-16"),
        b"\xff\xfe",
        b"<Delete><Object><Key>k</Key></Object></Delete><Delete/>",
    ],
    ids=["file", "other document", "deep", "wide", "attributes", "utf-16", "no text", "two"],
)
async def test_documents_that_are_none(service, document):
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=b"x")
    status, _, body = await signed_call(service, "POST", f"/{BUCKET}?delete", body=document)
    assert (status, code_of(body)) == (400, "MalformedXML")
    assert service.stored() == ["k"]


async def test_a_document_of_ten_thousand_parts_with_every_checksum_is_read(service):
    sums = "".join(
        f"<Checksum{one}>AAAAAA==</Checksum{one}>" for one in ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256")
    )
    rows = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{'0' * 32}</ETag>{sums}</Part>" for number in range(1, 10_001)
    )
    body = f"<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>".encode()
    status, _, answer = await signed_call(service, "POST", f"/{BUCKET}/k?uploadId=none", body=body)
    assert (status, code_of(answer)) == (404, "NoSuchUpload")


@pytest.mark.parametrize("query", ["select&select-type=2", "torrent"])
async def test_questions_to_the_stored_bytes_of_a_checkpoint_are_refused(service, query):
    body = safetensors(np.random.default_rng(0).normal(0, 0.02, 100_000))
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=body)
    method = "POST" if query.startswith("select") else "GET"
    status, _, body = await signed_call(service, method, f"/{BUCKET}/k?{query}")
    assert (status, code_of(body)) == (501, "NotImplemented")


async def test_requests_of_random_bytes_get_an_answer_or_an_end(service):
    for seed in range(40):
        noise = os.urandom(200 + seed * 40)
        answer = await exchange(service, noise + b"\r\n\r\n", half_close=True)
        assert answer.statuses in ([], [400])
        mixed = request(service, "GET", f"/{BUCKET}", noise.replace(b"\n", b"").replace(b"\r", b""))
        assert (await exchange(service, mixed, half_close=True)).statuses in ([], [400], [403])
    assert (await service.call("list_objects_v2", Bucket=BUCKET))["KeyCount"] == 0
