"""The real proxy on an instance whose role gets new keys while those before are far from their end."""

from __future__ import annotations

import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.e2e.proxy_process import ProxyProcess
from tests.instance_metadata import InstanceMetadata
from tests.servers import client_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(200)]
# After one look for a key that is not known.
NEXT_LOOK_S = 5.5


@pytest.fixture
def instance():
    with InstanceMetadata() as one:
        one.give("ASIAFIRST")
        yield one


def as_role(proxy: ProxyProcess, access_key: str) -> Any:
    """A client process that started when these were the role's keys."""
    return client_of(
        proxy.endpoint,
        access_key,
        f"secret-of-{access_key}",
        session_token=f"token-of-{access_key}",
        retries={"total_max_attempts": 1},
    )


def test_old_and_new_clients_sign_with_what_each_was_given(instance, tmp_path):
    (tmp_path / "buckets" / "training").mkdir(parents=True)
    environment = {
        "S4W_ACCESS_KEY": "",
        "S4W_SECRET_KEY": "",
        "HOME": str(tmp_path),
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": instance.endpoint,
    }
    proxy = ProxyProcess(str(tmp_path / "buckets"), tmp_path / "state", environment)
    proxy.start()
    try:
        as_role(proxy, "ASIAFIRST").put_object(Bucket="training", Key="k", Body=b"x")
        for number, access_key in enumerate(["ASIASECOND", "ASIATHIRD", "ASIAFOURTH"]):
            instance.give(access_key)
            if number:
                time.sleep(NEXT_LOOK_S)
            as_role(proxy, access_key).get_object(Bucket="training", Key="k")
        for access_key in ("ASIAFIRST", "ASIASECOND", "ASIATHIRD"):
            as_role(proxy, access_key).get_object(Bucket="training", Key="k")
        with pytest.raises(ClientError, match="InvalidAccessKeyId"):
            as_role(proxy, "ASIASTRANGER").get_object(Bucket="training", Key="k")
    finally:
        proxy.stop()
