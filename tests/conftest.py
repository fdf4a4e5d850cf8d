"""Fixtures of all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import SeaweedFS


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFS]:
    """One S3 server for the tests of one worker."""
    with SeaweedFS(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server
