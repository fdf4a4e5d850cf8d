"""What the proxy writes anew in the bucket itself keeps all that an object has, or is not written."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from s4weights.proxy.config import Settings
from s4weights.proxy.lineage.names import ALL_PINS
from s4weights.proxy.metrics import Metrics
from s4weights.proxy.objects.objects import Objects
from s4weights.proxy.upstream.bucket import BucketUpstream
from tests.e2e.proxy_process import ProxyProcess
from tests.proxy.objects.conftest import BUCKET, body, read_all
from tests.proxy.objects.test_deltas import KEYS, Run
from tests.servers import Moto, SeaweedFS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture(params=["moto", "SeaweedFS"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with Moto(tmp_path) if request.param == "moto" else SeaweedFS(tmp_path) as one:
        yield one


@pytest.fixture
async def objects(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Objects]:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    server.client().create_bucket(Bucket=BUCKET)
    async with contextlib.AsyncExitStack() as stack:
        upstream = BucketUpstream(endpoint=server.endpoint)
        await upstream.start()
        stack.push_async_callback(upstream.close)
        one = Objects(upstream, Settings(upstream=server.endpoint, state_dir=tmp_path / "state"), Metrics())
        await one.start()
        stack.push_async_callback(one.close)
        yield one


async def put_two(objects: Objects, headers: dict[str, str]) -> bytes:
    """Two steps; the second one, with its own headers, needs the first."""
    run = Run()
    for key, more in zip(KEYS, ({}, headers), strict=False):
        data = run.step()
        await objects.put(BUCKET, key, body(data), len(data), more)
    return data


async def test_an_object_without_anything_of_its_own_is(objects: Objects) -> None:
    data = await put_two(objects, {})
    assert await objects.rebaser.rebase(BUCKET, KEYS[1])
    assert await read_all(objects, KEYS[1]) == data


async def test_an_object_with_a_list_of_its_own_is_not(objects: Objects, server: Any) -> None:
    if isinstance(server, SeaweedFS):
        pytest.skip("it takes no x-amz-acl")
    data = await put_two(objects, {"x-amz-acl": "public-read"})
    assert not await objects.rebaser.rebase(BUCKET, KEYS[1])
    grants = server.client().get_object_acl(Bucket=BUCKET, Key=KEYS[1])["Grants"]
    assert any("URI" in grant["Grantee"] for grant in grants)
    assert await read_all(objects, KEYS[1]) == data


async def test_an_object_in_a_bucket_with_versions_is_not(objects: Objects, server: Any) -> None:
    client = server.client()
    client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    await put_two(objects, {})
    assert not await objects.rebaser.rebase(BUCKET, KEYS[1])
    assert len(client.list_object_versions(Bucket=BUCKET, Prefix=KEYS[1])["Versions"]) == 1


@pytest.mark.parametrize("directive", ["COPY", "REPLACE"])
async def test_a_dependent_that_is_copied_to_another_bucket_has_its_tags_there(
    objects: Objects, server: Any, directive: str
) -> None:
    data = await put_two(objects, {"x-amz-tagging": "run=7&by=a%20b", "x-amz-meta-epoch": "3"})
    client = server.client()
    client.create_bucket(Bucket="elsewhere")
    source = await objects.resolve(BUCKET, KEYS[1])
    headers = {"x-amz-tagging-directive": directive, "x-amz-tagging": "own=1"}
    await objects.copy(source, "elsewhere", "copy", headers, replace=False)
    tags = {tag["Key"]: tag["Value"] for tag in client.get_object_tagging(Bucket="elsewhere", Key="copy")["TagSet"]}
    assert tags == ({"run": "7", "by": "a b"} if directive == "COPY" else {"own": "1"})
    found = await objects.resolve("elsewhere", "copy")
    assert found.info.headers["x-amz-meta-epoch"] == "3"
    assert found.info.size == len(data)


@pytest.mark.parametrize(
    ("headers", "answered"),
    [
        ({"x-amz-storage-class": "STANDARD_IA"}, {"StorageClass": "STANDARD_IA"}),
        ({"x-amz-server-side-encryption": "AES256"}, {"ServerSideEncryption": "AES256"}),
        (
            {"x-amz-server-side-encryption": "aws:kms", "x-amz-server-side-encryption-aws-kms-key-id": "alias/k"},
            {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "alias/k"},
        ),
    ],
    ids=["class", "SSE-S3", "SSE-KMS"],
)
async def test_what_a_client_asks_of_a_checkpoint_reaches_the_bucket(
    objects: Objects, server: Any, headers: dict[str, str], answered: dict[str, str]
) -> None:
    if isinstance(server, SeaweedFS):
        pytest.skip("it has neither classes nor SSE without a key server")
    data = Run().step()
    await objects.put(BUCKET, "model", body(data), len(data), headers)
    source = await objects.resolve(BUCKET, "model")
    assert source.is_container
    await objects.copy(source, BUCKET, "copied", headers, replace=False)
    for key in ("model", "copied"):
        found = server.client().head_object(Bucket=BUCKET, Key=key)
        assert {name: found.get(name) for name in answered} == answered


async def test_what_only_a_clients_key_opens_is_no_base_and_not_kept(seaweedfs: Any, tmp_path: Path) -> None:
    """Through the whole proxy: its state directory holds nothing of the body, and no step is coded against it."""
    proxy = ProxyProcess(seaweedfs.endpoint, tmp_path / "state", seaweedfs.environment())
    proxy.start()
    try:
        client, bucket = proxy.client(), "customers-keys"
        client.create_bucket(Bucket=bucket)
        run = Run()
        key = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32}
        bodies = [run.step() for _ in range(3)]
        for name, data, more in zip(KEYS, bodies, (key, {}, key), strict=False):
            client.put_object(Bucket=bucket, Key=name, Body=data, **more)
        client.list_objects_v2(Bucket=bucket)
        for name, data, more in zip(KEYS, bodies, (key, {}, key), strict=False):
            assert client.get_object(Bucket=bucket, Key=name, **more)["Body"].read() == data
        stored = {row["Key"]: row["Size"] for row in seaweedfs.client().list_objects_v2(Bucket=bucket)["Contents"]}
        assert [stored[name] == len(data) for name, data in zip(KEYS, bodies, strict=False)] == [True, False, True]
        assert not any(name.startswith(ALL_PINS) for name in stored)
        samples = [bodies[number][len(bodies[number]) // 2 :][:64] for number in (0, 2)]
        kept = b"".join(path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file())
        assert not any(sample in kept for sample in samples)
    finally:
        proxy.stop()


@pytest.mark.parametrize("condition", [{"IfNoneMatch": "*"}, {"IfMatch": "{etag}"}], ids=["absent", "as it was"])
def test_of_many_writers_that_meet_one_wins(seaweedfs: Any, tmp_path: Path, condition: dict[str, str]) -> None:
    """Two proxies before one bucket, eight writers with one condition."""
    proxies = [ProxyProcess(seaweedfs.endpoint, tmp_path / f"state-{k}", seaweedfs.environment()) for k in range(2)]
    for proxy in proxies:
        proxy.start()
    try:
        client, bucket = proxies[0].client(), f"races-{len(condition)}-{next(iter(condition)).lower()}"
        client.create_bucket(Bucket=bucket)
        data = [Run(seed).step() for seed in range(8)]
        for round_number in range(4):
            key = f"k-{round_number}"
            etag = client.put_object(Bucket=bucket, Key=key, Body=b"first")["ETag"] if "IfMatch" in condition else ""
            asked = {name: value.format(etag=etag) for name, value in condition.items()}
            barrier = threading.Barrier(8)

            def write(number: int, key: str = key, asked: dict[str, str] = asked, wait: Any = barrier.wait) -> int:
                one = proxies[number % 2].client()
                wait()
                try:
                    one.put_object(Bucket=bucket, Key=key, Body=data[number], **asked)
                except ClientError as error:
                    assert error.response["ResponseMetadata"]["HTTPStatusCode"] in (409, 412)
                    return -1
                return number

            with ThreadPoolExecutor(8) as pool:
                won = [number for number in pool.map(write, range(8)) if number >= 0]
            assert len(won) == 1
            assert client.get_object(Bucket=bucket, Key=key)["Body"].read() == data[won[0]]
    finally:
        for proxy in proxies:
            proxy.stop()
