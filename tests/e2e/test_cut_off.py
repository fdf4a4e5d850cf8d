"""A container in a bucket of S3 that another tool cut off, or copied in part, and so without its marker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from botocore.exceptions import ClientError

from s4weights.cli import main
from s4weights.codec.container import HEADER_BYTES, TRAILER_BYTES
from tests.e2e.proxy_process import ProxyProcess
from tests.proxy.objects.conftest import BUCKET, safetensors
from tests.servers import Moto, SeaweedFS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
DATA = safetensors(np.random.default_rng(0).normal(0, 0.02, 8 << 20))
KEY = "run/model.safetensors"
# What a proxy that was never asked for its beginning cannot know without one call more.
UNSEEN = "bytes=100000-200000"


@pytest.fixture(params=["moto", "SeaweedFS"], scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("server")
    with Moto(folder) if request.param == "moto" else SeaweedFS(folder) as one:
        one.client().create_bucket(Bucket=BUCKET)
        yield one


@pytest.fixture(scope="module")
def proxy(server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    one = ProxyProcess(server.endpoint, tmp_path_factory.mktemp("proxy"), server.environment())
    one.start()
    yield one
    one.stop()


@pytest.fixture(scope="module")
def container(server: Any, proxy: ProxyProcess) -> bytes:
    proxy.client().put_object(Bucket=BUCKET, Key=KEY, Body=DATA)
    stored: bytes = server.client().get_object(Bucket=BUCKET, Key=KEY)["Body"].read()
    assert len(stored) < len(DATA)
    return stored


def damaged(container: bytes) -> Iterator[tuple[str, bytes]]:
    yield "header", container[:HEADER_BYTES]
    yield "short", container[:20_000]
    yield "half", container[: len(container) // 2]
    yield "untrailed", container[:-TRAILER_BYTES]
    yield "overwritten", container[:-TRAILER_BYTES] + bytes(TRAILER_BYTES)
    yield "longer", container + b"\n"


def test_it_is_read_from_its_beginning_with_an_error(server: Any, proxy: ProxyProcess, container: bytes) -> None:
    client = proxy.client()
    for name, stored in damaged(container):
        server.client().put_object(Bucket=BUCKET, Key=f"cut/{name}", Body=stored)
        for asked in (
            {},
            {"Range": "bytes=0-"},
            {"Range": "bytes=0-3"},
            {"Range": "bytes=9-12"},
            {"Range": "bytes=0-8388607"},
        ):
            with pytest.raises(ClientError) as raised:
                client.get_object(Bucket=BUCKET, Key=f"cut/{name}", **asked)["Body"].read()
            assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500, (name, asked)
            assert "container is damaged" in raised.value.response["Error"]["Message"]


def test_a_client_that_reads_by_ranges_gets_no_file(
    server: Any, proxy: ProxyProcess, container: bytes, tmp_path: Path
) -> None:
    server.client().put_object(Bucket=BUCKET, Key="cut/ranges", Body=container[:-1])
    client = proxy.client()
    with pytest.raises(ClientError, match="container is damaged"):
        client.download_file(BUCKET, "cut/ranges", str(tmp_path / "file"))
    assert not (tmp_path / "file").exists()
    # docs/s3.md says so: a range that begins further on, of an object that lost its marker.
    assert client.get_object(Bucket=BUCKET, Key="cut/ranges", Range=UNSEEN)["Body"].read() == container[100000:200001]


def test_verify_and_explain_name_it(
    server: Any, container: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("S4W_UPSTREAM", server.endpoint)
    names = [name for name, _ in damaged(container)]
    for name, stored in damaged(container):
        server.client().put_object(Bucket=BUCKET, Key=f"named/{name}", Body=stored)
    server.client().put_object(Bucket=BUCKET, Key="named/plain", Body=bytes(100_000))
    assert main(["verify", f"{BUCKET}/named/"]) == 1
    said = capsys.readouterr().out
    assert [name for name in sorted(names) if f"named/{name}: " in said] == sorted(names)
    assert f"0 containers (0 B), {len(names)} damaged" in said
    assert main(["explain", f"{BUCKET}/named/half"]) == 1
    assert "container is damaged" in capsys.readouterr().err
    assert main(["explain", f"{BUCKET}/named/plain"]) == 0


def test_what_a_client_sent_itself_comes_back_as_it_was_sent(proxy: ProxyProcess, container: bytes) -> None:
    client = proxy.client()
    for name, stored in damaged(container):
        client.put_object(Bucket=BUCKET, Key=f"sent/{name}", Body=stored)
        for key in (f"sent/{name}", f"copied/{name}"):
            client.copy_object(Bucket=BUCKET, Key=f"copied/{name}", CopySource=f"{BUCKET}/sent/{name}")
            assert client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == stored
            assert client.get_object(Bucket=BUCKET, Key=key, PartNumber=1)["Body"].read() == stored
