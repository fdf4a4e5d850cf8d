"""What an index says of a client's upload is believed only where it fits: anybody may have written it."""

from __future__ import annotations

import pytest

from s4weights.proxy.objects.about import read_checksums, read_part_checksums, read_parts

CRC = "x-amz-checksum-crc32"
TYPE = "x-amz-checksum-type"


def test_what_our_own_writer_says():
    about = {"parts": [5, 3], "checksums": {CRC: "AAAAAA==-2", TYPE: "COMPOSITE", "parts": "AAAAAA==,AAAAAQ=="}}
    assert read_parts(about, 8) == (5, 3)
    assert read_checksums(about) == {CRC: "AAAAAA==-2", TYPE: "COMPOSITE"}
    assert read_part_checksums(about, 2) == ("AAAAAA==", "AAAAAQ==")
    assert read_checksums({"checksums": {CRC: "AAAAAA=="}}) == {CRC: "AAAAAA==", TYPE: "FULL_OBJECT"}


@pytest.mark.parametrize("parts", [None, 8, "53", [], [5, 4], [9, -1], [5.0, 3], [True, 7], [[8]], ["8"], [0] * 10_001])
def test_parts_that_do_not_make_up_the_body(parts):
    assert read_parts({"parts": parts}, 8) == ()


@pytest.mark.parametrize(
    "checksums",
    [
        None,
        [],
        {},
        {CRC: 7},
        {CRC: "AAAAAA==\r\nSet-Cookie: a=b"},
        {CRC: "x" * 1000},
        {"set-cookie": "AAAAAA=="},
        {"x-amz-checksum-md5": "AAAAAA=="},
        {CRC: "AAAAAA==", "x-amz-checksum-crc32c": "AAAAAA=="},
    ],
)
def test_checksums_that_are_none(checksums):
    assert read_checksums({"checksums": checksums}) == {}


def test_a_type_that_is_none_is_not_answered():
    assert read_checksums({"checksums": {CRC: "AAAAAA==", TYPE: "x\r\ny"}}) == {CRC: "AAAAAA=="}


@pytest.mark.parametrize("text", [None, 7, "", "AAAAAA==", "AAAAAA==,AAAAAA==,AAAAAA==", "AAAAAA==,\r\n", ","])
def test_part_checksums_that_do_not_fit(text):
    assert read_part_checksums({"checksums": {"parts": text}}, 2) == ()
