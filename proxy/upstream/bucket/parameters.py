"""Parts of a call as headers, or in the words of botocore."""

from __future__ import annotations

from s4weights.proxy.errors import S3Error
from s4weights.proxy.upstream.protocol import ByteRange, Conditions, Headers


def version(version_id: str | None) -> dict[str, str]:
    """Of one version, or of the newest."""
    return {"VersionId": version_id} if version_id else {}


def range_header(byte_range: ByteRange | None) -> dict[str, str]:
    """A Range header."""
    if byte_range is None:
        return {}
    if byte_range.first < 0:
        return {"range": f"bytes={byte_range.first}"}
    return {"range": f"bytes={byte_range.first}-{'' if byte_range.last is None else byte_range.last}"}


def condition_parameters(conditions: Conditions | None) -> dict[str, str]:
    """Conditions as parameters of botocore."""
    if conditions is None:
        return {}
    asked = {"IfMatch": conditions.if_match, "IfNoneMatch": conditions.if_none_match}
    return {name: value for name, value in asked.items() if value is not None}


def condition_headers(conditions: Conditions | None) -> dict[str, str]:
    """Conditions as headers."""
    names = {"IfMatch": "if-match", "IfNoneMatch": "if-none-match"}
    return {names[name]: value for name, value in condition_parameters(conditions).items()}


def check_sendable(headers: Headers) -> None:
    """Raises: S3Error InvalidArgument where a header cannot go on, as it cannot with an upload in parts."""
    for name, value in headers.items():
        if not value.isascii():
            raise S3Error("InvalidArgument", f"{name}: expected ASCII, found {value!r}")
