"""The calls of a client, and the requests of the proxy's that each one stands on."""

from __future__ import annotations

import functools
import io
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from boto3.exceptions import S3UploadFailedError
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from .conftest import BUCKET, MIB, checkpoint
from .script import Fault, Kind, refused

SMALL = MIB
LARGE = 13 * MIB


@functools.cache
def body(name: str) -> bytes:
    """small, large: checkpoints, stored as one object and in parts. noise: passes through, in two parts where there are any."""
    if name == "noise":
        return random.Random(1).randbytes(7 * MIB)
    return checkpoint(SMALL if name == "small" else LARGE, 7)


@dataclass(frozen=True)
class Stage:
    """method, target: of the proxy's request, `{key}` in the target. sends, gets: whether it, or its answer, has a body that
    is not a document. made: whether its answer names what was stored.
    """

    method: str
    target: str
    sends: bool = False
    gets: bool = False
    made: bool = False

    def faults(self) -> list[Fault]:
        found = [
            refused(500, "InternalError"),
            refused(503, "SlowDown", 1),
            refused(429, "TooManyRequests"),
            *(Fault(kind) for kind in (Kind.RESET_BEFORE, Kind.LOST_ANSWER, Kind.STALL)),
            Fault(Kind.REFUSED_AFTER, 500, "InternalError"),
        ]
        if self.sends:
            found += map(Fault, (Kind.RESET_IN_REQUEST, Kind.STALL_IN_REQUEST, Kind.CORRUPT_REQUEST))
        if self.gets:
            found += map(Fault, (Kind.TRUNCATED, Kind.STALL_IN_ANSWER, Kind.TRICKLE, Kind.SLOW))
        if self.made:
            found.append(Fault(Kind.WRONG_ETAG))
        return found


PUT = Stage("PUT", r"/{key}(\?x-id|$)", sends=True, made=True)
CREATE = Stage("POST", r"/{key}\?uploads")
PART = Stage("PUT", r"/{key}\?.*partNumber=1&", sends=True, made=True)
COMPLETE = Stage("POST", r"/{key}\?.*uploadId=")
ABORT = Stage("DELETE", r"/{key}\?.*uploadId=")
GET = Stage("GET", r"/{key}(\?|$)", gets=True)
DELETE = Stage("DELETE", r"/{key}(\?x-id|$)")
LIST = Stage("GET", r"list-type=2.*prefix={key}")
COPY = Stage("PUT", r"/{key}-copy(\?|$)")
HEAD = Stage("GET", r"/{key}(\?|$)")


@dataclass(frozen=True)
class Operation:
    """act: what the client does, beside check: raises where the outcome is not as it has to be."""

    stages: dict[str, Stage]
    content: str
    act: Callable[[Any, str, bytes], None]
    check: Callable[[Any, str, bytes], None]
    is_there_before: bool = False
    is_in_parts: bool = False
    """Whether the client itself uploads in parts."""


def _put(client: Any, key: str, data: bytes) -> None:
    client.put_object(Bucket=BUCKET, Key=key, Body=data)


def _upload(client: Any, key: str, data: bytes) -> None:
    parts = TransferConfig(multipart_threshold=MIB, multipart_chunksize=6 * MIB, max_concurrency=2)
    try:
        client.upload_fileobj(io.BytesIO(data), BUCKET, key, Config=parts)
    except ClientError as error:
        raise S3UploadFailedError(str(error)) from error


def _abort(client: Any, key: str, data: bytes) -> None:
    upload = {"Bucket": BUCKET, "Key": key}
    upload["UploadId"] = client.create_multipart_upload(**upload)["UploadId"]
    client.upload_part(**upload, PartNumber=1, Body=data)
    client.abort_multipart_upload(**upload)


def _get(client: Any, key: str, data: bytes) -> None:
    assert _read(client, key) == data


def _get_range(client: Any, key: str, data: bytes) -> None:
    first, last = len(data) // 3, len(data) // 2
    answer = client.get_object(Bucket=BUCKET, Key=key, Range=f"bytes={first}-{last}")
    assert answer["Body"].read() == data[first : last + 1]


def _head(client: Any, key: str, data: bytes) -> None:
    assert client.head_object(Bucket=BUCKET, Key=key)["ContentLength"] == len(data)


def _list(client: Any, key: str, data: bytes) -> None:
    rows = client.list_objects_v2(Bucket=BUCKET, Prefix=key)["Contents"]
    assert [(row["Key"], row["Size"]) for row in rows] == [(key, len(data))]


def _delete(client: Any, key: str, data: bytes) -> None:
    client.delete_object(Bucket=BUCKET, Key=key)


def _copy(client: Any, key: str, data: bytes) -> None:
    client.copy_object(Bucket=BUCKET, Key=f"{key}-copy", CopySource={"Bucket": BUCKET, "Key": key})


def _first(client: Any, key: str, data: bytes) -> None:
    """A conditional write, whose own lost answer must not stand in its way."""
    client.put_object(Bucket=BUCKET, Key=key, Body=data, IfNoneMatch="*")


def _read(client: Any, key: str) -> bytes:
    return bytes(client.get_object(Bucket=BUCKET, Key=key)["Body"].read())


def _is_whole(client: Any, key: str, data: bytes) -> None:
    _list(client, key, data)
    assert _read(client, key) == data


def _is_copied(client: Any, key: str, data: bytes) -> None:
    assert _read(client, f"{key}-copy") == data


def _is_gone(client: Any, key: str, data: bytes) -> None:
    assert "Contents" not in client.list_objects_v2(Bucket=BUCKET, Prefix=key)


def _nothing(client: Any, key: str, data: bytes) -> None:
    """What a read brings is looked at while it is read."""


PARTS = {"create": CREATE, "part": PART, "complete": COMPLETE}
OPERATIONS = {
    "put-small": Operation({"put": PUT}, "small", _put, _is_whole),
    "put-first": Operation({"put": PUT}, "small", _first, _is_whole),
    "put-large": Operation(PARTS, "large", _put, _is_whole),
    "put-noise": Operation({"put": PUT}, "noise", _put, _is_whole),
    "parts-large": Operation(PARTS, "large", _upload, _is_whole, is_in_parts=True),
    "parts-noise": Operation(PARTS, "noise", _upload, _is_whole, is_in_parts=True),
    "abort": Operation({"abort": ABORT}, "noise", _abort, _is_gone),
    "get-large": Operation({"get": GET}, "large", _get, _nothing, is_there_before=True),
    "get-noise": Operation({"get": GET}, "noise", _get, _nothing, is_there_before=True),
    "range-large": Operation({"get": GET}, "large", _get_range, _nothing, is_there_before=True),
    "head": Operation({"head": HEAD}, "small", _head, _nothing, is_there_before=True),
    "list": Operation({"list": LIST, "look": GET}, "small", _list, _nothing, is_there_before=True),
    "delete": Operation({"delete": DELETE}, "small", _delete, _is_gone, is_there_before=True),
    "copy": Operation({"copy": COPY}, "small", _copy, _is_copied, is_there_before=True),
}
