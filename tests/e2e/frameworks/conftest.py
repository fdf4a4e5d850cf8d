"""A bucket behind the proxy, and the same bucket without it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from s4weights.codec.container import read_bases
from s4weights.codec.decode import read_tail
from s4weights.codec.errors import FormatError
from tests.e2e.bodies import ROOT, sha256
from tests.e2e.proxy_process import ProxyProcess
from tests.servers import SeaweedFS

PYTHON = ROOT / ".venv-frameworks" / "bin" / "python"
RUNS = Path(__file__).parent / "runs"
BUCKET = "frameworks"
# What runs in the background after a rotation is given so long.
SETTLE_S = 60.0


def keys_of(client: Any) -> list[str]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    return [row["Key"] for page in pages for row in page.get("Contents", [])]


def _bodies(client: Any) -> dict[str, bytes]:
    return {key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys_of(client)}


@dataclass
class Place:
    """Where a framework writes to. client: speaks to the same endpoint. behind: to what lies behind the proxy: a directory,
    or another client.
    """

    client: Any
    environment: dict[str, str]
    folder: Path
    behind: Any = None

    def run(self, script: str, *phases: str) -> dict[str, Any]:
        """What the phases returned."""
        result = self.folder / f"{script}.json"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "S4W_", "PYTHON"))}
        done = subprocess.run(
            [PYTHON, RUNS / f"{script}.py", f"s3://{BUCKET}/{script}", result, *phases],
            env=kept | self.environment | {"S3FS_LOGGING_LEVEL": "WARNING"},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(json.loads(result.read_text()))

    def bodies(self) -> dict[str, bytes]:
        """Every object as clients see it."""
        return _bodies(self.client)

    def sums(self) -> dict[str, str]:
        return {key: sha256(body) for key, body in self.bodies().items()}

    def stored(self) -> dict[str, bytes]:
        """Every object as it lies in the bucket, hidden ones too."""
        assert self.behind is not None
        if not isinstance(self.behind, Path):
            return _bodies(self.behind)
        root = self.behind / BUCKET
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    def stored_bytes(self) -> int:
        return sum(map(len, self.stored().values()))

    def deltas(self) -> list[str]:
        """Keys of the containers that have another object as their base."""
        return [key for key, body in self.stored().items() if has_bases(body)]

    def settle(self) -> int:
        """Wait until the bucket's total stays the same. Returns it."""
        deadline, before = time.monotonic() + SETTLE_S, -1
        while (now := self.stored_bytes()) != before:
            assert time.monotonic() < deadline, f"the bucket went on changing for {SETTLE_S} s"
            before = now
            time.sleep(3)
        return now

    def clear(self) -> None:
        """Remove what clients see."""
        for key in keys_of(self.client):
            self.client.delete_object(Bucket=BUCKET, Key=key)


def has_bases(stored: bytes) -> bool:
    try:
        index = read_tail(stored, object_bytes=len(stored)).index
    except FormatError:
        return False
    return index is not None and bool(read_bases(index.about))


@dataclass(frozen=True)
class Plain:
    """A bucket whose objects all stand alone."""

    place: Place

    def stored_bytes(self, bodies: dict[str, bytes]) -> int:
        """Bytes that the bodies take as plain containers."""
        for key, body in bodies.items():
            self.place.client.put_object(Bucket=BUCKET, Key=key, Body=body)
        total = self.place.stored_bytes()
        assert not self.place.deltas()
        self.place.clear()
        return total


def _proxy(folder: Path, environment: dict[str, str]) -> tuple[ProxyProcess, Any]:
    directory = folder / "buckets"
    directory.mkdir()
    return ProxyProcess(str(directory), folder / "state", environment), directory


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plain]:
    folder = tmp_path_factory.mktemp("plain")
    proxy, directory = _proxy(folder, {"S4W_DELTAS": "false"})
    proxy.start()
    proxy.client().create_bucket(Bucket=BUCKET)
    yield Plain(Place(proxy.client(), proxy.client_environment(), folder, directory))
    proxy.stop()


@dataclass(frozen=True)
class Unproxied:
    """What a framework did without the proxy. sums: of what it left in the bucket."""

    results: dict[str, Any]
    sums: dict[str, str]


@pytest.fixture(scope="session")
def unproxied(seaweedfs: SeaweedFS, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Unproxied]:
    """Run a script on a bucket without the proxy; the bucket is gone afterwards."""
    environment = seaweedfs.environment() | {
        "AWS_ENDPOINT_URL": seaweedfs.endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    place = Place(seaweedfs.client(), environment, tmp_path_factory.mktemp("unproxied"))

    def run(script: str) -> Unproxied:
        place.client.create_bucket(Bucket=BUCKET)
        try:
            return Unproxied(place.run(script, "reference", "train"), place.sums())
        finally:
            place.clear()
            place.client.delete_bucket(Bucket=BUCKET)

    return run


@pytest.fixture(params=["directory", "seaweedfs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """An empty bucket of a directory or of a server, behind a proxy."""
    if request.param == "directory":
        proxy, behind = _proxy(tmp_path, {})
    else:
        server: SeaweedFS = request.getfixturevalue("seaweedfs")
        proxy, behind = ProxyProcess(server.endpoint, tmp_path / "state", server.environment()), server.client()
    proxy.start()
    found = Place(proxy.client(), proxy.client_environment(), tmp_path, behind)
    found.client.create_bucket(Bucket=BUCKET)
    yield found
    found.clear()
    found.client.delete_bucket(Bucket=BUCKET)
    proxy.stop()
