"""Addresses, ranges, conditions, documents, checksums."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest

from s4weights.proxy.checksums.algorithms import decode_checksum, new_hasher
from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.address import Address, parse_address
from s4weights.proxy.http.conditions import check_read
from s4weights.proxy.http.ranges import parse_range
from s4weights.proxy.http.xml import DeleteTarget, document, error_document, parse_complete, parse_delete
from s4weights.proxy.upstream.protocol import Conditions, ObjectInfo, Part


@pytest.mark.parametrize(
    ("path", "host", "expected"),
    [
        ("/", "s3.test", Address("", "")),
        ("/b", "s3.test", Address("b", "")),
        ("/b/", "s3.test", Address("b", "")),
        ("/b/a//b/./../c/", "x", Address("b", "a//b/./../c/")),
        ("/b/a%20b%2F%C3%BC+", "x", Address("b", "a b/ü+")),
        ("/k/l", "b.s3.test", Address("b", "k/l", in_host=True)),
        ("/k/l", "my.dotted.S3.TEST:9000", Address("my.dotted", "k/l", in_host=True)),
        ("/", "b.s3.test", Address("b", "", in_host=True)),
        ("/b/k", "[::1]:9000", Address("b", "k")),
        ("/b/k", "evils3.test", Address("b", "k")),
    ],
)
def test_addresses(path, host, expected):
    assert parse_address(path, host, ("s3.test",)) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("bytes=0-0", (0, 1)),
        ("bytes=9-", (9, 1)),
        ("bytes=-3", (7, 3)),
        ("bytes=-99", (0, 10)),
        ("bytes=5-99", (5, 5)),
        ("Bytes=0-1", None),
        ("bytes=1-0", None),
        ("bytes=0-1,3-4", None),
        ("bytes=", None),
        ("bytes=a-b", None),
        ("bytes=10-", "InvalidRange"),
        ("bytes=-0", "InvalidRange"),
        ("bytes=99999999999999999999-", "InvalidRange"),
    ],
)
def test_ranges_of_ten_bytes(header, expected):
    if isinstance(expected, str):
        with pytest.raises(S3Error, match=expected):
            parse_range(header, 10)
    else:
        found = parse_range(header, 10)
        assert (found and (found.first, found.length)) == expected


NOON = datetime(2026, 1, 1, 12, 0, 0, 500_000, UTC)
INFO = ObjectInfo(1, "abc", NOON)
AT, BEFORE, AFTER = (f"Thu, 01 Jan 2026 {time} GMT" for time in ("12:00:00", "11:59:59", "12:00:01"))


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, True),
        ({"if_match": '"abc"'}, True),
        ({"if_match": "abc"}, True),
        ({"if_match": '"x", "abc"'}, True),
        ({"if_match": "*"}, True),
        ({"if_match": '"x"'}, "412"),
        ({"if_none_match": '"abc"'}, False),
        ({"if_none_match": 'W/"abc"'}, False),
        ({"if_none_match": '"x"'}, True),
        ({"if_modified_since": AT}, False),
        ({"if_modified_since": BEFORE}, True),
        ({"if_unmodified_since": AT}, True),
        ({"if_unmodified_since": BEFORE}, "412"),
        ({"if_match": '"abc"', "if_unmodified_since": BEFORE}, True),
        ({"if_none_match": '"x"', "if_modified_since": AFTER}, True),
        ({"if_modified_since": "yesterday"}, True),
        ({"if_modified_since": "Thu, 01 Jan 2026 12:00:00 +99999999999999999999"}, True),
    ],
)
def test_conditional_reads(conditions, expected):
    if expected == "412":
        with pytest.raises(S3Error, match="PreconditionFailed"):
            check_read(Conditions(**conditions), INFO)
    else:
        assert check_read(Conditions(**conditions), INFO) is expected


def test_documents_escape_what_xml_cannot_hold():
    text = document("A", {"Key": "a&b<c>\x01\r", "None": None, "Rows": [{"B": "1"}, {"B": "2"}]})
    assert b"<Key>a&amp;b&lt;c&gt;&#x1;&#xd;</Key><Rows><B>1</B></Rows><Rows><B>2</B></Rows>" in text
    shown = error_document(S3Error("NoSuchKey", Key="k"), resource="/b/k", request_id="R", host_id="H")
    assert b"<Code>NoSuchKey</Code>" in shown
    assert b"<Key>k</Key>" in shown


NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


def test_documents_are_read_with_and_without_namespace():
    for attribute in ("", f" {NAMESPACE}"):
        data = f'<CompleteMultipartUpload{attribute}><Part><ETag>"e"</ETag><PartNumber>2</PartNumber></Part></CompleteMultipartUpload>'
        assert parse_complete(data.encode()) == [Part(2, "e")]
        found = parse_delete(f"<Delete{attribute}><Quiet>true</Quiet><Object><Key>k</Key></Object></Delete>".encode())
        assert (found.objects, found.quiet) == ([DeleteTarget("k")], True)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<Other/>",
        b"<CompleteMultipartUpload>",
        b"<CompleteMultipartUpload/>",
        b"<CompleteMultipartUpload><Part><PartNumber>x</PartNumber><ETag>e</ETag></Part></CompleteMultipartUpload>",
        b'<!DOCTYPE a [<!ENTITY b "c">]><CompleteMultipartUpload/>',
        b'<?xml version="1.0"?><!DOCTYPE a SYSTEM "file:///etc/passwd"><CompleteMultipartUpload/>',
        '<!DOCTYPE a [<!ENTITY e "e">]><CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>&e;</ETag></Part></CompleteMultipartUpload>'.encode(
            "utf-16"
        ),
    ],
)
def test_documents_that_are_refused(data):
    with pytest.raises(S3Error, match="MalformedXML"):
        parse_complete(data)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("x-amz-checksum-crc32", "y/Q5Jg=="),
        ("x-amz-checksum-crc32c", "4waSgw=="),
        ("x-amz-checksum-crc64nvme", "rosUhgp5mIg="),
        ("x-amz-checksum-sha1", "98O8HYCOBHMq32eZZczDTKeuNEE="),
        ("x-amz-checksum-sha256", "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="),
    ],
)
def test_checksums_in_pieces_equal_the_published_check_values(header, expected):
    pieces, whole = new_hasher(header), new_hasher(header)
    for piece in (b"1234", b"", b"56789"):
        pieces.update(piece)
    whole.update(b"123456789")
    assert pieces.digest() == whole.digest()
    value = base64.b64encode(whole.digest()).decode()
    assert decode_checksum(header, value) == whole.digest()
    assert value == expected
