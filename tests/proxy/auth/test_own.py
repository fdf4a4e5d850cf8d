"""The proxy's own credentials are what clients sign with, session tokens included."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from s4weights.codec.errors import ConfigError
from s4weights.proxy.app import running
from s4weights.proxy.config import Settings


@pytest.fixture
def settings(tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    (tmp_path / "buckets").mkdir()
    return Settings(
        upstream=str(tmp_path / "buckets"), state_dir=tmp_path / "state", listen="127.0.0.1:0", health="127.0.0.1:0"
    )


def list_buckets(endpoint, token):
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="ASIAOWN",
        aws_secret_access_key="own-secret",
        aws_session_token=token,
        config=Config(retries={"total_max_attempts": 1}, ignore_configured_endpoint_urls=True),
    )
    return client.list_buckets()["Buckets"]


async def test_clients_sign_with_the_proxys_environment(settings, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ASIAOWN")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "own-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "own-token")
    async with running(settings) as service:
        assert await asyncio.to_thread(list_buckets, service.endpoint, "own-token") == []
        with pytest.raises(ClientError, match="InvalidToken"):
            await asyncio.to_thread(list_buckets, service.endpoint, "other")


async def test_without_credentials_nobody_signs_and_loopback_only(settings):
    async with running(settings) as service:
        assert await asyncio.to_thread(list_buckets, service.endpoint, None) == []
    with pytest.raises(ConfigError, match="loopback"):
        async with running(replace(settings, listen="0.0.0.0:0")):
            pass
