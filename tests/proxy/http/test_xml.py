"""Documents: any text survives, bounds hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.xml import (
    MAX_DELETE_KEYS,
    DeleteTarget,
    document,
    parse_complete,
    parse_delete,
    parse_tagging,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffe\uffff", min_codepoint=32))


@given(TEXTS)
def test_any_text_comes_back_out_of_a_document(text):
    key = f"{text}\t\n\r"
    assert parse_delete(document("Delete", {"Object": {"Key": key}})).objects == [DeleteTarget(key)]


def delete(count: int) -> bytes:
    return document("Delete", {"Object": [{"Key": str(number)} for number in range(count)]})


def test_as_many_keys_as_s3_takes_and_no_more():
    assert len(parse_delete(delete(MAX_DELETE_KEYS)).objects) == 1000
    for count in (0, MAX_DELETE_KEYS + 1):
        with pytest.raises(S3Error, match="MalformedXML"):
            parse_delete(delete(count))


def test_versions_of_keys_are_kept():
    data = document("Delete", {"Object": [{"Key": "a", "VersionId": "1"}, {"Key": "b"}], "Quiet": "false"})
    found = parse_delete(data)
    assert (found.objects, found.quiet) == ([DeleteTarget("a", "1"), DeleteTarget("b")], False)


@pytest.mark.parametrize("number", ["", " ", "-1", "1.0", "0x1", "²", "1 2"])
def test_part_numbers_that_are_none(number):
    with pytest.raises(S3Error, match="MalformedXML"):
        parse_complete(document("CompleteMultipartUpload", {"Part": {"PartNumber": number, "ETag": "e"}}))


def test_a_comment_is_no_document_type():
    data = b"<!-- a --><Delete><!-- b --><Object><Key>k</Key></Object></Delete>"
    assert parse_delete(data).objects == [DeleteTarget("k")]


def test_a_deeply_nested_document_is_refused():
    with pytest.raises(S3Error, match="MalformedXML"):
        parse_delete(b"<Delete>" + b"<a>" * 100_000 + b"</a>" * 100_000 + b"</Delete>")


def tagging(*tags: tuple[str, str]) -> bytes:
    return document("Tagging", {"TagSet": {"Tag": [{"Key": key, "Value": value} for key, value in tags]}})


def test_tags_are_read():
    assert parse_tagging(tagging(("run", "r 1+ü"), ("empty", ""))) == {"run": "r 1+ü", "empty": ""}
    assert parse_tagging(b"<Tagging><TagSet/></Tagging>") == {}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "MalformedXML"),
        (b"<TagSet/>", "MalformedXML"),
        (tagging(("", "x")), "InvalidTag"),
        (tagging(("a", "1"), ("a", "2")), "InvalidTag"),
        (tagging(*((f"{number}", "") for number in range(11))), "BadRequest"),
    ],
)
def test_tags_that_are_none(data, code):
    with pytest.raises(S3Error, match=code):
        parse_tagging(data)
