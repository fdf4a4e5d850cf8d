"""Clients that hang up at every point: the object is the old one or the whole new one, and everything is given back."""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from .conftest import BUCKET, Broken
from .operations import body

pytestmark = pytest.mark.e2e
HANGS_UP_AFTER = {"the head": 0.0, "a byte": 1e-9, "half": 0.5, "all but a byte": 1 - 1e-9, "the whole": 1.0}


def hang_up(connection: socket.socket, how: str) -> None:
    """reset: as a process that was killed; end: as one that closed its file."""
    if how == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def send(broken: Broken, method: str, url: str, data: bytes, sent: float) -> socket.socket:
    """Begin a request, and send this share of its body."""
    parts = urlsplit(url)
    connection = socket.create_connection(("127.0.0.1", broken.proxy.port))
    head = (
        f"{method} {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    connection.sendall(head.encode())
    count = {0.0: 0, 1e-9: 1, 1 - 1e-9: len(data) - 1}.get(sent, int(sent * len(data)))
    connection.sendall(data[:count])
    return connection


def presigned(broken: Broken, call: str, **parameters: object) -> str:
    return str(broken.proxy.client().generate_presigned_url(call, Params={"Bucket": BUCKET, **parameters}))


def held(broken: Broken) -> tuple[int, int, int]:
    """Requests under way, bytes of the budgets in use, and descriptors of the proxy's."""
    status = json.loads(broken.proxy.health("status")[1])
    found = re.search(r"^s4weights_requests_in_flight (\S+)$", broken.proxy.health("metrics")[1], re.M)
    assert found is not None
    descriptors = len(os.listdir(f"/proc/{broken.proxy.pid}/fd"))
    return int(float(found[1])), int(status["memory_used_bytes"]), descriptors


def assert_all_given_back(broken: Broken, key: str) -> None:
    deadline = time.monotonic() + 20
    while held(broken)[:2] != (0, 0):
        assert time.monotonic() < deadline, f"still held: {held(broken)}"
        time.sleep(0.2)
    broken.assert_nothing_open(key)
    assert list((Path(broken.proxy.state_dir) / "spill").iterdir()) == []


@pytest.mark.parametrize("how", ["reset", "end"])
@pytest.mark.parametrize("content", ["large", "noise"])
def test_put(broken, content, how):
    key, new = f"gone-put-{content}-{how}", body(content)
    broken.proxy.client().put_object(Bucket=BUCKET, Key=key, Body=b"old")
    for share in HANGS_UP_AFTER.values():
        hang_up(send(broken, "PUT", presigned(broken, "put_object", Key=key), new, share), how)
        if share < 1:
            assert_all_given_back(broken, key)
            assert broken.body(key) == b"old"
    assert_all_given_back(broken, key)
    assert broken.body(key) in (b"old", new)


@pytest.mark.parametrize("content", ["large", "noise"])
def test_parts_and_complete(broken, content):
    key, data = f"gone-parts-{content}", body(content)
    client = broken.proxy.client()
    upload = {"Bucket": BUCKET, "Key": key}
    upload["UploadId"] = client.create_multipart_upload(**upload)["UploadId"]
    url = presigned(broken, "upload_part", Key=key, UploadId=upload["UploadId"], PartNumber=1)
    for share in HANGS_UP_AFTER.values():
        hang_up(send(broken, "PUT", url, data, share), "reset")
    etag = client.upload_part(**upload, PartNumber=1, Body=data)["ETag"]
    document = (
        f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
    )
    url = presigned(broken, "complete_multipart_upload", Key=key, UploadId=upload["UploadId"])
    for share in HANGS_UP_AFTER.values():
        hang_up(send(broken, "POST", url, document.encode(), share), "reset")
    # What was asked for is done though nobody waits, and who asks again is told so.
    again = client.complete_multipart_upload(**upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    assert again["ETag"].endswith('-1"')
    assert broken.body(key) == data
    assert_all_given_back(broken, key)


@pytest.mark.parametrize("content", ["large", "noise"])
def test_get(broken, content):
    key, data = f"gone-get-{content}", body(content)
    broken.proxy.client().put_object(Bucket=BUCKET, Key=key, Body=data)
    assert broken.body(key) == data
    before = held(broken)[2]
    for share in (0.0, 0.1, 0.5):
        for how in ("reset", "end"):
            connection = send(broken, "GET", presigned(broken, "get_object", Key=key), b"", 0.0)
            taken = 0
            while taken < share * len(data):
                taken += len(connection.recv(1 << 16))
            hang_up(connection, how)
    assert_all_given_back(broken, key)
    assert broken.body(key) == data
    assert held(broken)[2] <= before + 4
