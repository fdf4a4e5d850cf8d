"""A container that lost its end, or got a longer one, and with it the metadata that said what it is: an error, never its bytes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from botocore.exceptions import ClientError

from s4weights.codec.container import HEADER_BYTES, TRAILER_BYTES, make_header
from tests.proxy.objects.conftest import safetensors

from .conftest import BUCKET, Service

_KEY = "run/model.safetensors"
DATA = safetensors(np.random.default_rng(0).normal(0, 0.02, 1 << 19))


def _cut_to(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, size)


def _cut_by(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, path.stat().st_size - size)


def _longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\n")


def _overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-TRAILER_BYTES, os.SEEK_END)
        file.write(bytes(TRAILER_BYTES))


def _nothing(path: Path) -> None:
    """Put there by another tool, and not damaged."""
    path.rename(path.with_suffix(".old"))
    path.write_bytes(path.with_suffix(".old").read_bytes())
    path.with_suffix(".old").unlink()


DAMAGE = {
    "to its header": _cut_to(HEADER_BYTES),
    "below the least container": _cut_to(100),
    "to less than a first read": _cut_to(20_000),
    "in the middle": _cut_to(300_000),
    "by one byte": _cut_by(1),
    "by its trailer": _cut_by(TRAILER_BYTES),
    "longer": _longer,
    "overwritten": _overwritten,
}
RANGES = ["", "bytes=0-0", "bytes=0-99999", "bytes=5-40", "bytes=1000-2000", "bytes=-10"]


@pytest.fixture
async def stored(service: Service) -> Path:
    await service.call("put_object", Bucket=BUCKET, Key=_KEY, Body=DATA)
    return service.directory / BUCKET / _KEY


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
@pytest.mark.parametrize("by_hand", [False, True], ids=["in place", "metadata lost"])
async def test_no_byte_of_it_is_given_out(
    service: Service, stored: Path, damage: Callable[[Path], None], by_hand: bool
) -> None:
    if by_hand:
        _nothing(stored)
    damage(stored)
    for wanted in RANGES:
        asked = {"Range": wanted} if wanted and stored.stat().st_size > 2_000 else {}
        with pytest.raises(ClientError) as raised:
            await service.call("get_object", Bucket=BUCKET, Key=_KEY, **asked)
        assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
        assert "container is damaged" in raised.value.response["Error"]["Message"]
    with pytest.raises(ClientError, match="500"):
        await service.call("head_object", Bucket=BUCKET, Key=_KEY)


async def test_it_can_be_written_again_and_removed(service: Service, stored: Path) -> None:
    _cut_to(300_000)(stored)
    rows = await service.call("list_objects_v2", Bucket=BUCKET)
    assert [row["Size"] for row in rows["Contents"]] == [300_000]
    await service.call("put_object", Bucket=BUCKET, Key=_KEY, Body=DATA)
    answer = await service.call("get_object", Bucket=BUCKET, Key=_KEY)
    assert answer["Body"].read() == DATA
    _longer(stored)
    await service.call("delete_object", Bucket=BUCKET, Key=_KEY)
    assert service.stored() == []


async def test_a_container_whose_metadata_was_lost_is_one_still(service: Service, stored: Path) -> None:
    _nothing(stored)
    answer = await service.call("get_object", Bucket=BUCKET, Key=_KEY)
    assert answer["Body"].read() == DATA


@pytest.mark.parametrize("sent_bytes", [HEADER_BYTES, 100, 20_000, 300_000])
async def test_what_a_client_sends_that_begins_as_a_container_comes_back_as_it_was_sent(
    service: Service, stored: Path, sent_bytes: int
) -> None:
    part = stored.read_bytes()[:sent_bytes]
    await service.call("put_object", Bucket=BUCKET, Key="sent", Body=part)
    upload = (await service.call("create_multipart_upload", Bucket=BUCKET, Key="in parts"))["UploadId"]
    names = {"Bucket": BUCKET, "Key": "in parts", "UploadId": upload}
    sent = await service.call("upload_part", **names, PartNumber=1, Body=part)
    parts = {"Parts": [{"PartNumber": 1, "ETag": sent["ETag"]}]}
    await service.call("complete_multipart_upload", **names, MultipartUpload=parts)
    await service.call("copy_object", Bucket=BUCKET, Key="copied", CopySource=f"{BUCKET}/sent")
    for key in ("sent", "in parts", "copied"):
        answer = await service.call("get_object", Bucket=BUCKET, Key=key)
        assert answer["Body"].read() == part
        answer = await service.call("get_object", Bucket=BUCKET, Key=key, Range="bytes=3-9")
        assert answer["Body"].read() == part[3:10]


@pytest.mark.parametrize("size", [16, 17, 100_000, 3_000_000])
async def test_what_was_put_there_by_hand_and_only_looks_alike_is_given_out(service: Service, size: int) -> None:
    data = bytearray((make_header() * (size // HEADER_BYTES + 1))[:size])
    data[HEADER_BYTES - 1] ^= 1
    (service.directory / BUCKET / "alike").write_bytes(data)
    for wanted, expected in [("0-", data), ("0-3", data[:4]), ("7-9", data[7:10]), ("9-20", data[9:21])]:
        answer = await service.call("get_object", Bucket=BUCKET, Key="alike", Range=f"bytes={wanted}")
        assert answer["Body"].read() == expected
