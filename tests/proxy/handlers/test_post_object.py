"""POST Object with boto3's own signed forms, over real sockets."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import numpy as np
import pytest

from s4weights.proxy.checksums.algorithms import encode, new_hasher
from tests.proxy.objects.conftest import safetensors

from .conftest import BUCKET

MIB = 1 << 20
BOUNDARY = "7MA4YWxk"


def encode_form(fields: dict[str, str], data: bytes | None, name: str = "model.bin") -> bytes:
    lines = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in fields.items()
    ]
    if data is not None:
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        lines += [head.encode(), data, b"\r\n"]
    return b"".join([*lines, f"--{BOUNDARY}--\r\n".encode()])


async def post(service, fields: dict[str, str], data: bytes | None) -> tuple[int, dict[str, str], bytes]:
    body = encode_form(fields, data)
    headers = {
        "host": service.endpoint.removeprefix("http://"),
        "content-type": f"multipart/form-data; boundary={BOUNDARY}",
        "content-length": str(len(body)),
    }
    return await service.send("POST", f"/{BUCKET}", headers, body)


def signed(service, key: str, fields: dict[str, str] | None = None, *conditions: Any, **options: Any) -> dict[str, str]:
    named = [{name: value} for name, value in (fields or {}).items()]
    made = service.client.generate_presigned_post(
        BUCKET, key, Fields=dict(fields or {}), Conditions=[*named, *conditions], **options
    )
    return made["fields"]


@pytest.mark.parametrize("kind", ["checkpoint", "noise", "empty"])
async def test_a_file_is_stored_as_by_a_put(service, kind):
    data = {
        "checkpoint": safetensors(np.random.default_rng(0).normal(0, 0.02, 3 * MIB)),
        "noise": os.urandom(200_000),
        "empty": b"",
    }[kind]
    fields = signed(service, "user/${filename}", {"Content-Type": "x/y", "x-amz-meta-run": "7"})
    status, headers, body = await post(service, fields, data)
    assert (status, body) == (204, b"")
    found = await service.call("get_object", Bucket=BUCKET, Key="user/model.bin")
    assert found["Body"].read() == data
    assert (found["ETag"], found["ContentType"], found["Metadata"]) == (headers["etag"], "x/y", {"run": "7"})
    assert (service.stored_size("user/model.bin") < len(data)) == (kind == "checkpoint")


async def test_answers_that_a_form_may_ask_for(service):
    for asked, expected in [("200", 200), ("201", 201), ("299", 204)]:
        status, headers, body = await post(service, signed(service, "k", {"success_action_status": asked}), b"x")
        assert (status, b"<Key>k</Key>" in body) == (expected, expected == 201)
        assert headers["location"].endswith(f"/{BUCKET}/k")
    target = "https://example.com/done?x=1"
    status, headers, _ = await post(service, signed(service, "k", {"success_action_redirect": target}), b"x")
    assert status == 303
    assert headers["location"].startswith(f"{target}&bucket={BUCKET}&key=k&etag=")
    status, headers, _ = await post(
        service, signed(service, "k", {"success_action_redirect": "javascript:alert(1)"}), b"x"
    )
    assert status == 204


@pytest.mark.parametrize(
    ("change", "data", "status", "code"),
    [
        ({}, b"123456789", 400, b"EntityTooSmall"),
        ({}, bytes(101), 400, b"EntityTooLarge"),
        ({}, None, 400, b"InvalidArgument"),
        ({"key": "other"}, bytes(50), 403, b"AccessDenied"),
        ({"acl": "public-read"}, bytes(50), 403, b"AccessDenied"),
        ({"x-amz-signature": "0" * 64}, bytes(50), 403, b"SignatureDoesNotMatch"),
        ({"key": ".s4weights/k"}, bytes(50), 403, b"AccessDenied"),
    ],
)
async def test_what_the_policy_does_not_allow_leaves_nothing(service, change, data, status, code):
    fields = signed(service, "k", None, ["content-length-range", 10, 100]) | change
    answer = await post(service, fields, data)
    assert (answer[0], code in answer[2]) == (status, True), answer
    assert service.stored() == []


async def test_a_form_without_a_policy_is_refused(service):
    for fields in ({"key": "k"}, {"key": "k", "AWSAccessKeyId": "AKIATEST", "policy": "x", "signature": "x"}):
        status, _, _ = await post(service, fields, b"x")
        assert status in (400, 403)
    assert service.stored() == []


async def test_a_form_that_breaks_off_leaves_nothing(service):
    body = encode_form(signed(service, "k"), b"x" * 5000)
    headers = {
        "host": service.endpoint.removeprefix("http://"),
        "content-type": f"multipart/form-data; boundary={BOUNDARY}",
        "content-length": str(len(body)),
    }
    status, _, _ = await service.send("POST", f"/{BUCKET}", headers, body[:-2000], half_close=True)
    assert status == 400
    assert service.stored() == []


ALGORITHMS = ["crc32", "crc32c", "crc64nvme", "sha1", "sha256"]


def checksum(algorithm: str, data: bytes) -> dict[str, str]:
    header = f"x-amz-checksum-{algorithm}"
    hasher = new_hasher(header)
    hasher.update(data)
    return {header: encode(hasher.digest())}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kind", ["checkpoint", "noise", "empty"])
async def test_a_checksum_of_a_form_is_compared_kept_and_answered(service, kind, algorithm):
    checkpoint = safetensors(np.random.default_rng(0).normal(0, 0.02, MIB))
    data = {"checkpoint": checkpoint, "noise": os.urandom(200_000), "empty": b""}[kind]
    fields = checksum(algorithm, data)
    status, _, body = await post(service, signed(service, "k", fields), data + b"x")
    assert (status, b"<Code>BadDigest</Code>" in body, service.stored()) == (400, True, [])
    named = {**fields, "x-amz-checksum-algorithm": algorithm.upper()}
    status, headers, _ = await post(service, signed(service, "k", named), data)
    assert status == 204
    assert fields.items() | {("x-amz-checksum-type", "FULL_OBJECT")} <= headers.items()
    if kind == "checkpoint":  # a directory keeps no checksums of what passes through
        found = await service.call("head_object", Bucket=BUCKET, Key="k", ChecksumMode="ENABLED")
        assert found[f"Checksum{algorithm.upper()}"] == fields[f"x-amz-checksum-{algorithm}"]


async def test_the_md5_of_a_form_is_compared(service):
    fields = {"Content-MD5": encode(hashlib.md5(b"abc").digest())}
    status, _, body = await post(service, signed(service, "k", fields), b"abd")
    assert (status, b"<Code>BadDigest</Code>" in body, service.stored()) == (400, True, [])
    assert (await post(service, signed(service, "k", fields), b"abc"))[0] == 204


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"x-amz-checksum-crc32": "bad"}, b"InvalidRequest"),
        ({"x-amz-checksum-md4": "AAAA"}, b"InvalidRequest"),
        ({**checksum("crc32", b"abc"), **checksum("sha1", b"abc")}, b"InvalidRequest"),
        ({"x-amz-checksum-algorithm": "CRC32"}, b"InvalidRequest"),
        ({"x-amz-checksum-algorithm": "SHA1", **checksum("crc32", b"abc")}, b"InvalidRequest"),
        ({"Content-MD5": "bad"}, b"InvalidDigest"),
    ],
)
async def test_what_is_no_checksum_is_refused(service, fields, code):
    status, _, body = await post(service, signed(service, "k", fields), b"abc")
    assert (status, code in body, service.stored()) == (400, True, [])


@pytest.mark.parametrize("field", ["x-amz-checksum-crc32", "x-amz-checksum-algorithm", "content-md5"])
async def test_the_policy_must_name_a_checksum(service, field):
    status, _, body = await post(service, signed(service, "k") | {field: "AAAA"}, b"abc")
    assert (status, b"Extra input fields" in body, service.stored()) == (403, True, [])
