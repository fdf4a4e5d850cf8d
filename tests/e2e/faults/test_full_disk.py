"""The state directory takes nothing more: writes that need it fail, nothing is left, and all works again once there is room."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator

import numpy as np
import pytest
from botocore.exceptions import ClientError

from tests.proxy.objects.conftest import safetensors

from .conftest import BUCKET, MIB, Broken, broken_endpoint
from .operations import body

pytestmark = pytest.mark.e2e
PART = 8 * MIB


@pytest.fixture(scope="module")
def endpoint(seaweedfs, tmp_path_factory) -> Iterator[Broken]:
    """Little memory: parts that wait soon go to disk."""
    with broken_endpoint(seaweedfs, tmp_path_factory.mktemp("disk"), {"S4W_MEMORY_BYTES": "64M"}) as one:
        yield one


@contextlib.contextmanager
def no_room(broken: Broken, left_bytes: int) -> Iterator[None]:
    """No file of the proxy's may grow beyond left_bytes, as on a full disk."""
    before = resource.prlimit(broken.proxy.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(broken.proxy.pid, resource.RLIMIT_FSIZE, (left_bytes, before[1]))
    try:
        yield
    finally:
        resource.prlimit(broken.proxy.pid, resource.RLIMIT_FSIZE, before)


def test_parts_that_find_no_room_can_be_sent_again(broken):
    data = safetensors(np.random.default_rng(3).normal(0, 0.02, 24 * MIB))
    pieces = {number: data[at : at + PART] for number, at in enumerate(range(0, len(data), PART), 1)}
    client = broken.proxy.client()
    upload = {"Bucket": BUCKET, "Key": "disk-parts"}
    upload["UploadId"] = client.create_multipart_upload(**upload)["UploadId"]
    etags, refused = {}, 0
    with no_room(broken, 1 * MIB):
        for number in sorted(pieces, reverse=True):  # the first one last: until then nothing can be encoded
            try:
                etags[number] = client.upload_part(**upload, PartNumber=number, Body=pieces[number])["ETag"]
            except ClientError as error:
                assert error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500
                refused += 1
    assert refused
    for number in pieces.keys() - etags.keys():
        etags[number] = client.upload_part(**upload, PartNumber=number, Body=pieces[number])["ETag"]
    parts = [{"PartNumber": number, "ETag": etags[number]} for number in sorted(etags)]
    client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert broken.body("disk-parts") == data
    broken.assert_nothing_open("disk-parts")
    assert list((broken.proxy.state_dir / "spill").iterdir()) == []


def test_an_upload_that_cannot_be_recorded_is_not_begun(broken):
    client = broken.proxy.client()
    client.put_object(Bucket=BUCKET, Key="disk-record", Body=b"old")
    with no_room(broken, 0), pytest.raises(ClientError) as error:
        client.put_object(Bucket=BUCKET, Key="disk-record", Body=body("large"))
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] >= 500
    assert broken.body("disk-record") == b"old"
    broken.assert_nothing_open("disk-record")
    client.put_object(Bucket=BUCKET, Key="disk-record", Body=body("large"))
    assert broken.body("disk-record") == body("large")
