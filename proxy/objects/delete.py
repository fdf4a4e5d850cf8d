"""DeleteObject: conditions are those of the object as the client knows it."""

from __future__ import annotations

from datetime import datetime
from email.utils import parsedate_to_datetime

from s4weights.proxy.errors import S3Error
from s4weights.proxy.upstream.protocol import Conditions, Headers, ObjectInfo, names_etag

from .guard import Guard
from .resolve import Resolver


async def delete_object(
    guard: Guard,
    resolver: Resolver,
    target: tuple[str, str],
    version_id: str | None,
    conditions: Conditions,
    headers: Headers,
) -> Headers:
    """Remove an object that meets the conditions. target: (bucket, key). Raises: S3Error PreconditionFailed."""
    bucket, key = target
    if conditions.asks_for_nothing():
        return await guard.remove(target, version_id, headers)
    try:
        found = await resolver.resolve_briefly(bucket, key, version_id=version_id)
    except S3Error as error:
        if error.status not in (404, 405):  # 405: a delete marker
            raise
        return await guard.upstream.delete(bucket, key, version_id=version_id, conditions=conditions, headers=headers)
    _check(conditions, found.info)
    return await guard.remove(target, version_id, headers, if_match=None if version_id else found.stored.etag)


def _check(conditions: Conditions, info: ObjectInfo) -> None:
    if conditions.if_match is not None and not names_etag(conditions.if_match, info.etag):
        raise S3Error("PreconditionFailed", Condition="If-Match")
    if conditions.if_match_size is not None and conditions.if_match_size.strip() != str(info.size):
        raise S3Error("PreconditionFailed", Condition="x-amz-if-match-size")
    if conditions.if_match_modified is not None and _seconds(
        conditions.if_match_modified
    ) != info.last_modified.replace(microsecond=0):
        raise S3Error("PreconditionFailed", Condition="x-amz-if-match-last-modified-time")


def _seconds(text: str) -> datetime | None:
    """A time in HTTP's form (a header) or ISO 8601 (a document); None: neither."""
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            return read(text.strip()).replace(microsecond=0)
        except ValueError:
            continue
    return None
