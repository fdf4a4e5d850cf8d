"""What a client says of a bucket's owner, and of who pays, holds for every call that its request causes.

No server that runs here looks at it, so a relay before SeaweedFS refuses what S3 would refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from botocore.exceptions import ClientError

from tests.e2e.differential import Request
from tests.e2e.proxy_process import ProxyProcess
from tests.e2e.relay import Relay
from tests.proxy.objects.conftest import safetensors

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
BUCKET = "others"
OWNER, STRANGER = "111122223333", "999999999999"
WEIGHTS = np.random.default_rng(8).normal(0, 0.02, 1 << 20)
BODIES = {"model": safetensors(WEIGHTS), "noise": np.random.default_rng(9).bytes(70_000)}


class S3Like(Relay):
    must_pay = False
    is_down = False

    def denies(self, request: Request) -> bool:
        if self.is_down and request.method == "HEAD" and request.path == f"/{BUCKET}":
            raise ConnectionError("the bucket is not there")
        if request.headers.get("x-amz-expected-bucket-owner", OWNER) != OWNER:
            return True
        is_of_bucket = request.path.startswith(f"/{BUCKET}")
        return self.must_pay and is_of_bucket and request.headers.get("x-amz-request-payer") != "requester"


@pytest.fixture(scope="module")
def sides(seaweedfs: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[S3Like, Any]]:
    folder = tmp_path_factory.mktemp("owners")
    with S3Like(seaweedfs.endpoint) as relay:
        proxy = ProxyProcess(relay.endpoint, folder / "state", seaweedfs.environment())
        proxy.start()
        seaweedfs.client().create_bucket(Bucket=BUCKET)
        try:
            yield relay, proxy.client()
        finally:
            proxy.stop()


def calls(client: Any, key: str) -> dict[str, Callable[..., Any]]:
    """By name; each takes what is said of owner or payer."""
    where = {"Bucket": BUCKET, "Key": key}

    def in_parts(**said: Any) -> None:
        target = {"Bucket": BUCKET, "Key": f"{key}-parts"}
        upload = client.create_multipart_upload(**target, **said)["UploadId"]
        part = client.upload_part(**target, UploadId=upload, PartNumber=1, Body=BODIES[key], **said)
        parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        client.complete_multipart_upload(**target, UploadId=upload, MultipartUpload=parts, **said)

    return {
        "get": lambda **said: client.get_object(**where, **said)["Body"].read(),
        "head": lambda **said: client.head_object(**where, **said),
        "attributes": lambda **said: client.get_object_attributes(**where, ObjectAttributes=["ETag"], **said),
        "list": lambda **said: client.list_objects(Bucket=BUCKET, **said),
        "list v2": lambda **said: client.list_objects_v2(Bucket=BUCKET, **said),
        "put": lambda **said: client.put_object(**where, Body=BODIES[key], **said),
        "copy": lambda **said: client.copy_object(**{**where, "Key": f"{key}-copy"}, CopySource=where, **said),
        "parts": in_parts,
        "delete": lambda **said: client.delete_object(**{**where, "Key": f"{key}-copy"}, **said),
        "delete many": lambda **said: client.delete_objects(
            Bucket=BUCKET, Delete={"Objects": [{"Key": f"{key}-copy"}]}, **said
        ),
    }


@pytest.mark.parametrize("name", list(calls(None, "model")))
@pytest.mark.parametrize("key", list(BODIES))
def test_only_the_owner_that_is_expected_is_spoken_to(sides, name, key):
    client = sides[1]
    client.put_object(Bucket=BUCKET, Key=key, Body=BODIES[key])
    call = calls(client, key)[name]
    call(ExpectedBucketOwner=OWNER)
    with pytest.raises(ClientError) as caught:
        call(ExpectedBucketOwner=STRANGER)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


@pytest.mark.parametrize("key", list(BODIES))
def test_nothing_is_copied_out_of_a_strangers_bucket(sides, key):
    client = sides[1]
    client.put_object(Bucket=BUCKET, Key=key, Body=BODIES[key])
    source, target = {"Bucket": BUCKET, "Key": key}, {"Bucket": BUCKET, "Key": f"{key}-taken"}
    upload = client.create_multipart_upload(**target)["UploadId"]
    for owner in (OWNER, STRANGER):
        asked = {**target, "CopySource": source, "ExpectedSourceBucketOwner": owner}
        outcomes = []
        for call, more in ((client.copy_object, {}), (client.upload_part_copy, {"UploadId": upload, "PartNumber": 1})):
            try:
                outcomes.append(call(**asked, **more)["ResponseMetadata"]["HTTPStatusCode"])
            except ClientError as error:
                outcomes.append(error.response["ResponseMetadata"]["HTTPStatusCode"])
        assert outcomes == [200 if owner == OWNER else 403] * 2


@pytest.mark.parametrize("name", list(calls(None, "model")))
@pytest.mark.parametrize("key", list(BODIES))
def test_every_call_says_that_the_requester_pays(sides, name, key):
    relay, client = sides
    relay.must_pay = False
    client.put_object(Bucket=BUCKET, Key=key, Body=BODIES[key])
    relay.must_pay = True
    try:
        calls(client, key)[name](RequestPayer="requester")
        with pytest.raises(ClientError):
            client.get_object(Bucket=BUCKET, Key=key)
    finally:
        relay.must_pay = False


def test_a_run_is_coded_against_its_last_step_where_the_requester_pays(sides, tmp_path: Path):
    """Pins, tombstones, bases and their reads are calls on the bucket, too."""
    relay, client = sides
    relay.must_pay = True
    try:
        for step in range(3):
            body = safetensors(WEIGHTS + step * 1e-7)
            where = {"Bucket": BUCKET, "Key": f"run/step-{step}/model.safetensors", "RequestPayer": "requester"}
            client.put_object(**where, Body=body)
            assert client.get_object(**where)["Body"].read() == body
        client.delete_object(Bucket=BUCKET, Key="run/step-0/model.safetensors", RequestPayer="requester")
        assert client.get_object(**where)["Body"].read() == body
    finally:
        relay.must_pay = False


def test_an_owner_that_cannot_be_asked_for_is_not_taken_for_the_right_one(sides):
    relay, client = sides
    client.put_object(Bucket=BUCKET, Key="noise", Body=BODIES["noise"])
    relay.is_down = True
    try:
        with pytest.raises(ClientError) as caught:
            client.get_object(Bucket=BUCKET, Key="noise", ExpectedBucketOwner=STRANGER)
    finally:
        relay.is_down = False
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503


def test_a_directive_that_is_none_is_refused(sides):
    client = sides[1]
    client.put_object(Bucket=BUCKET, Key="noise", Body=BODIES["noise"])
    source = {"Bucket": BUCKET, "Key": "noise"}
    with pytest.raises(ClientError, match="InvalidArgument"):
        client.copy_object(Bucket=BUCKET, Key="copy", CopySource=source, TaggingDirective="COPPY")
