"""save and load on s3:// URIs, against a real server."""

from __future__ import annotations

import io

import boto3
import pytest
import torch
import torch.distributed.checkpoint as dcp
from botocore.exceptions import ClientError, EndpointConnectionError

import s4weights
from s4weights.bodies import is_container
from s4weights.codec.errors import ConfigError, FormatError
from tests.api.states import same
from tests.e2e.proxy_process import ACCESS_KEY, SECRET_KEY, ProxyProcess

pytestmark = pytest.mark.e2e


@pytest.fixture
def bucket(seaweedfs, monkeypatch):
    for name, value in seaweedfs.environment().items():
        monkeypatch.setenv(name, value)
    client = seaweedfs.client()
    client.create_bucket(Bucket="api")
    yield client
    for row in client.list_objects_v2(Bucket="api").get("Contents", []):
        client.delete_object(Bucket="api", Key=row["Key"])
    client.delete_bucket(Bucket="api")


@pytest.mark.parametrize("rows", [10, 9000], ids=["one PUT", "several parts"])
def test_a_state_comes_back(bucket, seaweedfs, rows):
    state = {"weight": torch.randn(rows, 1000)}
    s4weights.save(state, "s3://api/run/state.pt", endpoint=seaweedfs.endpoint)
    assert bucket.head_object(Bucket="api", Key="run/state.pt")["Metadata"] == {"s4w": "container"}
    assert same(s4weights.load("s3://api/run/state.pt", endpoint=seaweedfs.endpoint), state)
    assert not bucket.list_multipart_uploads(Bucket="api").get("Uploads")


def test_a_plain_object_is_read_as_torch_reads_it(bucket, seaweedfs, monkeypatch):
    state = {"weight": torch.randn(3000, 1000)}
    body = io.BytesIO()
    torch.save(state, body)
    bucket.put_object(Bucket="api", Key="plain.pt", Body=body.getvalue())
    monkeypatch.setenv("AWS_ENDPOINT_URL", seaweedfs.endpoint)
    assert same(s4weights.load("s3://api/plain.pt"), state)


def test_a_save_that_fails_leaves_nothing(bucket, seaweedfs):
    state = {"weight": torch.randn(9000, 1000), "bad": lambda: None}
    with pytest.raises(AttributeError):
        s4weights.save(state, "s3://api/state.pt", endpoint=seaweedfs.endpoint)
    with pytest.raises(FileNotFoundError, match="s3://api/state.pt"):
        s4weights.load("s3://api/state.pt", endpoint=seaweedfs.endpoint)
    assert not bucket.list_multipart_uploads(Bucket="api").get("Uploads")


def test_an_object_that_is_cut_off_is_never_loaded(bucket, seaweedfs):
    s4weights.save({"weight": torch.randn(300, 1000)}, "s3://api/state.pt", endpoint=seaweedfs.endpoint)
    stored = bucket.get_object(Bucket="api", Key="state.pt")["Body"].read()
    bucket.put_object(Bucket="api", Key="state.pt", Body=stored[:-1000])
    with pytest.raises(FormatError):
        s4weights.load("s3://api/state.pt", endpoint=seaweedfs.endpoint)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of torch, about being alone
def test_a_sharded_checkpoint_in_a_folder_of_a_bucket(bucket, seaweedfs):
    state, found = {"weight": torch.randn(600, 1000), "step": 7}, {"weight": torch.zeros(600, 1000), "step": 0}
    writer = s4weights.DCPWriter("s3://api/run/dcp", endpoint=seaweedfs.endpoint)
    dcp.save(state, storage_writer=writer, no_dist=True)
    with pytest.raises(dcp.api.CheckpointException, match="s3://api/run/dcp: expected no checkpoint there"):
        dcp.save(state, storage_writer=writer, no_dist=True)
    dcp.load(found, storage_reader=s4weights.DCPReader("s3://api/run/dcp", endpoint=seaweedfs.endpoint), no_dist=True)
    assert same(found, state)
    shard = bucket.get_object(Bucket="api", Key="run/dcp/__0_0.distcp")
    assert (shard["Metadata"], is_container(shard["Body"].read())) == ({"s4w": "container"}, True)
    assert bucket.head_object(Bucket="api", Key="run/dcp/.metadata")["Metadata"] == {}


@pytest.mark.parametrize("rows", [10, 9000], ids=["one PUT", "several parts"])
def test_the_servers_own_error_comes_out(bucket, seaweedfs, rows, monkeypatch):
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it remembers credentials
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIANOBODY")
    with pytest.raises(ClientError, match="InvalidAccessKeyId"):
        s4weights.save({"weight": torch.randn(rows, 1000)}, "s3://api/state.pt", endpoint=seaweedfs.endpoint)


def test_a_server_that_does_not_answer_is_named(bucket):
    with pytest.raises(EndpointConnectionError, match="127.0.0.1:1/"):
        s4weights.save({"weight": torch.randn(9000, 1000)}, "s3://api/state.pt", endpoint="http://127.0.0.1:1")


@pytest.fixture
def proxy(tmp_path, monkeypatch):
    (tmp_path / "buckets" / "training").mkdir(parents=True)
    process = ProxyProcess(str(tmp_path / "buckets"), tmp_path / "state")
    process.start()
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", process.endpoint)
    yield process
    process.kill()


@pytest.mark.parametrize("rows", [10, 9000], ids=["one PUT", "several parts"])
def test_the_proxy_as_endpoint_is_refused_with_what_to_do(proxy, rows):
    state = {"weight": torch.randn(rows, 1000)}
    for save in (
        lambda: s4weights.save(state, "s3://training/state.pt"),
        lambda: s4weights.save_checkpoint(state, "s3://training/run", step=1),
    ):
        with pytest.raises(ConfigError, match=f"found an s4weights proxy at {proxy.endpoint}.*torch.save.*endpoint="):
            save()
