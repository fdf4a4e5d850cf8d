"""What a user finds in the proxy's log of a request that went wrong, by what the client was told."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import numpy as np
import pytest

from tests.e2e.conftest import BUCKET, Endpoint
from tests.proxy.objects.conftest import safetensors

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]
MIB = 1 << 20


def wait_for(is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.parametrize("call", ["get_object_tagging", "head_object", "get_object_acl"])
def test_the_id_that_a_client_is_given_is_in_the_log(endpoint: Endpoint, call: str) -> None:
    client = endpoint.proxy.client()
    client.put_object(Bucket=BUCKET, Key="logged", Body=b"x")
    try:
        answered = getattr(client, call)(Bucket=BUCKET, Key="logged")["ResponseMetadata"]
    except client.exceptions.ClientError as error:
        assert endpoint.directory is not None
        answered = error.response["ResponseMetadata"]
    named = answered["HTTPHeaders"]["x-amz-request-id"]
    assert wait_for(lambda: named in endpoint.proxy.log.read_text())  # the line comes after the answer


@pytest.mark.parametrize("kind", ["noise", "checkpoint"])
def test_a_client_that_leaves_is_no_error(endpoint: Endpoint, kind: str) -> None:
    body = os.urandom(24 * MIB) if kind == "noise" else safetensors(np.random.default_rng(0).normal(0, 0.02, 12 * MIB))
    client = endpoint.proxy.client()
    client.put_object(Bucket=BUCKET, Key="left", Body=body)
    url = urlsplit(client.generate_presigned_url("get_object", {"Bucket": BUCKET, "Key": "left"}))
    before = len(endpoint.proxy.log.read_text())
    for read in (0, 1000, 3 * MIB):
        with socket.create_connection((url.hostname, url.port), timeout=30) as wire:
            wire.sendall(f"GET {url.path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\n\r\n".encode())
            while read > 0:
                read -= len(wire.recv(min(read, 1 << 16)))
            time.sleep(0.3)
    assert wait_for(lambda: endpoint.proxy.log.read_text()[before:].count("GetObject GET") >= 3)
    said = endpoint.proxy.log.read_text()[before:]
    assert not any(word in said for word in ("ERROR", "Traceback", "failed", "broken off"))
