"""A range is what a slice of the body is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.ranges import parse_range


def check(header: str, size: int, wanted: bytes) -> None:
    found = parse_range(header, size)
    assert found is not None
    assert bytes(range(size))[found.first : found.first + found.length] == wanted
    assert found.content_range == f"bytes {wanted[0]}-{wanted[-1]}/{size}"


@given(st.data(), st.integers(1, 50))
def test_ranges_agree_with_slices(data, size):
    body = bytes(range(size))
    first = data.draw(st.integers(0, size - 1))
    last = data.draw(st.integers(first, 99))
    suffix = data.draw(st.integers(1, 99))
    check(f"bytes={first}-{last}", size, body[first : last + 1])
    check(f"bytes={first}-", size, body[first:])
    check(f"bytes=-{suffix}", size, body[-suffix:])


@pytest.mark.parametrize("header", ["bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0"])
def test_no_range_lies_within_an_empty_body(header):
    with pytest.raises(S3Error) as error:
        parse_range(header, 0)
    assert (error.value.code, error.value.status) == ("InvalidRange", 416)
    assert error.value.fields == {"RangeRequested": header, "ActualObjectSize": "0"}


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (f"bytes=1-{'9' * 30}", (1, 99)),
        (f"bytes=-{'9' * 30}", (0, 100)),
        (f"bytes=0-{'9' * 5000}", (0, 100)),
        ("bytes=\u0661-\u0665", None),
    ],
)
def test_numbers_of_any_length_and_only_ascii(header, found):
    part = parse_range(header, 100)
    assert (part and (part.first, part.length)) == found


def test_a_first_byte_far_beyond_the_end_lies_in_no_body():
    with pytest.raises(S3Error, match="InvalidRange"):
        parse_range(f"bytes={'9' * 30}-", 100)
