"""kill -9 in the middle of a write: the old version stays, no half object shows, leftovers are aborted."""

from __future__ import annotations

import contextlib
import io
import threading
import time

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.e2e.conftest import BUCKET, Endpoint
from tests.proxy.objects.conftest import safetensors

np = pytest.importorskip("numpy")

MIB = 1 << 20
pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("servers")]


def checkpoint(size: int, seed: int) -> bytes:
    return safetensors(np.random.default_rng(seed).normal(0, 0.02, size // 2))


class SlowBody(io.BytesIO):
    """A body that a client sends slowly, so that the kill comes in its middle."""

    def __init__(self, data: bytes, half_sent: threading.Event) -> None:
        super().__init__(data)
        self._half_sent = half_sent
        self._size = len(data)
        self.armed = False

    def read(self, size: int | None = -1, /) -> bytes:
        if self.armed and self.tell() > self._size // 2:
            self._half_sent.set()
            time.sleep(0.05)
        return super().read(64 << 10 if self.armed else size)


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
    half_sent = threading.Event()
    body = SlowBody(new, half_sent)
    client = endpoint.proxy.client(payload_signing_enabled=False)

    def put() -> None:
        with contextlib.suppress(BotoCoreError, ClientError, ConnectionError):
            body.armed = True
            client.put_object(Bucket=BUCKET, Key="kill-put", Body=body, ContentLength=len(new))

    sender = threading.Thread(target=put)
    sender.start()
    assert half_sent.wait(60)
    kill_and_restart(endpoint)
    sender.join()
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
