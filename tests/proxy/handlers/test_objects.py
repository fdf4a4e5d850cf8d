"""The calls on objects, asked by boto3 over real sockets."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from tests.proxy.objects.conftest import safetensors

from .conftest import BUCKET

MIB = 1 << 20


@pytest.fixture(scope="module")
def checkpoint() -> bytes:
    return safetensors(np.random.default_rng(0).normal(0, 0.02, 3 * MIB))


@pytest.fixture(params=["checkpoint", "noise"])
def data(request, checkpoint) -> bytes:
    return checkpoint if request.param == "checkpoint" else os.urandom(300_000)


async def failure(service, operation, **parameters) -> tuple[str, int]:
    with pytest.raises(ClientError) as error:
        await service.call(operation, Bucket=BUCKET, **parameters)
    answer = error.value.response
    return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]


async def test_put_head_get_delete(service, data):
    attributes = {
        "ContentType": "application/x-m",
        "CacheControl": "no-store",
        "ContentDisposition": "attachment",
        "ContentLanguage": "en",
        "Metadata": {"step": "7"},
    }
    put = await service.call("put_object", Bucket=BUCKET, Key="k", Body=data, **attributes)
    head = await service.call("head_object", Bucket=BUCKET, Key="k")
    got = await service.call("get_object", Bucket=BUCKET, Key="k")
    assert got["Body"].read() == data
    assert head["ContentLength"] == got["ContentLength"] == len(data)
    assert put["ETag"] == head["ETag"] == got["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
    for name, value in attributes.items():
        assert head[name] == got[name] == value
    await service.call("delete_object", Bucket=BUCKET, Key="k")
    await service.call("delete_object", Bucket=BUCKET, Key="k")
    assert await failure(service, "get_object", Key="k") == ("NoSuchKey", 404)
    assert (await failure(service, "head_object", Key="k"))[1] == 404


@pytest.mark.parametrize("text", ["bytes=0-0", "bytes=10-19", "bytes=-7", "bytes=100-", "bytes=299990-99999999"])
async def test_ranges(service, data, text):
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=data)
    first, _, last = text.removeprefix("bytes=").partition("-")
    start = len(data) - int(last) if not first else int(first)
    end = len(data) if not first or not last else min(len(data), int(last) + 1)
    got = await service.call("get_object", Bucket=BUCKET, Key="k", Range=text)
    assert got["Body"].read() == data[start:end]
    assert got["ContentRange"] == f"bytes {start}-{end - 1}/{len(data)}"
    head = await service.call("head_object", Bucket=BUCKET, Key="k", Range=text)
    assert (head["ContentLength"], head["ResponseMetadata"]["HTTPStatusCode"]) == (end - start, 206)


@pytest.mark.parametrize("text", ["bytes=0-1,4-5", "bytes=x-y", "items=0-1", "bytes=5-4"])
async def test_ranges_that_mean_the_whole(service, data, text):
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=data)
    got = await service.call("get_object", Bucket=BUCKET, Key="k", Range=text)
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert got["Body"].read() == data


async def test_unsatisfiable_ranges(service, data):
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=data)
    await service.call("put_object", Bucket=BUCKET, Key="empty", Body=b"")
    assert await failure(service, "get_object", Key="k", Range=f"bytes={len(data)}-") == ("InvalidRange", 416)
    assert await failure(service, "get_object", Key="empty", Range="bytes=-1") == ("InvalidRange", 416)
    assert (await service.call("get_object", Bucket=BUCKET, Key="empty"))["Body"].read() == b""


async def test_conditional_reads(service, data):
    etag = (await service.call("put_object", Bucket=BUCKET, Key="k", Body=data))["ETag"]
    got = await service.call("get_object", Bucket=BUCKET, Key="k", IfMatch=etag)
    assert got["Body"].read() == data
    assert await failure(service, "get_object", Key="k", IfMatch='"x"', Range="bytes=99999999-") == (
        "PreconditionFailed",
        412,
    )
    assert (await failure(service, "get_object", Key="k", IfNoneMatch=etag))[1] == 304
    assert (await failure(service, "head_object", Key="k", IfNoneMatch=etag))[1] == 304
    assert (await failure(service, "get_object", Key="k", IfModifiedSince=got["LastModified"]))[1] == 304
    assert (await failure(service, "get_object", Key="k", IfUnmodifiedSince="2001-01-01"))[1] == 412


async def test_conditional_writes(service, data):
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=data, IfNoneMatch="*")
    assert await failure(service, "put_object", Key="k", Body=b"x", IfNoneMatch="*") == ("PreconditionFailed", 412)


async def test_response_overrides(service, data):
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=data)
    got = await service.call("get_object", Bucket=BUCKET, Key="k", ResponseContentType="text/plain")
    assert got["ContentType"] == "text/plain"


async def test_checksums_come_back_on_whole_reads_only(service, checkpoint):
    put = await service.call("put_object", Bucket=BUCKET, Key="k", Body=checkpoint, ChecksumAlgorithm="SHA256")
    whole = await service.call("get_object", Bucket=BUCKET, Key="k", ChecksumMode="ENABLED")
    part = await service.call("get_object", Bucket=BUCKET, Key="k", ChecksumMode="ENABLED", Range="bytes=0-9")
    assert whole["ChecksumSHA256"] == put["ChecksumSHA256"]
    assert whole["Body"].read() == checkpoint
    assert "ChecksumSHA256" not in part


async def test_copy(service, data):
    put = await service.call("put_object", Bucket=BUCKET, Key="a b", Body=data, Metadata={"n": "1"})
    source = {"Bucket": BUCKET, "Key": "a b"}
    copied = await service.call("copy_object", Bucket=BUCKET, Key="c", CopySource=source)
    assert copied["CopyObjectResult"]["ETag"] == put["ETag"]
    await service.call(
        "copy_object", Bucket=BUCKET, Key="d", CopySource=source, Metadata={"n": "2"}, MetadataDirective="REPLACE"
    )
    for key, number in (("c", "1"), ("d", "2")):
        got = await service.call("get_object", Bucket=BUCKET, Key=key)
        assert (got["Body"].read(), got["Metadata"]) == (data, {"n": number})


async def test_copies_that_are_refused(service, data):
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=data)
    own = {"Bucket": BUCKET, "Key": "k"}
    assert await failure(service, "copy_object", Key="k", CopySource=own) == ("InvalidRequest", 400)
    assert await failure(service, "copy_object", Key="l", CopySource={**own, "Key": "no"}) == ("NoSuchKey", 404)
    assert await failure(service, "copy_object", Key="l", CopySource="nonsense") == ("InvalidArgument", 400)
    assert await failure(service, "copy_object", Key="l", CopySource=own, CopySourceIfMatch="x") == (
        "PreconditionFailed",
        412,
    )


async def test_delete_objects(service):
    keys = ["a", "b/ü", "c&<>"]
    for key in keys:
        await service.call("put_object", Bucket=BUCKET, Key=key, Body=b"x")
    listed = {"Objects": [{"Key": key} for key in [*keys, "missing", ".s4weights/x"]]}
    answer = await service.call("delete_objects", Bucket=BUCKET, Delete=listed)
    assert [row["Key"] for row in answer["Deleted"]] == [*keys, "missing"]
    assert [(row["Key"], row["Code"]) for row in answer["Errors"]] == [(".s4weights/x", "AccessDenied")]
    assert service.stored() == []


async def test_listings(service, checkpoint):
    for key in ("ckpt/1/m", "ckpt/2/m", "a", "z z+ü"):
        await service.call("put_object", Bucket=BUCKET, Key=key, Body=checkpoint)
    for operation in ("list_objects", "list_objects_v2"):
        page = await service.call(operation, Bucket=BUCKET)
        assert [(row["Key"], row["Size"]) for row in page["Contents"]] == [
            (key, len(checkpoint)) for key in ("a", "ckpt/1/m", "ckpt/2/m", "z z+ü")
        ]
        page = await service.call(operation, Bucket=BUCKET, Delimiter="/", Prefix="ckpt/")
        assert [row["Prefix"] for row in page["CommonPrefixes"]] == ["ckpt/1/", "ckpt/2/"]
    pages = await service.run(
        lambda: [
            [row["Key"] for row in page.get("Contents", [])]
            for page in service.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, MaxKeys=3)
        ]
    )
    assert pages == [["a", "ckpt/1/m", "ckpt/2/m"], ["z z+ü"]]
    after = await service.call("list_objects_v2", Bucket=BUCKET, StartAfter="ckpt/2/m", MaxKeys=0)
    assert after["KeyCount"] == 0


async def test_multipart_by_hand(service, checkpoint):
    create = await service.call("create_multipart_upload", Bucket=BUCKET, Key="k", Metadata={"a": "1"})
    upload = {"Bucket": BUCKET, "Key": "k", "UploadId": create["UploadId"]}
    sizes = (5 * MIB, len(checkpoint) - 5 * MIB)
    bodies = {1: checkpoint[: sizes[0]], 2: checkpoint[sizes[0] :]}
    parts = []
    for number in (2, 1):
        answer = await service.call("upload_part", PartNumber=number, Body=bodies[number], **upload)
        parts.insert(0, {"PartNumber": number, "ETag": answer["ETag"]})
    listed = await service.call("list_parts", **upload)
    assert [(row["PartNumber"], row["Size"], row["ETag"]) for row in listed["Parts"]] == [
        (part["PartNumber"], size, part["ETag"]) for part, size in zip(parts, sizes, strict=True)
    ]
    uploads = await service.call("list_multipart_uploads", Bucket=BUCKET)
    assert [(row["Key"], row["UploadId"]) for row in uploads["Uploads"]] == [("k", create["UploadId"])]
    done = await service.call("complete_multipart_upload", MultipartUpload={"Parts": parts}, **upload)
    head = await service.call("head_object", Bucket=BUCKET, Key="k", PartNumber=2)
    assert (head["ContentLength"], head["PartsCount"], head["ETag"]) == (sizes[1], 2, done["ETag"])
    got = await service.call("get_object", Bucket=BUCKET, Key="k", PartNumber=1)
    assert got["Body"].read() == bodies[1]
    whole = await service.call("get_object", Bucket=BUCKET, Key="k")
    assert (whole["Body"].read(), whole["Metadata"]) == (checkpoint, {"a": "1"})
    assert await failure(service, "get_object", Key="k", PartNumber=3) == ("InvalidPartNumber", 416)


async def test_upload_part_copy(service, checkpoint):
    await service.call("put_object", Bucket=BUCKET, Key="source", Body=checkpoint)
    create = await service.call("create_multipart_upload", Bucket=BUCKET, Key="k")
    upload = {"Bucket": BUCKET, "Key": "k", "UploadId": create["UploadId"]}
    copy = {"CopySource": {"Bucket": BUCKET, "Key": "source"}}
    last = len(checkpoint) - 1
    parts = []
    for number, text in enumerate((f"bytes=0-{5 * MIB - 1}", f"bytes={5 * MIB}-{last}"), 1):
        answer = await service.call("upload_part_copy", PartNumber=number, CopySourceRange=text, **upload, **copy)
        parts.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})
    await service.call("complete_multipart_upload", MultipartUpload={"Parts": parts}, **upload)
    assert (await service.call("get_object", Bucket=BUCKET, Key="k"))["Body"].read() == checkpoint


async def test_abort_and_unknown_uploads(service):
    create = await service.call("create_multipart_upload", Bucket=BUCKET, Key="k")
    upload = {"Key": "k", "UploadId": create["UploadId"]}
    await service.call("abort_multipart_upload", Bucket=BUCKET, **upload)
    for operation, more in (("list_parts", {}), ("upload_part", {"PartNumber": 1, "Body": b"x"})):
        assert await failure(service, operation, **upload, **more) == ("NoSuchUpload", 404)
    assert await failure(service, "abort_multipart_upload", **upload) == ("NoSuchUpload", 404)


async def test_buckets(service):
    await service.call("create_bucket", Bucket="another")
    await service.call("head_bucket", Bucket="another")
    assert [row["Name"] for row in (await service.call("list_buckets"))["Buckets"]] == ["another", BUCKET]
    await service.call("delete_bucket", Bucket="another")
    with pytest.raises(ClientError, match="NoSuchBucket"):
        await service.call("put_object", Bucket="another", Key="k", Body=b"x")


async def test_virtual_host_style(service):
    await service.call("put_object", Bucket=BUCKET, Key="a/b", Body=b"data")
    headers = {"host": f"{BUCKET}.s3.test"}
    request = AWSRequest(method="GET", url=f"http://{BUCKET}.s3.test/a/b", headers={})
    S3SigV4Auth(Credentials("AKIATEST", "test-secret-key"), "s3", "us-east-1").add_auth(request)
    status, _, body = await service.send("GET", "/a/b", {**dict(request.headers.items()), **headers})
    assert (status, body) == (200, b"data")


async def test_a_damaged_object_never_ends_a_200(service, checkpoint):
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=checkpoint)
    path = service.directory / BUCKET / "k"
    stored = bytearray(path.read_bytes())
    stored[-200_000] ^= 1
    stat = path.stat()
    with path.open("r+b") as file:
        file.write(stored)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    status, headers, body = await service.send("GET", f"/{BUCKET}/k", service.signed("GET", f"/{BUCKET}/k"))
    assert status == 200
    assert int(headers["content-length"]) == len(checkpoint)
    assert len(body) < len(checkpoint)
    assert checkpoint.startswith(body)
