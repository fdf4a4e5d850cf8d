"""Checksums there and back by boto3: verified on the way in, kept, and given back as S3 gives them."""

from __future__ import annotations

import base64
import os

import numpy as np
import pytest
from botocore.exceptions import ClientError

from s4weights.proxy.checksums.algorithms import encode, header_of, new_hasher
from tests.proxy.objects.conftest import safetensors

from .conftest import BUCKET

MIB = 1 << 20
ALGORITHMS = ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"]
PLANS = [
    *[(one, "COMPOSITE") for one in ("CRC32", "CRC32C", "SHA1", "SHA256")],
    *[(one, "FULL_OBJECT") for one in ("CRC32", "CRC32C", "CRC64NVME")],
]


def checksum(algorithm: str, data: bytes) -> str:
    hasher = new_hasher(header_of(algorithm))
    hasher.update(data)
    return encode(hasher.digest())


@pytest.fixture(scope="module")
def checkpoint() -> bytes:
    return safetensors(np.random.default_rng(0).normal(0, 0.02, 6 * MIB))


@pytest.fixture(params=["checkpoint", "noise"])
def data(request, checkpoint) -> bytes:
    return checkpoint if request.param == "checkpoint" else os.urandom(12 * MIB)


async def attributes(service, *names, **parameters):
    return await service.call("get_object_attributes", Bucket=BUCKET, Key="k", ObjectAttributes=names, **parameters)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_of_a_put(service, data, algorithm):
    name, value = f"Checksum{algorithm}", checksum(algorithm, data)
    stored = await service.call("put_object", Bucket=BUCKET, Key="k", Body=data, ChecksumAlgorithm=algorithm)
    assert (stored[name], stored["ChecksumType"]) == (value, "FULL_OBJECT")
    for call in ("head_object", "get_object"):
        found = await service.call(call, Bucket=BUCKET, Key="k", ChecksumMode="ENABLED")
        assert (found[name], found["ChecksumType"]) == (value, "FULL_OBJECT")
    assert name not in await service.call("head_object", Bucket=BUCKET, Key="k")
    part = await service.call("get_object", Bucket=BUCKET, Key="k", Range="bytes=0-9", ChecksumMode="ENABLED")
    assert name not in part
    found = await attributes(service, "ETag", "Checksum", "ObjectSize", "StorageClass", "ObjectParts")
    assert (found["ObjectSize"], found["ETag"]) == (len(data), stored["ETag"].strip('"'))
    assert (found["Checksum"][name], found["Checksum"]["ChecksumType"]) == (value, "FULL_OBJECT")
    assert found["StorageClass"] == "STANDARD"
    assert "ObjectParts" not in found


@pytest.mark.parametrize(("algorithm", "kind"), PLANS)
async def test_of_an_upload_in_parts(service, data, algorithm, kind):
    name = f"Checksum{algorithm}"
    asked = {"Bucket": BUCKET, "Key": "k"}
    begun = await service.call("create_multipart_upload", **asked, ChecksumAlgorithm=algorithm, ChecksumType=kind)
    assert (begun["ChecksumAlgorithm"], begun["ChecksumType"]) == (algorithm, kind)
    asked["UploadId"] = begun["UploadId"]
    pieces = [data[: 5 * MIB], data[5 * MIB : 10 * MIB], data[10 * MIB :]]
    parts = []
    for number, piece in enumerate(pieces, 1):
        sent = await service.call("upload_part", **asked, PartNumber=number, Body=piece, ChecksumAlgorithm=algorithm)
        assert sent[name] == checksum(algorithm, piece)
        parts.append({"PartNumber": number, "ETag": sent["ETag"], name: sent[name]})
    listed = await service.call("list_parts", **asked)
    assert (listed["ChecksumAlgorithm"], listed["ChecksumType"]) == (algorithm, kind)
    assert [part[name] for part in listed["Parts"]] == [part[name] for part in parts]

    raw = new_hasher(header_of(algorithm))
    for part in parts:
        raw.update(base64.b64decode(part[name]))
    whole = checksum(algorithm, data) if kind == "FULL_OBJECT" else f"{encode(raw.digest())}-3"
    done = await service.call(
        "complete_multipart_upload", **asked, MultipartUpload={"Parts": parts}, ChecksumType=kind, **{name: whole}
    )
    assert (done[name], done["ChecksumType"]) == (whole, kind)
    for call in ("head_object", "get_object"):
        found = await service.call(call, Bucket=BUCKET, Key="k", ChecksumMode="ENABLED")
        assert (found[name], found["ChecksumType"]) == (whole, kind)
    found = await attributes(service, "Checksum", "ObjectParts", "ObjectSize", MaxParts=2)
    assert (found["Checksum"][name], found["ObjectSize"]) == (whole, len(data))
    if service.stored_size("k") == len(data):
        return  # a directory does not remember the parts of what passed through
    rows = found["ObjectParts"]
    assert (rows["TotalPartsCount"], rows["IsTruncated"], rows["NextPartNumberMarker"]) == (3, True, 2)
    assert [(row["PartNumber"], row["Size"], row[name]) for row in rows["Parts"]] == [
        (number, len(pieces[number - 1]), parts[number - 1][name]) for number in (1, 2)
    ]
    rest = (await attributes(service, "ObjectParts", PartNumberMarker=2))["ObjectParts"]
    assert ([row["PartNumber"] for row in rest["Parts"]], rest["IsTruncated"]) == ([3], False)


