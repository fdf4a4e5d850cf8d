"""What S3 makes of the checksums of parts."""

from __future__ import annotations

import base64
import hashlib
import zlib

import pytest
from awscrt import checksums as crt
from hypothesis import given
from hypothesis import strategies as st

from s4weights.proxy.checksums.algorithms import ELEMENTS, checksum_headers, elements, encode, header_of, new_hasher
from s4weights.proxy.checksums.plan import COMPOSITE, FULL_OBJECT, ChecksumPlan, check_part, check_whole, read_plan
from s4weights.proxy.errors import S3Error

HEADERS = sorted(ELEMENTS.values())
CRCS = [header for header in HEADERS if "crc" in header]


def checksum(header: str, data: bytes) -> str:
    hasher = new_hasher(header)
    hasher.update(data)
    return encode(hasher.digest())


@pytest.mark.parametrize("header", CRCS)
@given(parts=st.lists(st.binary(max_size=200), min_size=1, max_size=6))
def test_the_crc_of_a_whole_follows_from_those_of_its_parts(header, parts):
    plan = ChecksumPlan(header, FULL_OBJECT)
    joined = plan.join([(checksum(header, part), len(part)) for part in parts])
    assert joined == {header: checksum(header, b"".join(parts)), "x-amz-checksum-type": "FULL_OBJECT"}


def test_known_checksums():
    known = {
        "x-amz-checksum-crc32": zlib.crc32(b"s4").to_bytes(4, "big"),
        "x-amz-checksum-crc32c": crt.crc32c(b"s4").to_bytes(4, "big"),
        "x-amz-checksum-crc64nvme": crt.crc64nvme(b"s4").to_bytes(8, "big"),
        "x-amz-checksum-sha1": hashlib.sha1(b"s4").digest(),
        "x-amz-checksum-sha256": hashlib.sha256(b"s4").digest(),
    }
    assert {header: checksum(header, b"s4") for header in known} == {
        header: base64.b64encode(digest).decode() for header, digest in known.items()
    }


def test_a_composite_is_the_checksum_of_checksums():
    # Source: ceph/s3-tests, test_multipart_reupload_checksum_and_etag.
    parts = [
        ("275VF5loJr1YYawit0XSHREhkFXYkkPKGuoK0x9VKxI=", 5 << 20),
        ("mrHwOfjTL5Zwfj74F05HOQGLdUb7E5szdCbxgUSq6NM=", 5 << 20),
        ("Vw7oB/nKQ5xWb3hNgbyfkvDiivl+U+/Dft48nfJfDow=", 5 << 20),
    ]
    joined = ChecksumPlan("x-amz-checksum-sha256", COMPOSITE).join(parts)
    assert joined["x-amz-checksum-sha256"] == "uWBwpe1dxI4Vw8Gf0X9ynOdw/SS6VBzfWm9giiv1sf4=-3"
    assert joined["x-amz-checksum-type"] == "COMPOSITE"


@pytest.mark.parametrize(
    ("algorithm", "kind", "expected"),
    [
        ("CRC32", None, COMPOSITE),
        ("crc32c", "FULL_OBJECT", FULL_OBJECT),
        ("CRC32", "COMPOSITE", COMPOSITE),
        ("CRC64NVME", None, FULL_OBJECT),
        ("CRC64NVME", "FULL_OBJECT", FULL_OBJECT),
        ("SHA1", None, COMPOSITE),
        ("SHA256", "COMPOSITE", COMPOSITE),
    ],
)
def test_the_types_that_s3_has(algorithm, kind, expected):
    headers = {"x-amz-checksum-algorithm": algorithm} | ({"x-amz-checksum-type": kind} if kind else {})
    plan = read_plan(headers)
    assert plan == ChecksumPlan(f"x-amz-checksum-{algorithm.lower()}", expected)
    assert read_plan(plan.headers) == plan


@pytest.mark.parametrize(
    "headers",
    [
        {"x-amz-checksum-type": "COMPOSITE"},
        {"x-amz-checksum-algorithm": "MD5"},
        {"x-amz-checksum-algorithm": "type"},
        {"x-amz-checksum-algorithm": "CRC64NVME", "x-amz-checksum-type": "COMPOSITE"},
        {"x-amz-checksum-algorithm": "SHA1", "x-amz-checksum-type": "FULL_OBJECT"},
        {"x-amz-checksum-algorithm": "SHA256", "x-amz-checksum-type": "FULL_OBJECT"},
        {"x-amz-checksum-algorithm": "CRC32", "x-amz-checksum-type": "HALF_OBJECT"},
    ],
)
def test_the_types_that_s3_has_not(headers):
    with pytest.raises(S3Error, match="InvalidRequest"):
        read_plan(headers)


def test_no_algorithm_is_no_plan():
    assert read_plan({}) is None


def test_a_part_with_another_checksum_than_its_upload_is_refused():
    plan = ChecksumPlan("x-amz-checksum-crc32", COMPOSITE)
    check_part(plan, {"x-amz-checksum-crc32": None})
    check_part(None, {"x-amz-checksum-sha1": "x"})
    with pytest.raises(S3Error, match="expected checksum Type: crc32, actual checksum Type: sha1"):
        check_part(plan, {"x-amz-checksum-sha1": None})


def test_what_a_complete_announces_must_be_what_came():
    plan = ChecksumPlan("x-amz-checksum-crc32", COMPOSITE)
    found = {"x-amz-checksum-crc32": "AAAAAA==-2", "x-amz-checksum-type": "COMPOSITE"}
    for value in ("AAAAAA==-2", "AAAAAA=="):
        check_whole(plan, {"x-amz-checksum-crc32": value, "x-amz-checksum-type": "COMPOSITE"}, found)
    check_whole(None, {}, {})
    for code, headers in [
        ("BadDigest", {"x-amz-checksum-crc32": "AAAAAQ=="}),
        ("BadDigest", {"x-amz-checksum-crc32": "AAAAAA==-3"}),
        ("InvalidRequest", {"x-amz-checksum-type": "FULL_OBJECT"}),
        ("InvalidRequest", {"x-amz-checksum-sha1": "x"}),
    ]:
        with pytest.raises(S3Error, match=code):
            check_whole(plan, headers, found)
    with pytest.raises(S3Error, match="InvalidRequest"):
        check_whole(None, {"x-amz-checksum-crc32": "AAAAAA=="}, {})


def test_names_in_documents():
    assert elements({"x-amz-checksum-crc64nvme": "x", "x-amz-checksum-type": "FULL_OBJECT"}) == {
        "ChecksumCRC64NVME": "x"
    }
    assert [header_of(name.removeprefix("Checksum")) for name in ELEMENTS] == list(ELEMENTS.values())
    assert checksum_headers(["x-amz-checksum-type", "x-amz-checksum-sha1", "content-md5"]) == ["x-amz-checksum-sha1"]
