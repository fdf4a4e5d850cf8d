"""What names no object is refused, and a key is decoded once and never normalised."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from s4weights.proxy.errors import S3Error
from s4weights.proxy.http.address import parse_address


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/b/%ff", "InvalidURI"),
        ("/%ff/k", "InvalidURI"),
        ("/b/%ed%a0%80", "InvalidURI"),
        ("/b/a%00b", "InvalidURI"),
        ("/b/" + "k" * 1025, "KeyTooLongError"),
        ("/b/" + "%C3%BC" * 513, "KeyTooLongError"),
    ],
    ids=lambda text: text[:16],
)
def test_addresses_that_cannot_be(path, code):
    with pytest.raises(S3Error) as error:
        parse_address(path, "s3.test", ())
    assert error.value.code == code


@pytest.mark.parametrize("raw", ["k" * 1024, "%C3%BC" * 512, "%25%32%46", "a%0Ab", "%2e%2e/%2E"], ids=lambda t: t[:9])
@pytest.mark.parametrize(("start", "host"), [("/b/", "s3.test"), ("/", "b.s3.test")])
def test_keys_up_to_the_bound_are_decoded_once(start, host, raw):
    address = parse_address(start + raw, host, ("s3.test",))
    assert (address.bucket, address.key) == ("b", unquote(raw))