async def test_parts_without_checksums_have_sizes(service, checkpoint):
    asked = {"Bucket": BUCKET, "Key": "k"}
    client = service.make_client(request_checksum_calculation="when_required")
    asked["UploadId"] = (await service.run(lambda: client.create_multipart_upload(**asked)))["UploadId"]
    sent = await service.run(lambda: client.upload_part(**asked, PartNumber=1, Body=checkpoint))
    parts = {"Parts": [{"PartNumber": 1, "ETag": sent["ETag"]}]}
    await service.run(lambda: client.complete_multipart_upload(**asked, MultipartUpload=parts))
    found = await attributes(service, "ObjectParts", "Checksum")
    assert found["ObjectParts"]["Parts"] == [{"PartNumber": 1, "Size": len(checkpoint)}]
    assert "Checksum" not in found


async def test_a_part_without_one_gets_one(service, data):
    asked = {"Bucket": BUCKET, "Key": "k"}
    client = service.make_client(request_checksum_calculation="when_required")
    begun = await service.run(lambda: client.create_multipart_upload(**asked, ChecksumAlgorithm="CRC32C"))
    asked["UploadId"] = begun["UploadId"]
    sent = await service.run(lambda: client.upload_part(**asked, PartNumber=1, Body=data))
    assert sent["ChecksumCRC32C"] == checksum("CRC32C", data)
    parts = {"Parts": [{"PartNumber": 1, "ETag": sent["ETag"]}]}
    done = await service.run(lambda: client.complete_multipart_upload(**asked, MultipartUpload=parts))
    assert done["ChecksumCRC32C"].endswith("-1")


@pytest.mark.parametrize("kind", ["checkpoint", "noise"])
async def test_a_part_that_is_copied_has_one_too(service, checkpoint, kind):
    data = checkpoint if kind == "checkpoint" else os.urandom(6 * MIB)
    await service.call("put_object", Bucket=BUCKET, Key="source", Body=data)
    asked = {"Bucket": BUCKET, "Key": "k"}
    begun = await service.call("create_multipart_upload", **asked, ChecksumAlgorithm="SHA256")
    asked["UploadId"] = begun["UploadId"]
    copied = await service.call("upload_part_copy", **asked, PartNumber=1, CopySource=f"{BUCKET}/source")
    result = copied["CopyPartResult"]
    assert result["ChecksumSHA256"] == checksum("SHA256", data)
    parts = [{"PartNumber": 1, "ETag": result["ETag"], "ChecksumSHA256": result["ChecksumSHA256"]}]
    done = await service.call("complete_multipart_upload", **asked, MultipartUpload={"Parts": parts})
    assert done["ChecksumSHA256"].endswith("-1")


async def test_a_copy_tells_the_checksum_of_the_whole(service, checkpoint):
    await service.call("put_object", Bucket=BUCKET, Key="source", Body=checkpoint, ChecksumAlgorithm="CRC32")
    copied = await service.call("copy_object", Bucket=BUCKET, Key="k", CopySource=f"{BUCKET}/source")
    assert copied["CopyObjectResult"]["ChecksumCRC32"] == checksum("CRC32", checkpoint)
    found = await service.call("head_object", Bucket=BUCKET, Key="k", ChecksumMode="ENABLED")
    assert found["ChecksumCRC32"] == checksum("CRC32", checkpoint)


