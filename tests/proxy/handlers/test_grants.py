"""Several keys on one endpoint: each reaches its prefixes, and a reading one changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from s4weights.proxy.app import Running, running
from s4weights.proxy.config import Settings

KEYS = """
[[key]]
access_key = "ADMIN"
secret_key = "admin-secret"
[[key]]
access_key = "TEAM"
secret_key = "team-secret"
prefixes = ["training/team/"]
[[key]]
access_key = "READER"
secret_key = "reader-secret"
prefixes = ["training/"]
read_only = true
"""


def client(service: Running, name: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=service.endpoint,
        region_name="us-east-1",
        aws_access_key_id=name,
        aws_secret_access_key=f"{name.lower()}-secret",
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
    )


async def ask(client: Any, operation: str, **parameters: Any) -> Any:
    return await asyncio.to_thread(getattr(client, operation), **parameters)


async def denied(client: Any, operation: str, **parameters: Any) -> bool:
    try:
        await ask(client, operation, **parameters)
    except ClientError as error:
        assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 403, error
        return True
    return False


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Running]:
    for bucket in ("training", "other"):
        (tmp_path / "buckets" / bucket).mkdir(parents=True)
    (tmp_path / "keys.toml").write_text(KEYS)
    (tmp_path / "keys.toml").chmod(0o600)
    settings = Settings(
        upstream=str(tmp_path / "buckets"),
        state_dir=tmp_path / "state",
        listen="127.0.0.1:0",
        health="127.0.0.1:0",
        credentials_file=str(tmp_path / "keys.toml"),
    )
    async with running(settings) as one:
        admin = client(one, "ADMIN")
        for bucket, key in [("training", "team/a"), ("training", "teammate"), ("other", "team/a")]:
            await ask(admin, "put_object", Bucket=bucket, Key=key, Body=b"x")
        yield one


async def test_a_prefix_is_the_whole_world_of_its_key(service):
    team = client(service, "TEAM")
    assert not await denied(team, "put_object", Bucket="training", Key="team/b", Body=b"y")
    assert not await denied(team, "list_objects_v2", Bucket="training", Prefix="team/")
    assert not await denied(team, "head_bucket", Bucket="training")
    assert [row["Name"] for row in (await ask(team, "list_buckets"))["Buckets"]] == ["training"]
    for bucket, key in [("training", "teammate"), ("other", "team/a"), ("training", "team")]:
        assert await denied(team, "get_object", Bucket=bucket, Key=key)
        assert await denied(team, "put_object", Bucket=bucket, Key=key, Body=b"z")
        assert await denied(team, "delete_object", Bucket=bucket, Key=key)
    assert await denied(team, "list_objects_v2", Bucket="training")
    assert await denied(team, "list_objects", Bucket="training", Prefix="team")
    assert await denied(team, "list_object_versions", Bucket="training", Prefix="")
    assert await denied(team, "list_multipart_uploads", Bucket="training")
    assert await denied(team, "delete_bucket", Bucket="training")
    assert await denied(team, "create_bucket", Bucket="another")
    assert await denied(team, "get_bucket_policy", Bucket="training")
    assert await denied(team, "head_bucket", Bucket="other")


async def test_neither_a_copy_source_nor_a_list_of_deletes_leads_out(service):
    team, admin = client(service, "TEAM"), client(service, "ADMIN")
    assert await denied(team, "copy_object", Bucket="training", Key="team/c", CopySource="other/team/a")
    upload = (await ask(team, "create_multipart_upload", Bucket="training", Key="team/m"))["UploadId"]
    part = {"Bucket": "training", "Key": "team/m", "UploadId": upload, "PartNumber": 1}
    assert await denied(team, "upload_part_copy", **part, CopySource="training/teammate")
    asked = {"Objects": [{"Key": "team/a"}, {"Key": "teammate"}]}
    answer = await ask(team, "delete_objects", Bucket="training", Delete=asked)
    assert [row["Key"] for row in answer["Deleted"]] == ["team/a"]
    assert [(row["Key"], row["Code"]) for row in answer["Errors"]] == [("teammate", "AccessDenied")]
    assert not await denied(admin, "head_object", Bucket="training", Key="teammate")


async def test_a_reading_key_reads(service):
    reader = client(service, "READER")
    assert (await ask(reader, "get_object", Bucket="training", Key="teammate"))["ContentLength"] == 1
    assert not await denied(reader, "list_objects_v2", Bucket="training")
    assert await denied(reader, "put_object", Bucket="training", Key="k", Body=b"y")
    assert await denied(reader, "delete_object", Bucket="training", Key="teammate")
    assert await denied(reader, "create_multipart_upload", Bucket="training", Key="k")
    assert await denied(reader, "delete_objects", Bucket="training", Delete={"Objects": [{"Key": "teammate"}]})
    assert await denied(reader, "get_object", Bucket="other", Key="team/a")
