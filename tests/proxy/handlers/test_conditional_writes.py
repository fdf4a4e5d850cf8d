"""Conditions of writes and deletes name the ETag that the client knows, over real sockets."""

from __future__ import annotations

import os

import numpy as np
import pytest
from botocore.exceptions import ClientError

from tests.proxy.objects.conftest import safetensors

from .conftest import BUCKET

MIB = 1 << 20


@pytest.fixture(params=["checkpoint", "noise"])
def data(request) -> bytes:
    return (
        safetensors(np.random.default_rng(1).normal(0, 0.02, MIB))
        if request.param == "checkpoint"
        else os.urandom(9000)
    )


async def status(service, operation, **parameters) -> int:
    try:
        answer = await service.call(operation, Bucket=BUCKET, **parameters)
    except ClientError as error:
        answer = error.response
    return int(answer["ResponseMetadata"]["HTTPStatusCode"])


async def test_of_puts(service, data):
    assert await status(service, "put_object", Key="k", Body=data, IfMatch='"0"') == 404
    assert await status(service, "put_object", Key="k", Body=data, IfNoneMatch="*") == 200
    assert await status(service, "put_object", Key="k", Body=data, IfNoneMatch="*") == 412
    etag = (await service.call("head_object", Bucket=BUCKET, Key="k"))["ETag"]
    assert await status(service, "put_object", Key="k", Body=b"x", IfMatch='"0"') == 412
    assert await status(service, "put_object", Key="k", Body=b"x", IfMatch=etag) == 200
    assert await status(service, "put_object", Key="k", Body=data, IfMatch=etag) == 412


async def test_of_deletes(service, data):
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=data)
    etag = (await service.call("head_object", Bucket=BUCKET, Key="k"))["ETag"]
    assert await status(service, "delete_object", Key="k", IfMatch='"0"') == 412
    assert await status(service, "delete_object", Key="k", IfMatchSize=len(data) + 1) == 412
    assert await status(service, "delete_object", Key="k", IfMatch=etag, IfMatchSize=len(data)) == 204


async def test_of_many_deletes_at_once(service, data):
    for key in ("kept", "gone", "sized", "free"):
        await service.call("put_object", Bucket=BUCKET, Key=key, Body=data)
    etag = (await service.call("head_object", Bucket=BUCKET, Key="kept"))["ETag"]
    asked = [
        {"Key": "kept", "ETag": '"0"'},
        {"Key": "gone", "ETag": etag},
        {"Key": "sized", "Size": len(data) - 1},
        {"Key": "free"},
    ]
    answer = await service.call("delete_objects", Bucket=BUCKET, Delete={"Objects": asked})
    assert sorted(row["Key"] for row in answer["Deleted"]) == ["free", "gone"]
    assert sorted((row["Key"], row["Code"]) for row in answer["Errors"]) == [
        ("kept", "PreconditionFailed"),
        ("sized", "PreconditionFailed"),
    ]
    listed = await service.call("list_objects_v2", Bucket=BUCKET)
    assert [row["Key"] for row in listed["Contents"]] == ["kept", "sized"]


async def test_what_a_request_asks_is_not_answered_with_the_object(service, data):
    await service.call("put_object", Bucket=BUCKET, Key="k", Body=data, ACL="private", Tagging="a=b")
    headers = (await service.call("head_object", Bucket=BUCKET, Key="k"))["ResponseMetadata"]["HTTPHeaders"]
    assert not {"x-amz-acl", "x-amz-tagging"} & headers.keys()
