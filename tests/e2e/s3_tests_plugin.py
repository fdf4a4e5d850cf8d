"""Loaded into ceph/s3-tests (`-p s3_tests_plugin`): every test has buckets of its own, so that none fails for another.

The suite's own clean-up raises where a server refuses to empty a bucket, and then every later test is an error.
"""

from __future__ import annotations

import contextlib
import secrets
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError


def pytest_configure(config: pytest.Config) -> None:
    import s3tests.functional as suite  # of the checkout that is tested

    suite.nuke_prefixed_buckets = remove_buckets
    suite.get_prefix = get_prefix


_prefix = "s4w-0-"


def get_prefix() -> str:
    return _prefix


def pytest_runtest_setup(item: pytest.Item) -> None:
    global _prefix
    _prefix = f"s4w-{secrets.token_hex(6)}-"


def remove_buckets(prefix: str | None = None, client: Any = None) -> None:
    """As far as the server lets us (it runs with allowDeleteBucketNotEmpty)."""
    import s3tests.functional as suite

    client = client or suite.get_client()
    with contextlib.suppress(ClientError, BotoCoreError):
        for row in client.list_buckets()["Buckets"]:
            if get_prefix() in row["Name"]:
                with contextlib.suppress(ClientError, BotoCoreError):
                    client.delete_bucket(Bucket=row["Name"])
