"""Conditional requests. Source: RFC 9110, section 13.2.2; S3 follows its order."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from s4weights.proxy.errors import S3Error
from s4weights.proxy.upstream.protocol import Conditions, ObjectInfo, names_etag


def read_conditions(headers: Mapping[str, str], prefix: str = "") -> Conditions:
    """The conditional headers of a request. prefix: `x-amz-copy-source-` for those on a copy's source."""
    return Conditions(
        if_match=headers.get(f"{prefix}if-match"),
        if_none_match=headers.get(f"{prefix}if-none-match"),
        if_modified_since=headers.get(f"{prefix}if-modified-since"),
        if_unmodified_since=headers.get(f"{prefix}if-unmodified-since"),
    )


def check_read(conditions: Conditions, info: ObjectInfo) -> bool:
    """Whether the body is wanted; False: 304 Not Modified. Raises: S3Error PreconditionFailed."""
    if conditions.if_match is not None:
        if not names_etag(conditions.if_match, info.etag):
            raise S3Error("PreconditionFailed", Condition="If-Match")
    elif (since := _time(conditions.if_unmodified_since)) is not None and _seconds(info.last_modified) > since:
        raise S3Error("PreconditionFailed", Condition="If-Unmodified-Since")
    if conditions.if_none_match is not None:
        return not names_etag(conditions.if_none_match, info.etag)
    since = _time(conditions.if_modified_since)
    return since is None or _seconds(info.last_modified) > since


def check_copy_source(conditions: Conditions, info: ObjectInfo) -> None:
    """A copy has no 304: every condition that fails is PreconditionFailed."""
    if not check_read(conditions, info):
        raise S3Error("PreconditionFailed", Condition="x-amz-copy-source-If-None-Match")


def _time(header: str | None) -> datetime | None:
    if header is None:
        return None
    try:
        moment = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None  # RFC 9110: a date that cannot be read is ignored
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _seconds(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)
