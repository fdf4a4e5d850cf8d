"""Before moto, which keeps to other parts of S3 than SeaweedFS does: what is compared there and cannot be here."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from botocore.exceptions import ClientError

from tests.e2e.proxy_process import ProxyProcess
from tests.proxy.objects.conftest import safetensors
from tests.servers import Moto

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
MIB = 1 << 20
KEY = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32}
SOURCE_KEY = {f"CopySource{name}": value for name, value in KEY.items()}
SHA256_OF_1024_A = "arcu6553sHVAiX4MjW0j7I7vD4w6R+Gz9Ok0Q9lTa+0="


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("moto")
    with Moto(folder) as server:
        proxy = ProxyProcess(server.endpoint, folder / "state", server.environment())
        proxy.start()
        try:
            yield {"straight": server.client(), "through": proxy.client()}
        finally:
            proxy.stop()


@pytest.fixture(params=["straight", "through"])
def side(sides: dict[str, Any], request: pytest.FixtureRequest) -> Any:
    return sides[request.param]


@pytest.fixture
def bucket(side: Any, request: pytest.FixtureRequest) -> str:
    name = "".join(one if one.isalnum() else "-" for one in request.node.name.lower())[:60].strip("-")
    side.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    return name


@pytest.mark.parametrize("encryption", ["AES256", "aws:kms"])
def test_parts_tell_how_they_are_encrypted(side, bucket, encryption):
    side.put_object(Bucket=bucket, Key="source", Body=b"x" * 1000)
    upload = side.create_multipart_upload(Bucket=bucket, Key="k", ServerSideEncryption=encryption)["UploadId"]
    where = {"Bucket": bucket, "Key": "k", "UploadId": upload}
    sent = side.upload_part(**where, PartNumber=1, Body=b"y" * 5 * MIB)
    copied = side.upload_part_copy(**where, PartNumber=2, CopySource={"Bucket": bucket, "Key": "source"})
    assert (sent["ServerSideEncryption"], copied["ServerSideEncryption"]) == (encryption, encryption)


@pytest.mark.parametrize("kind", ["noise", "checkpoint"])
def test_a_part_is_copied_out_of_what_only_the_clients_key_opens(side, bucket, kind):
    noise = np.random.default_rng(3)
    body = safetensors(noise.normal(0, 0.02, 8 * MIB)) if kind == "checkpoint" else noise.bytes(8 * MIB)
    side.put_object(Bucket=bucket, Key="source", Body=body, **KEY)
    upload = side.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    where = {"Bucket": bucket, "Key": "k", "UploadId": upload}
    source = {"CopySource": {"Bucket": bucket, "Key": "source"}, **SOURCE_KEY}
    first = f"bytes=0-{6 * MIB - 1}"
    parts = [
        side.upload_part_copy(**where, **source, PartNumber=1, CopySourceRange=first),
        side.upload_part_copy(**where, **source, PartNumber=2),
    ]
    etags = [part["CopyPartResult"]["ETag"] for part in parts]
    side.complete_multipart_upload(
        **where, MultipartUpload={"Parts": [{"PartNumber": k + 1, "ETag": etag} for k, etag in enumerate(etags)]}
    )
    assert side.get_object(Bucket=bucket, Key="k")["Body"].read() == body[: 6 * MIB] + body


@pytest.mark.parametrize(
    ("wrong", "status"),
    [({"CopySourceIfMatch": '"0"'}, 412), ({"CopySource": "{bucket}/absent"}, 404)],
    ids=["condition", "absent"],
)
def test_such_a_copy_is_refused_as_another_is(sides, wrong, status):
    side, bucket = sides["through"], f"refused-{status}"
    side.create_bucket(Bucket=bucket)
    side.put_object(Bucket=bucket, Key="source", Body=b"x" * 1000, **KEY)
    upload = side.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    call = {"CopySource": "{bucket}/source", **wrong}
    call["CopySource"] = call["CopySource"].format(bucket=bucket)
    with pytest.raises(ClientError) as caught:
        side.upload_part_copy(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, **call, **SOURCE_KEY)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
    assert not side.list_parts(Bucket=bucket, Key="k", UploadId=upload).get("Parts")


def test_checksums_reach_a_server_that_looks_for_their_name(side, bucket):
    side.put_object(
        Bucket=bucket, Key="k", Body=b"A" * 1024, ChecksumAlgorithm="SHA256", ChecksumSHA256=SHA256_OF_1024_A
    )
    found = side.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["Checksum"])
    assert found["Checksum"]["ChecksumSHA256"] == SHA256_OF_1024_A


def test_an_object_is_locked_as_it_is_written(side, bucket):
    until = datetime.datetime(2090, 1, 1, tzinfo=datetime.UTC)
    side.put_object(Bucket=bucket, Key="k", Body=b"abc", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until)
    assert side.head_object(Bucket=bucket, Key="k")["ObjectLockRetainUntilDate"] == until


@pytest.mark.parametrize("kind", ["noise", "checkpoint"])
def test_an_archived_object_is_looked_at_as_far_as_it_can_be(sides, kind):
    """HeadObject of a checkpoint waits for the restore: its size and ETag stand in its body."""
    bucket = f"archived-{kind}"
    noise = np.random.default_rng(4)
    body = safetensors(noise.normal(0, 0.02, 1 << 18)) if kind == "checkpoint" else noise.bytes(70_000)
    through = sides["through"]
    through.create_bucket(Bucket=bucket)
    through.put_object(Bucket=bucket, Key="k", Body=body, StorageClass="GLACIER")

    def look(call: str, **more: Any) -> Any:
        try:
            return getattr(through, call)(Bucket=bucket, Key="k", **more)
        except ClientError as error:
            return error.response["ResponseMetadata"]["HTTPStatusCode"]

    assert look("get_object") == 403
    found = look("head_object")
    described = look("get_object_attributes", ObjectAttributes=["ObjectSize"])
    if kind == "checkpoint":
        assert (found, described) == (403, 403)
    else:
        assert (found["ContentLength"], found["StorageClass"]) == (len(body), "GLACIER")
        assert described["ObjectSize"] == len(body)
    through.restore_object(Bucket=bucket, Key="k", RestoreRequest={"Days": 1})
    assert look("head_object")["ContentLength"] == len(body)
    assert "ongoing-request" in look("head_object")["Restore"]
    assert look("get_object")["Body"].read() == body
