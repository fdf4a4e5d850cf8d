"""Loaded into ceph/s3-tests (`-p s3_tests_plugin`): every test has buckets of its own, so that none fails for another.

The suite's own clean-up raises where a server refuses to empty a bucket, and then every later test is an error.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

# A file with the names of the tests that are to run; none: all.
ONLY = "S4W_S3_TESTS_ONLY"


def pytest_configure(config: pytest.Config) -> None:
    import s3tests.functional as suite  # of the checkout that is tested

    suite.nuke_prefixed_buckets = remove_buckets


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if ONLY in os.environ:
        names = set(json.loads(Path(os.environ[ONLY]).read_text()))
        items[:] = [item for item in items if item.name in names]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    import s3tests.functional as suite

    suite.prefix = f"s4w-{secrets.token_hex(6)}-"


def remove_buckets(prefix: str, client: Any = None) -> None:
    """As far as the server lets us (it runs with allowDeleteBucketNotEmpty)."""
    import s3tests.functional as suite

    client = client or suite.get_client()
    with contextlib.suppress(ClientError, BotoCoreError):
        for row in client.list_buckets()["Buckets"]:
            if prefix in row["Name"]:
                with contextlib.suppress(ClientError, BotoCoreError):
                    client.delete_bucket(Bucket=row["Name"])
