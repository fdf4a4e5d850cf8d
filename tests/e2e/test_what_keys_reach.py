"""A key that is held to prefixes, and every key beside the bases of other checkpoints: no spelling of a call leads out."""

from __future__ import annotations

import base64
import hashlib
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.differential import Answer, Request, Side
from tests.e2e.proxy_process import ProxyProcess
from tests.proxy.handlers.test_grants import KEYS
from tests.proxy.objects.test_deltas import Run
from tests.servers import SeaweedFS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]
BUCKET, OTHER = "keys-reach", "keys-reach-other"
CUSTOMER_KEY = {
    "x-amz-server-side-encryption-customer-algorithm": "AES256",
    "x-amz-server-side-encryption-customer-key": base64.b64encode(b"k" * 32).decode(),
    "x-amz-server-side-encryption-customer-key-md5": base64.b64encode(hashlib.md5(b"k" * 32).digest()).decode(),
}


@dataclass
class World:
    """admin: a key that reaches everything. team: one with a prefix. straight: past the proxy."""

    proxy: ProxyProcess
    straight: Any
    admin: Side
    team: Side

    def forget(self) -> None:
        """A new start, with nothing kept beside the bucket."""
        self.proxy.stop()
        shutil.rmtree(self.proxy.state_dir)
        self.proxy.start()


@pytest.fixture(scope="module")
def world(seaweedfs: SeaweedFS, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "keys.toml").write_text(KEYS.replace("training/", f"{BUCKET}/"))
    (folder / "keys.toml").chmod(0o600)
    signing = {"S4W_CREDENTIALS_FILE": str(folder / "keys.toml"), "S4W_ACCESS_KEY": "", "S4W_SECRET_KEY": ""}
    proxy = ProxyProcess(seaweedfs.endpoint, folder / "state", {**seaweedfs.environment(), **signing})
    proxy.start()
    straight = seaweedfs.client()
    for bucket in (BUCKET, OTHER):
        straight.create_bucket(Bucket=bucket)
    for bucket, key in [(BUCKET, "secret/plan"), (BUCKET, ".s4weights/x"), (OTHER, "secret")]:
        straight.put_object(Bucket=bucket, Key=key, Body=b"SECRET")
    admin, team = (Side(proxy.endpoint, name, f"{name.lower()}-secret", BUCKET) for name in ("ADMIN", "TEAM"))
    yield World(proxy, straight, admin, team)
    proxy.stop()


@pytest.mark.parametrize("source", [f"/{BUCKET}/secret/plan", f"/{OTHER}/secret", f"/{BUCKET}/.s4weights/x"])
@pytest.mark.parametrize(
    "query", ["foo", "x-tool=", "acl", "tagging=", "versions=", "uploads", "policy=", "uploadId=1"]
)
def test_no_copy_out_of_what_a_key_may_not_reach(world: World, query: str, source: str) -> None:
    answer = world.team.send(Request("PUT", f"/team/stolen?{query}", {"x-amz-copy-source": source}))
    assert 400 <= answer.status < 500
    assert world.team.send(Request("GET", "/team/stolen")).status == 404


def test_a_list_of_deletes_is_of_a_bucket(world: World) -> None:
    body = b"<Delete><Object><Key>secret/plan</Key></Object></Delete>"
    md5 = {"content-md5": base64.b64encode(hashlib.md5(body).digest()).decode()}
    assert world.team.send(Request("POST", "/team/x?delete=", md5, body)).status == 405
    assert world.straight.head_object(Bucket=BUCKET, Key="secret/plan")["ContentLength"] == 6


@pytest.mark.parametrize("query", ["uploads=&prefix=secret", "versions=&prefix=secret", "location", "policy"])
def test_what_is_told_of_a_bucket_is_not_told_below_a_key(world: World, query: str) -> None:
    answer = world.team.send(Request("GET", f"/team/a?{query}"))
    assert (answer.status, b"secret/" in answer.body) == (405, False)


def test_of_two_prefixes_the_one_that_was_checked_is_listed(world: World) -> None:
    answer = world.team.send(Request("GET", "?prefix=secret%2F&prefix=team%2F&versions="))
    assert (answer.status, b"secret/plan" in answer.body) == (200, False)


@pytest.mark.parametrize("query", ["x-why=", "x-why", "aCallOfNextYear"])
@pytest.mark.parametrize("method", ["DELETE", "PUT"])
def test_no_call_takes_the_base_of_others_away(world: World, method: str, query: str) -> None:
    run, folder = Run(len(method) + len(query)), uuid.uuid4().hex
    first, second = run.step(), run.step()
    paths = [f"/team/{folder}/checkpoint-{number}/model.safetensors" for number in (1, 2)]
    for path, data in zip(paths, (first, second), strict=True):
        assert world.admin.send(Request("PUT", path, body=data)).status == 200
    assert world.straight.head_object(Bucket=BUCKET, Key=paths[1][1:])["ContentLength"] < len(second) / 4
    call = Request(method, f"{paths[0]}?{query}", body=b"small" if method == "PUT" else b"")
    if query == "aCallOfNextYear":
        assert world.team.send(call).status == 403  # nobody knows what it would reach
    assert world.admin.send(call).status in (200, 204)
    world.forget()
    answer = world.admin.send(Request("GET", paths[1]))
    assert (answer.status, answer.body == second) == (200, True)


@pytest.mark.parametrize(
    ("method", "query", "headers"),
    [
        ("PUT", "aCallOfNextYear", {}),
        ("PUT", "tagging", {}),
        (
            "PUT",
            "",
            {"x-amz-copy-source": f"/{BUCKET}/secret/plan", "x-amz-metadata-directive": "REPLACE", **CUSTOMER_KEY},
        ),
        ("POST", "uploads", CUSTOMER_KEY),
    ],
)
def test_our_own_marker_is_set_by_nobody_else(world: World, method: str, query: str, headers: dict[str, str]) -> None:
    call = Request(method, f"/team/marked?{query}", {"x-amz-meta-s4w": "container", **headers}, b"x" * 500)
    assert world.admin.send(call).status == 400
    assert world.admin.send(Request("GET", "/team/marked")).status == 404


@pytest.mark.parametrize("headers", [{"x-amz-copy-source-server-side-encryption-customer-key": "1"}, CUSTOMER_KEY])
@pytest.mark.parametrize("query", ["", "?legal-hold", "?retention"])
def test_a_stored_container_is_shown_by_no_call(world: World, query: str, headers: dict[str, str]) -> None:
    data = Run(98).step()
    path = f"/team/{uuid.uuid4().hex}.safetensors"
    assert world.admin.send(Request("PUT", path, body=data)).status == 200
    answer: Answer = world.admin.send(Request("GET", f"{path}{query}", headers))
    assert answer.status >= 400 or answer.body == data
    assert b"S4W" not in answer.body[:64]
