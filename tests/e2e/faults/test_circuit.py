"""A bucket that fails for a while: readiness tells, the client is told when to come back, and all is well again by itself."""

from __future__ import annotations

import time

import pytest
from botocore.exceptions import ClientError

from .conftest import BUCKET, Broken
from .script import Fault, Kind, Rule, refused

pytestmark = pytest.mark.e2e
ALWAYS = 1_000_000


def wait_for(broken: Broken, status: int, seconds: float = 40) -> str:
    deadline = time.monotonic() + seconds
    while True:
        found, text = broken.proxy.health("readyz")
        if found == status:
            return text
        assert time.monotonic() < deadline, f"readyz answers {found}: {text}"
        time.sleep(0.2)


@pytest.mark.parametrize("fault", [refused(500, "InternalError"), Fault(Kind.RESET_BEFORE)])
def test_readiness_tells_of_a_bucket_that_fails_and_of_its_return(broken, fault):
    client = broken.proxy.client()
    client.put_object(Bucket=BUCKET, Key="circuit", Body=b"there")
    # Only reads: the probe's own call would be answered.
    broken.fails(Rule(fault, "GET", f"/{BUCKET}/circuit", times=ALWAYS))
    for _ in range(3):
        with pytest.raises(ClientError, match="ServiceUnavailable"):
            client.get_object(Bucket=BUCKET, Key="circuit")
    reason = wait_for(broken, 503)
    assert "calls to the bucket failed" in reason
    assert f"{BUCKET}/circuit" in reason
    assert broken.proxy.health("healthz")[0] == 200
    asked = len(broken.script.requests)
    with pytest.raises(ClientError, match="ServiceUnavailable"):
        client.get_object(Bucket=BUCKET, Key="circuit")
    # Not as often as otherwise; aiohttp itself asks twice where a connection that it kept was closed.
    assert sum("/circuit" in one for one in broken.script.requests[asked:]) <= 2
    broken.script.clear()
    assert client.get_object(Bucket=BUCKET, Key="circuit")["Body"].read() == b"there"
    wait_for(broken, 200)


def test_readiness_returns_without_any_client(broken):
    broken.fails(Rule(Fault(Kind.RESET_BEFORE), times=ALWAYS))
    for _ in range(3):
        with pytest.raises(ClientError):
            broken.proxy.client().head_bucket(Bucket=BUCKET)
    wait_for(broken, 503)
    broken.script.clear()
    wait_for(broken, 200)


def test_a_client_is_told_what_the_bucket_asked_for(broken):
    client = broken.proxy.client()
    broken.fails(Rule(refused(503, "SlowDown", retry_after_s=77), "PUT", "/slow-down"))
    with pytest.raises(ClientError) as error:
        client.put_object(Bucket=BUCKET, Key="slow-down", Body=b"x")
    answer = error.value.response
    assert answer["Error"]["Code"] == "SlowDown"
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 503
    assert answer["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "77"
    broken.fails(Rule(refused(503, "SlowDown", retry_after_s=88), "GET", r"\?tagging"))
    with pytest.raises(ClientError) as error:
        client.get_bucket_tagging(Bucket=BUCKET)
    assert error.value.response["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "88"


def test_a_short_wait_that_the_bucket_asks_for_is_kept(broken):
    client = broken.proxy.client()
    client.put_object(Bucket=BUCKET, Key="wait", Body=b"there")
    broken.fails(Rule(refused(503, "SlowDown", retry_after_s=2), "GET", f"/{BUCKET}/wait"))
    began_s = time.monotonic()
    assert client.get_object(Bucket=BUCKET, Key="wait")["Body"].read() == b"there"
    assert time.monotonic() - began_s >= 2
