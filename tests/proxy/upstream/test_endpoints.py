"""Every region is reached where botocore reaches it, in each partition."""

from __future__ import annotations

import boto3
import botocore.session
import pytest

from s4weights.proxy.upstream.bucket.endpoints import RegionalEndpoints

SESSION = botocore.session.get_session()
REGIONS = [
    region
    for partition in SESSION.get_available_partitions()
    for region in SESSION.get_available_regions("s3", partition, allow_non_regional=False)
]


@pytest.mark.parametrize("region", [*REGIONS, "eusc-de-east-1"])
def test_its_endpoint_is_that_of_every_other_client(region: str) -> None:
    client = boto3.client("s3", region_name=region, aws_access_key_id="a", aws_secret_access_key="b")
    found = RegionalEndpoints(SESSION).of(region)
    assert found.startswith(f"https://s3.{region}.")
    # botocore itself calls this one by its old name, which leads to the same place.
    assert found == client.meta.endpoint_url or region == "us-east-1"


def test_there_are_partitions_of_other_names() -> None:
    endpoints = RegionalEndpoints(SESSION)
    assert endpoints.of("cn-north-1") == "https://s3.cn-north-1.amazonaws.com.cn"
    assert endpoints.of("us-gov-west-1") == "https://s3.us-gov-west-1.amazonaws.com"
