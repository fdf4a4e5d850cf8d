"""What the bucket itself knows of an object, seen through the proxy: versions, locks, keys of the client's own, checksums."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import os
import secrets
import zlib
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import numpy as np
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from tests.e2e.conftest import BUCKET, Endpoint
from tests.e2e.differential import Request, Side
from tests.e2e.proxy_process import ACCESS_KEY, SECRET_KEY
from tests.proxy.handlers.test_post_object import BOUNDARY, encode_form
from tests.proxy.objects.conftest import safetensors

pytestmark = pytest.mark.e2e
MIB = 1 << 20


@pytest.fixture(scope="module")
def checkpoint() -> bytes:
    return safetensors(np.random.default_rng(7).normal(0, 0.02, 4 * MIB))


@pytest.fixture
def seaweed(endpoint: Endpoint) -> Endpoint:
    if endpoint.directory is not None:
        pytest.skip("a local directory has none of this")
    return endpoint


def make_bucket(endpoint: Endpoint, **options) -> str:
    bucket = f"features-{secrets.token_hex(4)}"
    endpoint.proxy.client().create_bucket(Bucket=bucket, **options)
    return bucket


def test_versions_have_logical_sizes_and_each_can_be_read(seaweed, checkpoint):
    client, bucket = seaweed.proxy.client(), make_bucket(seaweed)
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    bodies = [checkpoint, os.urandom(3000), checkpoint[: 3 * MIB]]
    written = [client.put_object(Bucket=bucket, Key="models/ü 1", Body=body) for body in bodies]
    client.delete_object(Bucket=bucket, Key="models/ü 1")
    page = client.list_object_versions(Bucket=bucket)
    seen = {row["VersionId"]: (row["Key"], row["Size"], row["ETag"]) for row in page["Versions"]}
    assert seen == {
        answer["VersionId"]: ("models/ü 1", len(body), answer["ETag"])
        for answer, body in zip(written, bodies, strict=True)
    }
    assert [row["Key"] for row in page["DeleteMarkers"]] == ["models/ü 1"]
    for answer, body in zip(written, bodies, strict=True):
        asked = {"Bucket": bucket, "Key": "models/ü 1", "VersionId": answer["VersionId"]}
        assert client.get_object(**asked)["Body"].read() == body
        found = client.get_object_attributes(**asked, ObjectAttributes=["ObjectSize", "ETag"])
        assert (found["ObjectSize"], found["ETag"]) == (len(body), answer["ETag"].strip('"'))
    stored = {row["VersionId"]: row["Size"] for row in seaweed.straight.list_object_versions(Bucket=bucket)["Versions"]}
    assert stored[written[0]["VersionId"]] < 0.95 * len(checkpoint)
    seen_markers = []
    for whose in (client, seaweed.straight):
        with pytest.raises(ClientError) as gone:
            whose.get_object(Bucket=bucket, Key="models/ü 1")
        answer = gone.value.response
        marker = answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-delete-marker")
        seen_markers.append((answer["Error"]["Code"], marker))
    assert seen_markers[0] == seen_markers[1]


def test_a_locked_checkpoint_stays_until_its_lock_is_passed_by(seaweed, checkpoint):
    client = seaweed.proxy.client()
    bucket = make_bucket(seaweed, ObjectLockEnabledForBucket=True)
    until = datetime.now(UTC) + timedelta(days=1)
    answer = client.put_object(
        Bucket=bucket, Key="k", Body=checkpoint, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until
    )
    asked = {"Bucket": bucket, "Key": "k", "VersionId": answer["VersionId"]}
    assert client.head_object(**asked)["ObjectLockMode"] == "GOVERNANCE"
    with pytest.raises(ClientError, match="AccessDenied"):
        client.delete_object(**asked)
    assert client.get_object(**asked)["Body"].read() == checkpoint
    client.delete_object(**asked, BypassGovernanceRetention=True)
    with pytest.raises(ClientError, match="404|NoSuch"):
        client.get_object(**asked)


def test_a_body_under_the_clients_own_key_is_stored_as_it_came(seaweed, checkpoint):
    client, key = seaweed.proxy.client(), secrets.token_bytes(32)
    sse = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": key}
    client.put_object(Bucket=BUCKET, Key="own/put", Body=checkpoint, **sse)
    upload = client.create_multipart_upload(Bucket=BUCKET, Key="own/parts", **sse)["UploadId"]
    asked = {"Bucket": BUCKET, "Key": "own/parts", "UploadId": upload}
    parts = []
    for number, piece in enumerate((checkpoint[: 5 * MIB], checkpoint[5 * MIB :]), 1):
        sent = client.upload_part(**asked, PartNumber=number, Body=piece, **sse)
        parts.append({"PartNumber": number, "ETag": sent["ETag"]})
    client.complete_multipart_upload(**asked, MultipartUpload={"Parts": parts}, **sse)
    for name in ("own/put", "own/parts"):
        for whose in (client, seaweed.straight):
            assert whose.get_object(Bucket=BUCKET, Key=name, **sse)["Body"].read() == checkpoint
        middle = client.get_object(Bucket=BUCKET, Key=name, Range="bytes=100-199", **sse)
        assert middle["Body"].read() == checkpoint[100:200]
        assert client.head_object(Bucket=BUCKET, Key=name, **sse)["ContentLength"] == len(checkpoint)
        with pytest.raises(ClientError):
            client.get_object(Bucket=BUCKET, Key=name)
    rows = client.list_objects_v2(Bucket=BUCKET, Prefix="own/")["Contents"]
    assert {row["Size"] for row in rows} == {len(checkpoint)}
    client.put_object(Bucket=BUCKET, Key="plain", Body=checkpoint)
    with pytest.raises(ClientError, match="NotImplemented"):
        client.copy_object(Bucket=BUCKET, Key="own/copy", CopySource=f"{BUCKET}/plain", **sse)


def test_an_upload_begun_past_the_proxy_goes_on_through_it(seaweed):
    noise = os.urandom(6 * MIB)
    upload = seaweed.straight.create_multipart_upload(Bucket=BUCKET, Key="foreign")["UploadId"]
    client, asked = seaweed.proxy.client(), {"Bucket": BUCKET, "Key": "foreign", "UploadId": upload}
    sent = client.upload_part(**asked, PartNumber=1, Body=noise)
    assert [part["Size"] for part in client.list_parts(**asked)["Parts"]] == [len(noise)]
    client.complete_multipart_upload(**asked, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": sent["ETag"]}]})
    assert client.get_object(Bucket=BUCKET, Key="foreign")["Body"].read() == noise


@pytest.mark.parametrize("kind", ["noise", "checkpoint"])
def test_a_part_is_copied_into_an_upload_begun_past_the_proxy(seaweed, checkpoint, kind):
    body = checkpoint if kind == "checkpoint" else os.urandom(6 * MIB)
    client = seaweed.proxy.client()
    client.put_object(Bucket=BUCKET, Key="copied/source", Body=body)
    upload = seaweed.straight.create_multipart_upload(Bucket=BUCKET, Key="copied/k")["UploadId"]
    asked = {"Bucket": BUCKET, "Key": "copied/k", "UploadId": upload}
    source = {"CopySource": {"Bucket": BUCKET, "Key": "copied/source"}}
    ranges = [{"CopySourceRange": f"bytes=7-{5 * MIB + 6}"}, {}]
    parts = []
    for number, which in enumerate(ranges, 1):
        copied = client.upload_part_copy(**asked, **source, **which, PartNumber=number)["CopyPartResult"]
        parts.append({"PartNumber": number, "ETag": copied["ETag"]})
    for wrong, code in [
        ({"CopySourceRange": "bytes=0-99999999"}, "InvalidRange"),
        ({"CopySourceIfMatch": '"0"'}, "PreconditionFailed|412"),
        ({"UploadId": "f" * 32}, "NoSuchUpload"),
    ]:
        with pytest.raises(ClientError, match=code):
            client.upload_part_copy(**{**asked, **source, "PartNumber": 3, **wrong})
    client.complete_multipart_upload(**asked, MultipartUpload={"Parts": parts})
    for whose in (seaweed.straight, client):
        got = whose.get_object(Bucket=BUCKET, Key="copied/k")["Body"].read()
        assert got == body[7 : 5 * MIB + 7] + body


def test_an_upload_begun_past_the_proxy_is_aborted_through_it(seaweed):
    upload = seaweed.straight.create_multipart_upload(Bucket=BUCKET, Key="aborted")["UploadId"]
    asked = {"Bucket": BUCKET, "Key": "aborted", "UploadId": upload}
    seaweed.proxy.client().abort_multipart_upload(**asked)
    with pytest.raises(ClientError, match="NoSuchUpload"):
        seaweed.straight.list_parts(**asked)


def test_an_upload_that_nobody_knows(endpoint):
    client, asked = endpoint.proxy.client(), {"Bucket": BUCKET, "Key": "nobody", "UploadId": "f" * 32}
    for call in (
        lambda: client.upload_part(**asked, PartNumber=1, Body=b"x"),
        lambda: client.upload_part_copy(**asked, PartNumber=1, CopySource={"Bucket": BUCKET, "Key": "nobody"}),
        lambda: client.list_parts(**asked),
        lambda: client.complete_multipart_upload(**asked, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": "x"}]}),
        lambda: client.abort_multipart_upload(**asked),
    ):
        with pytest.raises(ClientError, match="NoSuchUpload"):
            call()


@pytest.mark.parametrize("size", [1, 100_000, 3 * MIB + 5])
def test_a_checksum_behind_a_body_that_passes_through_is_kept_by_the_bucket(seaweed, size):
    noise = os.urandom(size)
    crc = base64.b64encode(zlib.crc32(noise).to_bytes(4, "big")).decode()
    body = f"{size:x}\r\n".encode() + noise + f"\r\n0\r\nx-amz-checksum-crc32:{crc}\r\n\r\n".encode()

    class Signer(S3SigV4Auth):
        def payload(self, _: AWSRequest) -> str:
            return "STREAMING-UNSIGNED-PAYLOAD-TRAILER"

    path = f"/{BUCKET}/trailer"
    request = AWSRequest(
        method="PUT",
        url=f"{seaweed.proxy.endpoint}{path}",
        headers={
            "content-encoding": "aws-chunked",
            "x-amz-decoded-content-length": str(size),
            "x-amz-trailer": "x-amz-checksum-crc32",
        },
    )
    Signer(Credentials(ACCESS_KEY, SECRET_KEY), "s3", "us-east-1").add_auth(request)
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", seaweed.proxy.port, timeout=30)) as wire:
        wire.request("PUT", path, body, {**dict(request.headers.items()), "content-length": str(len(body))})
        answer = wire.getresponse()
        assert (answer.status, answer.headers["x-amz-checksum-crc32"]) == (200, crc), answer.read()
    for client in (seaweed.straight, seaweed.proxy.client()):
        found = client.get_object(Bucket=BUCKET, Key="trailer", ChecksumMode="ENABLED")
        assert (found["Body"].read(), found["ChecksumCRC32"]) == (noise, crc)
    assert "ContentEncoding" not in found  # SeaweedFS keeps the transfer's beside the object's


def test_a_checksum_of_a_form_is_kept_by_the_bucket(seaweed):
    noise = os.urandom(100_000)
    crc = base64.b64encode(zlib.crc32(noise).to_bytes(4, "big")).decode()
    field = {"x-amz-checksum-crc32": crc}
    client = seaweed.proxy.client()
    made = client.generate_presigned_post(BUCKET, "form", Fields=dict(field), Conditions=[field])
    form = encode_form(made["fields"], noise)
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", seaweed.proxy.port, timeout=30)) as wire:
        wire.request("POST", f"/{BUCKET}", form, {"content-type": f"multipart/form-data; boundary={BOUNDARY}"})
        answer = wire.getresponse()
        assert (answer.status, answer.headers["x-amz-checksum-crc32"]) == (204, crc), answer.read()
    for whose in (seaweed.straight, client):
        assert whose.head_object(Bucket=BUCKET, Key="form", ChecksumMode="ENABLED")["ChecksumCRC32"] == crc


@pytest.mark.parametrize("kind", ["COMPOSITE", "FULL_OBJECT"])
def test_checksums_of_parts_that_pass_through_are_kept_by_the_bucket(seaweed, kind):
    noise, client = os.urandom(11 * MIB), seaweed.proxy.client()
    asked = {"Bucket": BUCKET, "Key": f"parts-{kind}"}
    begun = client.create_multipart_upload(**asked, ChecksumAlgorithm="CRC32", ChecksumType=kind)
    asked["UploadId"] = begun["UploadId"]
    parts = []
    for number, piece in enumerate((noise[: 6 * MIB], noise[6 * MIB :]), 1):
        sent = client.upload_part(**asked, PartNumber=number, Body=piece)
        parts.append({"PartNumber": number, "ETag": sent["ETag"], "ChecksumCRC32": sent["ChecksumCRC32"]})
    done = client.complete_multipart_upload(**asked, MultipartUpload={"Parts": parts}, ChecksumType=kind)
    straight = seaweed.straight.head_object(Bucket=BUCKET, Key=asked["Key"], ChecksumMode="ENABLED")
    through = client.head_object(Bucket=BUCKET, Key=asked["Key"], ChecksumMode="ENABLED")
    assert done["ChecksumCRC32"] == straight["ChecksumCRC32"] == through["ChecksumCRC32"]
    assert client.get_object(Bucket=BUCKET, Key=asked["Key"])["Body"].read() == noise


def test_a_listing_goes_on_by_the_buckets_own_token(seaweed):
    client, bucket = seaweed.proxy.client(), make_bucket(seaweed)
    keys = sorted([f"a/{number:02}" for number in range(7)] + ["a", "b/1", "b/2", "c ü", "d\x7f"], key=str.encode)
    for key in keys:
        client.put_object(Bucket=bucket, Key=key, Body=b"x")
    for options, expected in [({}, keys), ({"Delimiter": "/"}, ["a", "a/", "b/", "c ü", "d\x7f"])]:
        found: list[str] = []
        more: dict[str, str] = {}
        while True:
            page = client.list_objects_v2(Bucket=bucket, MaxKeys=2, **options, **more)
            found += [row["Key"] for row in page.get("Contents", [])]
            found += [row["Prefix"] for row in page.get("CommonPrefixes", [])]
            if not page["IsTruncated"]:
                break
            more = {"ContinuationToken": page["NextContinuationToken"]}
        assert sorted(found, key=str.encode) == expected


def test_md5_of_what_is_listed(endpoint, checkpoint):
    client = endpoint.proxy.client()
    client.put_object(Bucket=BUCKET, Key="listed/model", Body=checkpoint)
    [row] = client.list_objects_v2(Bucket=BUCKET, Prefix="listed/")["Contents"]
    assert row["ETag"].strip('"') == hashlib.md5(checkpoint).hexdigest()


def test_versions_are_listed_under_keys_that_a_document_hardly_holds(seaweed):
    """boto3 would ask for encoded ones."""
    client, bucket = seaweed.proxy.client(), make_bucket(seaweed)
    keys = ["a\rb", "a+b %2B", "ü&<"]
    for key in keys:
        client.put_object(Bucket=bucket, Key=key, Body=b"x")
    answer = Side(seaweed.proxy.endpoint, ACCESS_KEY, SECRET_KEY, bucket).send(Request("GET", "?versions"))
    found = [row.text for row in ElementTree.fromstring(answer.body).iterfind("{*}Version/{*}Key")]
    assert sorted(found) == sorted(keys)


@pytest.mark.parametrize("how", ["delete marker", "overwritten"])
def test_a_version_that_is_a_base_is_kept_for_its_dependent(seaweed, checkpoint, how):
    client, bucket = seaweed.proxy.client(), make_bucket(seaweed)
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    base, key = "run/step-1/m.safetensors", "run/step-2/m.safetensors"
    later = near(checkpoint)
    version = client.put_object(Bucket=bucket, Key=base, Body=checkpoint)["VersionId"]
    client.put_object(Bucket=bucket, Key=key, Body=later)
    assert depends(seaweed, bucket)
    if how == "delete marker":
        client.delete_object(Bucket=bucket, Key=base)
    else:
        client.put_object(Bucket=bucket, Key=base, Body=os.urandom(3000))
    client.delete_object(Bucket=bucket, Key=base, VersionId=version)
    assert holds_hidden(seaweed, bucket)
    assert client.get_object(Bucket=bucket, Key=key)["Body"].read() == later


def test_a_base_is_kept_also_where_an_upload_begun_past_the_proxy_takes_its_place(seaweed, checkpoint):
    client, bucket = seaweed.proxy.client(), make_bucket(seaweed)
    base, key = "run/step-1/m.safetensors", "run/step-2/m.safetensors"
    later, other = near(checkpoint), os.urandom(MIB)
    client.put_object(Bucket=bucket, Key=base, Body=checkpoint)
    client.put_object(Bucket=bucket, Key=key, Body=later)
    assert depends(seaweed, bucket)
    asked = {"Bucket": bucket, "Key": base}
    upload = seaweed.straight.create_multipart_upload(**asked)["UploadId"]
    etag = client.upload_part(**asked, UploadId=upload, PartNumber=1, Body=other)["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    client.complete_multipart_upload(**asked, UploadId=upload, MultipartUpload=parts)
    assert client.get_object(**asked)["Body"].read() == other
    assert holds_hidden(seaweed, bucket)
    assert client.get_object(Bucket=bucket, Key=key)["Body"].read() == later


def near(checkpoint: bytes) -> bytes:
    """A checkpoint that differs in a few of its last values."""
    return checkpoint[:-64] + bytes(one ^ 1 for one in checkpoint[-64:])


def depends(endpoint: Endpoint, bucket: str) -> bool:
    return bool(endpoint.straight.list_objects_v2(Bucket=bucket, Prefix=".s4weights/pins/").get("Contents"))


def holds_hidden(endpoint: Endpoint, bucket: str) -> bool:
    return bool(endpoint.straight.list_objects_v2(Bucket=bucket, Prefix=".s4weights/bases/").get("Contents"))
