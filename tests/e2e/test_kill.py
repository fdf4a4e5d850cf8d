"""kill -9 in the middle of a write: the old version stays, no half object shows, leftovers are aborted."""

from __future__ import annotations

import http.client
import time

import numpy as np
import pytest
from botocore.exceptions import ClientError

from tests.e2e.conftest import BUCKET, Endpoint
from tests.proxy.objects.conftest import safetensors

MIB = 1 << 20
pytestmark = pytest.mark.e2e


def checkpoint(size: int, seed: int) -> bytes:
    return safetensors(np.random.default_rng(seed).normal(0, 0.02, size // 2))


def send_half(endpoint: Endpoint, key: str, data: bytes) -> http.client.HTTPConnection:
    """Begin a PUT, send half of its body, and leave it at that."""
    url = endpoint.proxy.client().generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": key})
    connection = http.client.HTTPConnection("127.0.0.1", endpoint.proxy.port)
    connection.putrequest("PUT", url.removeprefix(endpoint.proxy.endpoint))
    connection.putheader("Content-Length", str(len(data)))
    connection.endheaders()
    connection.send(data[: len(data) // 2])
    return connection


def wait_for_upload(endpoint: Endpoint) -> None:
    deadline = time.monotonic() + 30
    while not endpoint.open_uploads():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def kill_and_restart(endpoint: Endpoint) -> None:
    endpoint.proxy.kill()
    endpoint.proxy.start()


def assert_old_version_alone(endpoint: Endpoint, key: str, old: bytes) -> None:
    client = endpoint.proxy.client()
    assert client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == old
    listed = client.list_objects_v2(Bucket=BUCKET, Prefix=key)["Contents"]
    assert [(row["Key"], row["Size"]) for row in listed] == [(key, len(old))]
    assert endpoint.open_uploads() == 0


def test_kill_in_the_middle_of_a_put(endpoint):
    old, new = checkpoint(2 * MIB, 1), checkpoint(96 * MIB, 2)
    endpoint.proxy.client().put_object(Bucket=BUCKET, Key="kill-put", Body=old)
    connection = send_half(endpoint, "kill-put", new)
    wait_for_upload(endpoint)
    kill_and_restart(endpoint)
    connection.close()
    assert_old_version_alone(endpoint, "kill-put", old)


def test_kill_in_the_middle_of_a_multipart_upload(endpoint):
    old, new = checkpoint(2 * MIB, 3), checkpoint(96 * MIB, 4)
    client = endpoint.proxy.client()
    client.put_object(Bucket=BUCKET, Key="kill-parts", Body=old)
    upload_id = client.create_multipart_upload(Bucket=BUCKET, Key="kill-parts")["UploadId"]
    for number in range(1, 10):
        part = new[(number - 1) * 8 * MIB : number * 8 * MIB]
        client.upload_part(Bucket=BUCKET, Key="kill-parts", UploadId=upload_id, PartNumber=number, Body=part)
    assert endpoint.open_uploads() == 1
    kill_and_restart(endpoint)
    assert_old_version_alone(endpoint, "kill-parts", old)
    with pytest.raises(ClientError, match="NoSuchUpload"):
        client.upload_part(Bucket=BUCKET, Key="kill-parts", UploadId=upload_id, PartNumber=10, Body=b"x")
