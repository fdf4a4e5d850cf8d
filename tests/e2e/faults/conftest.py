"""The real proxy, a relay that breaks things, and a real S3 server behind it."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from botocore.exceptions import ClientError

from tests.e2e.proxy_process import ProxyProcess
from tests.proxy.objects.conftest import safetensors
from tests.servers import SeaweedFS

from .relay import Relay
from .script import Rule, Script

BUCKET = "faults"
MIB = 1 << 20
# As short as they may be where the machine is busy.
SILENCE_S = 6.0
SETTINGS = {"S4W_UPSTREAM_SILENCE_S": f"{SILENCE_S}", "S4W_UPSTREAM_RETRY_S": "30", "S4W_DRAIN_S": "5"}


def checkpoint(size: int, seed: int) -> bytes:
    """A bf16 body that becomes a container of two thirds of its size."""
    return safetensors(np.random.default_rng(seed).normal(0, 0.02, size // 2))


@dataclass
class Broken:
    """straight: a client of the server itself."""

    proxy: ProxyProcess
    relay: Relay
    straight: Any

    @property
    def script(self) -> Script:
        return self.relay.script

    def fails(self, rule: Rule) -> Rule:
        return self.script.add(rule)

    def open_uploads(self, key: str = "") -> list[str]:
        """Keys of the uploads that are open in the server itself."""
        uploads = self.straight.list_multipart_uploads(Bucket=BUCKET, Prefix=key).get("Uploads", [])
        return [row["Key"] for row in uploads]

    def records(self, key: str = "", kind: str = "json") -> list[str]:
        """Keys of the uploads that stand in the journal. kind: asked, of those that were asked for and never answered."""
        found = []
        for path in sorted((self.proxy.state_dir / "uploads").glob(f"*.{kind}")):
            with contextlib.suppress(FileNotFoundError, ValueError):  # ended, or being written
                found.append(json.loads(path.read_text())["key"])
        return [one for one in found if one.startswith(key)]

    def assert_nothing_open(self, key: str = "") -> None:
        """Soon: what a client left is ended behind its back."""
        deadline = time.monotonic() + 15
        while left := self.open_uploads(key) + self.records(key):
            assert time.monotonic() < deadline, f"left open: {left}"
            time.sleep(0.1)

    def body(self, key: str) -> bytes | None:
        """The object as a client reads it; None where there is none."""
        try:
            return bytes(self.proxy.client().get_object(Bucket=BUCKET, Key=key)["Body"].read())
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchKey":
                raise
            return None


@contextlib.contextmanager
def broken_endpoint(server: SeaweedFS, folder: Path, environment: dict[str, str] | None = None) -> Iterator[Broken]:
    """A proxy of its own. environment: beside that which it needs."""
    straight = server.client()
    with contextlib.suppress(straight.exceptions.BucketAlreadyExists, straight.exceptions.BucketAlreadyOwnedByYou):
        straight.create_bucket(Bucket=BUCKET)
    with Relay(server.endpoint) as relay:
        proxy = ProxyProcess(
            relay.endpoint, folder / "state", {**server.environment(), **SETTINGS, **(environment or {})}
        )
        proxy.start()
        try:
            yield Broken(proxy, relay, straight)
        finally:
            relay.script.clear()
            proxy.stop()


@pytest.fixture(scope="module")
def endpoint(seaweedfs: SeaweedFS, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broken]:
    with broken_endpoint(seaweedfs, tmp_path_factory.mktemp("faults")) as one:
        yield one


@pytest.fixture
def broken(endpoint: Broken) -> Iterator[Broken]:
    """The module's proxy, with nothing broken yet."""
    endpoint.script.clear()
    yield endpoint
    endpoint.script.clear()
