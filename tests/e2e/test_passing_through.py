"""What is not ours: bodies that are no checkpoint, and calls outside the data path."""

from __future__ import annotations

import hashlib
import os
import time
import urllib.request

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from tests.e2e.conftest import BUCKET
from tests.proxy.handlers.test_post_object import BOUNDARY, encode_form

pytestmark = pytest.mark.e2e
MIB = 1 << 20


@pytest.mark.parametrize("size", [0, 1, 100_000, 20 * MIB])
def test_random_bytes_cost_nothing(endpoint, size):
    client, data, key = endpoint.proxy.client(), os.urandom(size), f"noise/{size}"
    answer = client.put_object(Bucket=BUCKET, Key=key, Body=data)
    assert answer["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
    assert endpoint.stored_bytes(key) == size
    assert client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == data


def test_random_bytes_in_parts_keep_their_parts(endpoint, tmp_path):
    client, data = endpoint.proxy.client(), os.urandom(21 * MIB)
    (tmp_path / "noise").write_bytes(data)
    client.upload_file(
        str(tmp_path / "noise"), BUCKET, "noise-parts", Config=TransferConfig(MIB, multipart_chunksize=8 * MIB)
    )
    md5s = b"".join(hashlib.md5(data[at : at + 8 * MIB]).digest() for at in range(0, len(data), 8 * MIB))
    head = client.head_object(Bucket=BUCKET, Key="noise-parts")
    assert head["ETag"] == f'"{hashlib.md5(md5s).hexdigest()}-3"'
    assert endpoint.stored_bytes("noise-parts") == len(data)
    assert client.get_object(Bucket=BUCKET, Key="noise-parts")["Body"].read() == data


def test_calls_outside_the_data_path(endpoint):
    client = endpoint.proxy.client()
    client.put_object(Bucket=BUCKET, Key="tagged", Body=b"x")
    tags = [{"Key": "run", "Value": "r 1+ü"}]
    if endpoint.directory is not None:
        with pytest.raises(ClientError, match="NotImplemented"):
            client.put_object_tagging(Bucket=BUCKET, Key="tagged", Tagging={"TagSet": tags})
        return
    client.put_object_tagging(Bucket=BUCKET, Key="tagged", Tagging={"TagSet": tags})
    assert client.get_object_tagging(Bucket=BUCKET, Key="tagged")["TagSet"] == tags
    assert endpoint.straight.get_object_tagging(Bucket=BUCKET, Key="tagged")["TagSet"] == tags
    with pytest.raises(ClientError) as error:
        client.get_bucket_lifecycle_configuration(Bucket=BUCKET)
    assert error.value.response["Error"]["Code"] == "NoSuchLifecycleConfiguration"
    with pytest.raises(ClientError, match="NoSuchBucket"):
        client.get_bucket_versioning(Bucket="no-such-bucket-at-all")


def test_tags_of_a_form_are_the_objects(endpoint):
    client = endpoint.proxy.client()
    tags = "<Tagging><TagSet><Tag><Key>run</Key><Value>r 1+ü&amp;=</Value></Tag></TagSet></Tagging>"
    form = client.generate_presigned_post(BUCKET, "form-tagged", {"tagging": tags}, [{"tagging": tags}])["fields"]
    request = urllib.request.Request(
        f"{endpoint.proxy.endpoint}/{BUCKET}",
        data=encode_form(form, b"data"),
        headers={"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.status == 204
    assert client.get_object(Bucket=BUCKET, Key="form-tagged")["Body"].read() == b"data"
    if endpoint.straight is not None:
        found = endpoint.straight.get_object_tagging(Bucket=BUCKET, Key="form-tagged")["TagSet"]
        assert found == [{"Key": "run", "Value": "r 1+ü&="}]


def test_health(endpoint):
    assert endpoint.proxy.health("healthz") == (200, "ok\n")
    assert endpoint.proxy.health("readyz") == (200, "ready\n")
    status, text = endpoint.proxy.health("metrics")
    assert status == 200
    assert "s4weights_objects_written_total" in text
    assert '"ready": true' in endpoint.proxy.health("status")[1]


def test_nothing_secret_is_logged(endpoint):
    client = endpoint.proxy.client()
    client.put_object(Bucket=BUCKET, Key="logged", Body=b"x")
    url = client.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "logged"})
    signature = url.partition("X-Amz-Signature=")[2].partition("&")[0]
    assert urllib.request.urlopen(url).read() == b"x"
    deadline = time.monotonic() + 10
    while "/logged?" not in (log := endpoint.proxy.log.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for secret in (signature, "e2e-secret-key", "Authorization", "seaweed-secret-key"):
        assert secret not in log
