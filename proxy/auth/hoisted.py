"""Headers that stand in the query of a presigned URL, where several SDKs put them; S3 takes them for headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from s4weights.proxy.checksums.algorithms import checksum_headers
from s4weights.proxy.http.fields import check_header

_PREFIX: Final = "x-amz-"
# Of the signature itself, or of a framing that a presigned body does not have. No more does S3 look at a checksum there: an SDK
# that signs before it knows the body puts that of an empty one.
_NOT_HOISTED: Final = frozenset(
    {
        "x-amz-algorithm",
        "x-amz-content-sha256",
        "x-amz-credential",
        "x-amz-date",
        "x-amz-decoded-content-length",
        "x-amz-expires",
        "x-amz-s3session-token",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-security-token",
        "x-amz-signature",
        "x-amz-signedheaders",
        "x-amz-trailer",
    }
)


def with_hoisted(headers: Mapping[str, str], query: Mapping[str, str]) -> Mapping[str, str]:
    """The headers (lower case) of a presigned request, with those of its query (decoded). Raises: S3Error InvalidArgument."""
    hoisted = {name.lower(): value for name, value in query.items()}
    ignored = _NOT_HOISTED.union(checksum_headers(hoisted))
    found = {name: value for name, value in hoisted.items() if name.startswith(_PREFIX) and name not in ignored}
    for name, value in found.items():
        check_header(name, value)
    return {**found, **headers}
