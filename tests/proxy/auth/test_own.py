"""The proxy's own credentials are what clients sign with, session tokens included."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from s4weights.codec.errors import ConfigError
from s4weights.proxy.app import running
from s4weights.proxy.auth.credentials import Credential, CredentialStore
from s4weights.proxy.auth.own import OwnCredentials
from s4weights.proxy.config import Settings
from tests.instance_metadata import InstanceMetadata


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


@pytest.fixture
def instance(settings, monkeypatch):
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    with InstanceMetadata() as one:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", one.endpoint)
        one.give("ASIAONE")
        yield one


@contextlib.asynccontextmanager
async def followed():
    """The store that a proxy on this instance would have, looked after every few hundredths of a second."""
    own = OwnCredentials()
    store = CredentialStore(await asyncio.to_thread(own.load))
    following = asyncio.create_task(own.follow(store, period_s=0.02))
    await asyncio.sleep(0)
    try:
        yield store
    finally:
        following.cancel()


async def until(is_so):
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)


async def test_a_roles_keys_are_followed_hours_before_they_end(instance):
    async with followed() as store:
        for number in range(5):
            instance.give(f"ASIA{number}")
            await until(lambda number=number: store.find(f"ASIA{number}"))
        assert [store.find(f"ASIA{number}").session_token for number in range(5)] == [
            f"token-of-ASIA{number}" for number in range(5)
        ]


def test_keys_of_before_end_when_they_said():
    store = CredentialStore([Credential("ASIASHORT", "s", expires=datetime.now(UTC) + timedelta(seconds=0.3))])
    long = Credential("ASIALONG", "s", expires=datetime.now(UTC) + timedelta(hours=1))
    store.rotate([long])
    store.rotate([Credential("AKIASTATIC", "s")])
    assert [bool(store.find(name)) for name in ("ASIASHORT", "ASIALONG")] == [True, True]
    time.sleep(0.4)
    assert store.find("ASIASHORT") is None
    store.rotate([Credential("AKIANEXT", "s")])
    assert store.find("AKIASTATIC")
    store.rotate([Credential("AKIALAST", "s")])
    assert store.find("AKIASTATIC") is None
    assert store.find("ASIALONG") is long


def test_keys_that_only_end_later_change_nothing_else():
    store = CredentialStore([Credential("AKIAOLD", "s")])
    store.rotate([Credential("ASIANEW", "s", expires=datetime.now(UTC) + timedelta(hours=1))])
    store.rotate([Credential("ASIANEW", "s", expires=datetime.now(UTC) + timedelta(hours=2))])
    assert store.find("AKIAOLD")
    assert store.find("ASIANEW")


def test_keys_of_before_are_not_kept_without_bound():
    store = CredentialStore([Credential("ASIA0", "s", expires=datetime.now(UTC) + timedelta(hours=1))])
    for number in range(1, 200):
        store.rotate([Credential(f"ASIA{number}", "s", expires=datetime.now(UTC) + timedelta(hours=1))])
    assert sum(store.find(f"ASIA{number}") is not None for number in range(200)) == 65
    assert store.find("ASIA198")


async def test_a_service_that_fails_changes_nothing_and_is_told_once(instance, caplog):
    async with followed() as store:
        for round_number in range(2):
            instance.is_silent = True
            asked = len(caplog.records)
            await until(lambda asked=asked: len(caplog.records) > asked)
            await asyncio.sleep(0.2)
            assert store.find("ASIAONE" if round_number == 0 else "ASIATWO")
            instance.is_silent = False
            instance.give("ASIATWO" if round_number == 0 else "ASIATHREE")
            await until(lambda number=round_number: store.find("ASIATHREE" if number else "ASIATWO"))
    told = [one.getMessage() for one in caplog.records if one.name == "s4weights.proxy.auth.own"]
    assert len(told) == 2
    assert all("those before stay valid" in one for one in told)


async def test_a_key_that_nobody_knows_asks_at_most_once_in_a_while(instance, settings):
    async with running(settings) as service:
        instance.give("ASIAOWN")
        asked = instance.asked
        calls = [asyncio.to_thread(list_buckets, service.endpoint, "wrong") for _ in range(3)]
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert all("InvalidToken" in str(one) for one in found)
        assert instance.asked == asked + 1


@pytest.mark.parametrize("kind", ["shared", "config", "process", "container"])
async def test_every_other_place_is_asked_again_too(settings, monkeypatch, tmp_path, kind):
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "written"
    keys = {"shared": "[default]\naws_access_key_id={0}\naws_secret_access_key=s\n"}
    keys["config"] = keys["shared"]
    keys["process"] = '{{"Version":1,"AccessKeyId":"{0}","SecretAccessKey":"s"}}'
    keys["container"] = '{{"AccessKeyId":"{0}","SecretAccessKey":"s","Token":"t","Expiration":"2099-01-01T00:00:00Z"}}'
    file.write_text(keys[kind].format("AKIAFIRST"))
    with contextlib.ExitStack() as stack:
        if kind == "shared":
            monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
        elif kind == "config":
            monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
        elif kind == "process":
            (tmp_path / "config").write_text(f"[default]\ncredential_process = cat {file}\n")
            monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
        else:
            monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", stack.enter_context(serving(file)))
        async with followed() as store:
            assert store.find("AKIAFIRST")
            file.write_text(keys[kind].format("AKIASECOND"))
            await until(lambda: store.find("AKIASECOND"))
            assert store.find("AKIAFIRST")


@contextlib.contextmanager
def serving(file):
    """A container's credentials, as they stand in a file."""
    handler = functools.partial(QuietFiles, directory=str(file.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/{file.name}"
        server.shutdown()


class QuietFiles(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


async def test_a_role_that_each_process_assumes_for_itself_is_assumed_once(settings, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "token").write_text("a web identity")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/trainer")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    asked: list[str] = []

    def assume(client, operation, _):
        asked.append(operation)
        keys = {"AccessKeyId": "ASIAASSUMED", "SecretAccessKey": "s", "SessionToken": "t"}
        return {"Credentials": {**keys, "Expiration": datetime.now(UTC) + timedelta(hours=1)}}

    monkeypatch.setattr("botocore.client.BaseClient._make_api_call", assume)
    own = OwnCredentials()
    assert [own.load()[0].access_key for _ in range(3)] == ["ASIAASSUMED"] * 3
    assert asked == ["AssumeRoleWithWebIdentity"]
