"""CopyObject on the bucket's side: what the source needs is pinned for the copy as well."""

from __future__ import annotations

from s4weights.proxy.errors import S3Error
from s4weights.proxy.lineage.calls import Need, NewObject, Occupant
from s4weights.proxy.lineage.protocol import copy_needs, unclaim
from s4weights.proxy.upstream.protocol import Conditions, Headers, Stored

from .guard import NO_CONTAINER, Guard
from .occupants import occupant_of
from .types import MARKER, MARKER_CONTAINER, LogicalObject


async def copy_object(
    guard: Guard,
    source: LogicalObject,
    target: tuple[str, str],
    headers: Headers,
    conditions: Conditions | None,
    *,
    replace: bool,
) -> Stored:
    """Copy the source to target (bucket, key). conditions: of stored ETags. replace: headers are the copy's own.

    A source that needs other bodies is copied within its bucket only: the caller sees to it.
    Raises: S3Error PreconditionFailed where the source is another one by now.
    """
    if replace:
        marker = MARKER_CONTAINER if source.is_container else source.stored.headers.get(MARKER)
        headers = {**headers, MARKER: marker} if marker else headers

    async def copy(stored_conditions: Conditions | None) -> Stored:
        return await guard.upstream.copy(
            (source.bucket, source.key),
            target,
            headers,
            replace=replace,
            source_if_match=source.stored.etag,
            source_version_id=source.version_id,
            conditions=stored_conditions,
        )

    there = occupant_of(source)
    if source.tail is None:
        return await guard.replace(target, NO_CONTAINER, conditions, copy)
    needs = await _pinned(guard, source, there, target)
    try:
        return await guard.replace(target, NewObject(there.content, there.depth, needs), conditions, copy)
    except BaseException:
        await guard.run(target[0], unclaim(needs, target[1]))
        raise


async def _pinned(guard: Guard, source: LogicalObject, there: Occupant, target: tuple[str, str]) -> tuple[Need, ...]:
    needs = await guard.run(target[0], copy_needs(source.key, there, target[1], version=source.version_id))
    if needs is None:
        raise S3Error("PreconditionFailed", Condition="x-amz-copy-source-If-Match")
    return needs