async def refused(service, operation, **parameters) -> str:
    with pytest.raises(ClientError) as error:
        await service.call(operation, Bucket=BUCKET, Key="k", **parameters)
    return error.value.response["Error"]["Code"]


async def test_a_complete_that_does_not_fit_is_refused_and_may_be_mended(service, data):
    asked = {"UploadId": ""}
    begun = await service.call("create_multipart_upload", Bucket=BUCKET, Key="k", ChecksumAlgorithm="CRC32")
    asked["UploadId"] = begun["UploadId"]
    assert (
        await refused(service, "upload_part", **asked, PartNumber=1, Body=data, ChecksumAlgorithm="SHA1")
        == "InvalidRequest"
    )
    sent = await service.call(
        "upload_part", Bucket=BUCKET, Key="k", **asked, PartNumber=1, Body=data, ChecksumAlgorithm="CRC32"
    )
    part = {"PartNumber": 1, "ETag": sent["ETag"]}
    wrong = {"MultipartUpload": {"Parts": [{**part, "ChecksumCRC32": "AAAAAA=="}]}}
    right = {"MultipartUpload": {"Parts": [{**part, "ChecksumCRC32": sent["ChecksumCRC32"]}]}}
    complete = "complete_multipart_upload"
    assert await refused(service, complete, **asked, **wrong) == "InvalidPart"
    assert await refused(service, complete, **asked, **right, ChecksumCRC32="AAAAAA==") == "BadDigest"
    assert await refused(service, complete, **asked, **right, ChecksumType="FULL_OBJECT") == "InvalidRequest"
    assert await refused(service, complete, **asked, **right, MpuObjectSize=len(data) - 1) == "InvalidRequest"
    await service.call(complete, Bucket=BUCKET, Key="k", **asked, **right, MpuObjectSize=len(data))
    found = await service.call("get_object", Bucket=BUCKET, Key="k")
    assert found["Body"].read() == data


async def test_an_algorithm_that_is_named_must_come(service):
    for headers, status in [
        ({"x-amz-sdk-checksum-algorithm": "CRC32"}, 400),
        ({"x-amz-sdk-checksum-algorithm": "SHA1", "x-amz-checksum-crc32": checksum("CRC32", b"x")}, 400),
        ({"x-amz-sdk-checksum-algorithm": "MD5", "x-amz-checksum-crc32": checksum("CRC32", b"x")}, 400),
        ({"x-amz-sdk-checksum-algorithm": "CRC32", "x-amz-checksum-crc32": checksum("CRC32", b"x")}, 200),
    ]:
        signed = service.signed("PUT", f"/{BUCKET}/k", headers)
        answer = await service.send("PUT", f"/{BUCKET}/k", {**signed, "content-length": "1"}, b"x")
        assert (headers, answer[0]) == (headers, status)


async def test_attributes_that_are_none(service):
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=b"x")
    for asked in ("", "ETag,Colour"):
        headers = service.signed("GET", f"/{BUCKET}/k?attributes", {"x-amz-object-attributes": asked} if asked else {})
        status, _, document = await service.send("GET", f"/{BUCKET}/k?attributes", headers)
        assert (status, b"InvalidArgument" in document) == (400, True)


async def test_versions_of_a_bucket_without_them_have_logical_sizes(service, checkpoint):
    noise = os.urandom(1000)
    for key, data in [("a/model", checkpoint), ("a/noise", noise), ("b", noise)]:
        await service.call("put_object", Bucket=BUCKET, Key=key, Body=data)
    first = await service.call("list_object_versions", Bucket=BUCKET, MaxKeys=2)
    assert [(row["Key"], row["Size"], row["VersionId"]) for row in first["Versions"]] == [
        ("a/model", len(checkpoint), "null"),
        ("a/noise", 1000, "null"),
    ]
    head = await service.call("head_object", Bucket=BUCKET, Key="a/model")
    assert first["Versions"][0]["ETag"] == head["ETag"]
    rest = await service.call("list_object_versions", Bucket=BUCKET, KeyMarker=first["NextKeyMarker"])
    assert ([row["Key"] for row in rest["Versions"]], rest["IsTruncated"]) == (["b"], False)
    folded = await service.call("list_object_versions", Bucket=BUCKET, Delimiter="/")
    assert [row["Prefix"] for row in folded["CommonPrefixes"]] == ["a/"]
